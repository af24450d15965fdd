// SPDX-License-Identifier: Apache-2.0
// What `autotuned init` writes is read without a mistake. tests/integration/init_check_test.cpp asks a trainer, too.
#include "daemon/guide/starter_recipe.hpp"

#include <gmock/gmock.h>

#include "base/machine/machine.hpp"
#include "recipes/knobs.hpp"
#include "recipes/recipe.hpp"
#include "tests/daemon/guide/data_samples.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string recipe_for(const TemporaryFolder& folder, bool has_gpu = false) {
  const auto data = look_at_data(folder.path(), folder.path());
  EXPECT_TRUE(data);
  return starter_recipe(
      data.value_or(DataFolder{}),
      {.name = "mine", .recipe = "recipe.yaml", .schema = {}, .has_gpu = has_gpu});
}

class StarterRecipes : public testing::TestWithParam<std::string> {};

TEST_P(StarterRecipes, AreReadWithoutAMistake) {
  const TemporaryFolder folder;
  tests::write_data(folder, "", GetParam());
  for (const bool has_gpu : {false, true}) {
    const std::string text = recipe_for(folder, has_gpu);
    const auto recipe =
        recipes::parse_recipe(text, folder / "recipe.yaml", recipes::knobs_of(Machine{}));
    ASSERT_TRUE(recipe) << recipe.error().front().text() << "\n" << text;
    EXPECT_EQ(recipe->name, "mine");
  }
  tests::expect_golden("daemon/guide/golden/recipe_" + GetParam() + ".yaml", recipe_for(folder));
}

INSTANTIATE_TEST_SUITE_P(Data, StarterRecipes, testing::ValuesIn(tests::kinds_of_data()),
                         [](const auto& tested) { return tested.param; });

TEST(StarterRecipe, FitsTheSizeOfThePictures) {
  DataFolder data{.samples = Samples::pictures, .found = "9 pictures in 3 classes"};
  data.data = "type: image_files, files: \"*/*.jpg\"";
  data.count = 9;
  data.classes = 3;
  data.shorter_side = 400;
  const StarterSpec spec{.name = "mine", .recipe = "recipe.yaml"};
  StarterSpec with_gpu = spec;
  with_gpu.has_gpu = true;
  EXPECT_THAT(starter_recipe(data, spec), HasSubstr("random_resized_crop: {size: 128}"));
  EXPECT_THAT(starter_recipe(data, with_gpu), HasSubstr("random_resized_crop: {size: 224}"));
  data.shorter_side = 32;
  EXPECT_THAT(starter_recipe(data, spec), HasSubstr("model: {type: simple_cnn, classes: 3}"));
  EXPECT_THAT(starter_recipe(data, spec), HasSubstr("batch_size: 4 "))
      << "half of the samples fill a batch";
  EXPECT_THAT(starter_recipe(data, spec), Not(HasSubstr("evaluate:"))) << "too few to test on";
}

// With enough samples a part is tested on, by the figures of the task.
TEST(StarterRecipe, TestsOnATenthOfManySamples) {
  const StarterSpec spec{.name = "mine", .recipe = "recipe.yaml"};
  DataFolder masks{.samples = Samples::pictures, .found = "500 pictures with masks"};
  masks.has_masks = true;
  masks.count = 500;
  EXPECT_THAT(starter_recipe(masks, spec), HasSubstr("# Mean IoU on a tenth of the samples"));
  DataFolder numbers{.samples = Samples::pictures};
  numbers.data = "type: image_targets, index: table.csv";
  numbers.count = 1000;
  numbers.targets = TargetKind::numbers;
  numbers.classes = 1;
  EXPECT_THAT(starter_recipe(numbers, spec),
              HasSubstr("# Mean absolute error and R² on a tenth of the samples"));
}

TEST(StarterRecipe, NamesTheSchemaForEditors) {
  const StarterSpec spec{
      .name = "mine", .recipe = "recipe.yaml", .schema = "/usr/share/recipe.schema.json"};
  EXPECT_THAT(starter_recipe(DataFolder{}, spec),
              StartsWith("# yaml-language-server: $schema=/usr/share/recipe.schema.json\n"));
}

TEST(StarterRecipe, NamesOfFoldersBecomeNamesOfJobs) {
  EXPECT_EQ(starter_name("photos"), "photos");
  EXPECT_EQ(starter_name("my photos/2"), "my-photos-2");
  EXPECT_EQ(starter_name("2024"), "job-2024");
  EXPECT_EQ(starter_name("No"), "job-No");
  EXPECT_EQ(starter_name(""), "job");
}

}  // namespace
}  // namespace autotuned::daemon
