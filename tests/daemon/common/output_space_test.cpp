// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/output_space.hpp"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/base/temporary_folder.hpp"

namespace autotuned::daemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kMiB = 1 << 20;

recipes::Recipe recipe_with(const std::string& optimizer, const Json& parameters = Json::object()) {
  recipes::Recipe recipe;
  recipe.optimizer = {optimizer, parameters};
  return recipe;
}

TEST(OutputRoom, ACheckpointHasWhatTheOptimizerKeeps) {
  const auto checkpoint = [](const recipes::Recipe& recipe) {
    return output_need(recipe, 100).checkpoint_bytes;
  };
  EXPECT_EQ(checkpoint(recipe_with("sgd")), 100);
  EXPECT_EQ(checkpoint(recipe_with("sgd", {{"momentum", 0.9}})), 200);
  EXPECT_EQ(checkpoint(recipe_with("adamw")), 300);
  EXPECT_EQ(checkpoint(recipe_with("rmsprop", {{"momentum", 0.9}, {"centered", true}})), 400);
  EXPECT_EQ(checkpoint(recipe_with("something_new")), 100) << "a lower bound";
}

TEST(OutputRoom, WhatTheRecipeSavesCounts) {
  recipes::Recipe recipe = recipe_with("adam");
  recipe.step_rules.ema_decay = 0.99;
  recipe.evaluation.emplace().saves_best = true;
  recipe.save_every_epochs = 1;
  recipe.kept_saves = 3;
  const OutputNeed need = output_need(recipe, 100);
  EXPECT_EQ(need.checkpoint_bytes, 400);
  EXPECT_EQ(need.model_bytes, 200);
  EXPECT_EQ(need.saves_bytes, 800);
  EXPECT_EQ(need.most_bytes(), 1800);
}

TEST(OutputRoom, TellsWhatMayNotFitFromWhatCannot) {
  const OutputNeed need = output_need(recipe_with("adamw"), 100 * kMiB);  // 700 in all
  EXPECT_FALSE(space_finding(need, 700 * kMiB));
  const auto little = space_finding(need, 699 * kMiB);
  ASSERT_TRUE(little);
  EXPECT_FALSE(little->is_certain);
  EXPECT_THAT(little->text, AllOf(HasSubstr("699.0 MiB of the disk are free"),
                                  HasSubstr("may need 700.0 MiB: two checkpoints of 300.0 MiB")));
  const auto none = space_finding(need, 99 * kMiB);
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->is_certain);
  EXPECT_THAT(none->text, HasSubstr("the model takes 100.0 MiB: it cannot be written"));
}

TEST(OutputRoom, AsksTheNearestFolderThatIsThere) {
  const TemporaryFolder folder;
  recipes::Recipe recipe = recipe_with("sgd");
  recipe.output_dir = folder / "not/there/yet";
  const auto free = static_cast<std::int64_t>(std::filesystem::space(folder.path()).available);
  EXPECT_FALSE(output_space(recipe, 1));
  EXPECT_FALSE(output_space(recipe, 0)) << "not known";
  const auto none = output_space(recipe, 2 * free + kMiB);
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->is_certain);
  EXPECT_FALSE(output_space(recipe, 2 * free + kMiB, 8 * free + 8 * kMiB)) << "replaced";
}

}  // namespace
}  // namespace autotuned::daemon
