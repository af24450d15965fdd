// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/job_check.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <string>

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
    return recipes::Typed{"image_index", {{"index", (folder / name).string()}, {"classes", 3}}};
  };
  recipe.model.parameters["classes"] = 3;
  recipe.data = table("train.csv");
  recipe.evaluation->data = table("test.csv");
  const auto found = check_recipe(recipe, starting(recipe), test_machine(), cpu_only(), {});
  ASSERT_TRUE(found) << found.error().message();
  for (const RecipeProblem& problem : found->problems)
    EXPECT_THAT(problem.error.message(), testing::Not(testing::HasSubstr("different labels")));
}

}  // namespace
}  // namespace autotuned::trainer
