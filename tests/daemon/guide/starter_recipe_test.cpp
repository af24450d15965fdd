// SPDX-License-Identifier: Apache-2.0
// What `autotuned init` writes is read without a mistake. tests/integration/init_check_test.cpp asks a trainer, too.
#include "daemon/guide/starter_recipe.hpp"

#include <gmock/gmock.h>

#include "base/machine/machine.hpp"
#include "recipes/knobs.hpp"
#include "recipes/recipe.hpp"
#include "tests/daemon/guide/data_samples.hpp"

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
    EXPECT_THAT(text, HasSubstr("autotuned run recipe.yaml"));
  }
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

TEST(StarterRecipe, HasAModelForMasks) {
  const TemporaryFolder folder;
  tests::write_data(folder, "", "masks");
  const std::string text = recipe_for(folder);
  EXPECT_THAT(text, HasSubstr("model: {type: unet, width: 32, classes: 2}"));
  EXPECT_THAT(text, HasSubstr("\n# 12 masks were read: the pixels have the numbers 0, 1, 255, "));
  DataFolder many{.samples = Samples::pictures, .found = "500 pictures with masks"};
  many.has_masks = true;
  many.count = 500;
  EXPECT_THAT(starter_recipe(many, {.name = "mine", .recipe = "recipe.yaml"}),
              HasSubstr("# Mean IoU on a tenth of the samples"));
}

TEST(StarterRecipe, FitsTheTargetsOfATable) {
  const TemporaryFolder numbers;
  tests::write_data(numbers, "", "numbers");
  const std::string regression = recipe_for(numbers);
  EXPECT_THAT(regression, HasSubstr("# An output for each number: age, height. "));
  EXPECT_THAT(regression, HasSubstr("model: {type: simple_cnn, classes: 2}"));
  EXPECT_THAT(regression, HasSubstr("\nloss: mse "));
  EXPECT_THAT(regression, HasSubstr("  - resize: {size: 32}"));
  EXPECT_THAT(regression, Not(HasSubstr("random_resized_crop")));
  const TemporaryFolder tags;
  tests::write_data(tags, "", "tags");
  const std::string labels = recipe_for(tags);
  EXPECT_THAT(labels, HasSubstr("# An output for each tag: cat, dog, emu. "));
  EXPECT_THAT(labels, HasSubstr("\nloss: bce "));
  EXPECT_THAT(labels, HasSubstr("random_resized_crop"));
  // With enough of them a part is tested on, by other figures.
  DataFolder many{.samples = Samples::pictures};
  many.data = "type: image_targets, index: table.csv";
  many.count = 1000;
  many.targets = TargetKind::numbers;
  many.classes = 1;
  EXPECT_THAT(starter_recipe(many, {.name = "mine", .recipe = "recipe.yaml"}),
              HasSubstr("# Mean absolute error and R² on a tenth of the samples"));
}

TEST(StarterRecipe, OfATextHasAModelForIt) {
  const TemporaryFolder folder;
  tests::write_data(folder, "", "text");
  const std::string text = recipe_for(folder);
  EXPECT_THAT(text, HasSubstr("model: {type: gpt,"));
  EXPECT_THAT(text, HasSubstr("Loss and perplexity of the last tenth"));
  EXPECT_THAT(text, Not(HasSubstr("input:"))) << "pictures have transforms";
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
