// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/trainer_plugins.hpp"

#include <gmock/gmock.h>

#include "recipes/recipe.hpp"

namespace autotuned::daemon {
namespace {

recipes::Recipe recipe_of_a_workload() {
  recipes::Recipe recipe;
  recipe.file = "recipe.yaml";
  recipe.model.type = "plugin";
  recipe.model.parameters = {{"plugin", "tiny"}, {"line", 4}, {"column", 17}};
  return recipe;
}

// Not that its file is missing: it is there.
TEST(WorkloadProblems, OneThatIsLeftOutIsNamedWithTheOption) {
  const auto problems = workload_problems(recipe_of_a_workload(), {}, {"other", "tiny"});
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].text(),
            "recipe.yaml:4:17: model: the recipe needs plugin tiny, which is left out; remove "
            "--without tiny");
  const auto libraries = libraries_for(recipe_of_a_workload(), {}, {"tiny"});
  ASSERT_FALSE(libraries);
  EXPECT_EQ(libraries.error().kind, ErrorKind::invalid);
  EXPECT_EQ(libraries.error().what, "the recipe needs plugin tiny, which is left out");
}

TEST(WorkloadProblems, OneThatIsMissingIsNamedWithTheFolders) {
  const auto problems = workload_problems(recipe_of_a_workload(), {}, {"other"});
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_THAT(problems[0].text(), testing::HasSubstr("--plugin-dir"));
}

}  // namespace
}  // namespace autotuned::daemon
