// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/job_check.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.hpp"
#include "tests/places.hpp"
#include "tests/trainer/small_job.hpp"

namespace autotuned::trainer {
namespace {

// As loading does: two of the training's three names are enough to evaluate on.
TEST(RecipeCheck, OpensTestDataByTheNamesOfTheTraining) {
  const TemporaryFolder folder;
  std::filesystem::copy(tests::source_folder() / "tests/trainer/input/data/png_grey.png",
                        folder / "a.png");
  folder.write("train.csv", "a.png,ant\na.png,bee\na.png,cat\n");
  folder.write("test.csv", "a.png,ant\na.png,cat\n");
  recipes::Recipe recipe = small_recipe();
  const auto table = [&folder](const char* name) {
    return recipes::Component{"image_index", {{"index", (folder / name).string()}, {"classes", 3}}};
  };
  recipe.model.parameters["classes"] = 3;
  recipe.data = table("train.csv");
  recipe.evaluation->data = table("test.csv");
  const auto found = check_recipe(recipe, starting(recipe), test_machine(), cpu_only(), {});
  ASSERT_TRUE(found) << found.error().message();
  for (const RecipeProblem& problem : found->problems)
    EXPECT_THAT(problem.error.message(), testing::Not(testing::HasSubstr("different labels")));
}

// A split draws lines, and a picture with several of them could be trained on and tested on.
TEST(RecipeCheck, NotesPicturesThatATableNamesTwice) {
  const TemporaryFolder folder;
  for (const char* const name : {"a.jpg", "b.jpg", "c.jpg"}) {
    std::filesystem::copy(tests::source_folder() / "tests/trainer/input/data/420_16x32.jpg",
                          folder / name);
  }
  recipes::Recipe recipe = small_recipe();
  recipe.input = {{"decode", Json::object()}, {"to_float", Json::object()}};
  recipe.train.batch_size = 2;
  recipe.evaluation = recipes::Evaluation{.every = "epoch"};
  recipe.evaluation->split_ratio = 0.25;
  const auto notes_of = [&](const std::string& table) {
    recipe.data = {"image_index", {{"index", folder.write("index.csv", table).string()}}};
    const auto found = check_recipe(recipe, starting(recipe), test_machine(), cpu_only(), {});
    EXPECT_TRUE(found && found->problems.empty());
    return found ? found->notes : std::vector<std::string>();
  };
  EXPECT_THAT(notes_of("a.jpg,0\nb.jpg,1\nc.jpg,2\n"),
              testing::Not(testing::Contains(testing::HasSubstr("named more than once"))));
  EXPECT_THAT(notes_of("a.jpg,0\nb.jpg,1\nc.jpg,2\na.jpg,0\n"),
              testing::Contains(testing::AllOf(
                  testing::HasSubstr("evaluate.split: 1 file is named more than once"),
                  testing::HasSubstr((folder / "a.jpg").string() + " (2 times)"))));
}

// The accuracy of one sample is 0 % or 100 %.
TEST(RecipeCheck, NotesATestWithFewerSamplesThanClasses) {
  recipes::Recipe recipe = small_recipe();
  const auto notes_of = [&recipe] {
    const auto found = check_recipe(recipe, starting(recipe), test_machine(), cpu_only(), {});
    EXPECT_TRUE(found && found->problems.empty());
    return found ? found->notes : std::vector<std::string>();
  };
  const std::string few = ", fewer than the 4 classes: its accuracy says little";
  const auto is_large_enough = testing::Not(testing::Contains(testing::HasSubstr("says little")));
  EXPECT_THAT(notes_of(), is_large_enough) << "50 of 4 classes";
  recipe.evaluation->data.parameters["samples"] = 3;
  EXPECT_THAT(notes_of(), testing::Contains("evaluate.data: the test has 3 samples" + few));
  recipe.evaluation = recipes::Evaluation{.every = "epoch"};
  recipe.evaluation->split_ratio = 0.000001;
  EXPECT_THAT(notes_of(), testing::Contains("evaluate.split: the test has 1 sample" + few));
  recipe.evaluation->split_ratio = 0.02;
  EXPECT_THAT(notes_of(), is_large_enough) << "4 of 200";
}

// A validation picture, too, must be known of before the tuning begins.
TEST(RecipeCheck, NotesPicturesThatOthersReplace) {
  const TemporaryFolder folder;
  for (const char* const name : {"train/x/a.jpg", "train/x/b.jpg", "val/x/a.jpg"}) {
    std::filesystem::create_directories((folder / name).parent_path());
    std::filesystem::copy(tests::source_folder() / "tests/trainer/input/data/420_16x32.jpg",
                          folder / name);
  }
  const auto text = folder.write("val/x/b.jpg", "this is no picture");
  recipes::Recipe recipe = small_recipe();
  recipe.input = {{"decode", Json::object()}, {"to_float", Json::object()}};
  recipe.train.batch_size = 2;
  const auto files = [&folder](const char* part) {
    const std::string pattern = (folder / part / "x/*.jpg").string();
    return recipes::Component{"image_files",
                              {{"files", pattern}, {"classes", 3}, {"on_error", "skip"}}};
  };
  recipe.data = files("train");
  recipe.evaluation = recipes::Evaluation{.every = "epoch"};
  recipe.evaluation->data = files("val");
  const auto found = check_recipe(recipe, starting(recipe), test_machine(), cpu_only(), {});
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_THAT(found->notes,
              testing::Contains("evaluate.data: 1 picture cannot be read, by the headers, and will "
                                "be replaced by others: " +
                                text.string() + ": is neither a JPEG nor a PNG file"));
}

}  // namespace
}  // namespace autotuned::trainer
