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

TEST(StarterRecipe, BeginsWithOneEpochOfALongTextOnACpu) {
  DataFolder text{.samples = Samples::tokens};
  text.data = "type: tokens, files: book.txt, context: 128";
  StarterSpec spec{.name = "mine", .recipe = "recipe.yaml"};
  const auto epochs = [&](std::int64_t samples, bool has_gpu) {
    text.count = samples;
    spec.has_gpu = has_gpu;
    const std::string recipe = starter_recipe(text, spec);
    return recipe.substr(recipe.find("epochs: "), 9);
  };
  EXPECT_EQ(epochs(4000, false), "epochs: 1");
  EXPECT_EQ(epochs(4000, true), "epochs: 5");
  EXPECT_EQ(epochs(600, false), "epochs: 5");
}

TEST(StarterRecipe, FitsTheSamples) {
  DataFolder data{.samples = Samples::pictures, .found = "9 pictures in 3 classes"};
  data.data = "type: image_files, files: \"*/*.jpg\"";
  data.count = 9;
  data.classes = 3;
  data.shorter_side = 400;
  const StarterSpec spec{.name = "mine", .recipe = "recipe.yaml"};
  StarterSpec with_gpu = spec;
  with_gpu.has_gpu = true;
  const std::string large = starter_recipe(data, spec);
  tests::Cases cases;
  cases.add("nine large pictures: half of them fill a batch, and they are too few to test on",
            "\n" + large);
  cases.add_difference("the same with a GPU", large, starter_recipe(data, with_gpu));
  data.shorter_side = 32;
  cases.add_difference("small pictures", large, starter_recipe(data, spec));
  // With enough samples a part is tested on, by the figures of the task.
  DataFolder masks{.samples = Samples::pictures, .found = "500 pictures with masks"};
  masks.has_masks = true;
  masks.count = 500;
  const std::string many_masks = starter_recipe(masks, spec);
  cases.add_difference("many masks", large, many_masks);
  // The largest that a U-Net takes and the pictures fill, up to what is small enough for the device.
  masks.shorter_side = 48;
  cases.add_difference("many masks of 48 pixels", many_masks, starter_recipe(masks, spec));
  masks.shorter_side = 10;
  cases.add_difference("many masks of 10 pixels", many_masks, starter_recipe(masks, spec));
  masks.shorter_side = 1000;
  cases.add_difference("large masks with a GPU", many_masks, starter_recipe(masks, with_gpu));
  DataFolder numbers{.samples = Samples::pictures};
  numbers.data = "type: image_targets, index: table.csv";
  numbers.count = 1000;
  numbers.targets = TargetKind::numbers;
  numbers.classes = 1;
  cases.add_difference("many numbers", large, starter_recipe(numbers, spec));
  tests::expect_golden("daemon/guide/golden/recipe_sizes.txt", cases.text());
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
