// SPDX-License-Identifier: Apache-2.0
// Whole jobs with models that have buffers, that draw random numbers, and with schedules.
#include <cmath>

#include "tests/trainer/small_job.hpp"

namespace autotuned::trainer {
namespace {

// 12 samples of 3 x 32 x 32 in batches of 4.
recipes::Recipe recipe_with(const std::string& type, Json parameters) {
  recipes::Recipe recipe = small_recipe();
  parameters["classes"] = 4;
  recipe.model = {type, parameters};
  recipe.data.parameters["samples"] = 12;
  recipe.data.parameters["shape"] = {3, 32, 32};
  recipe.evaluation->data.parameters["samples"] = 5;
  recipe.evaluation->data.parameters["shape"] = {3, 32, 32};
  recipe.train.batch_size = 4;
  return recipe;
}

recipes::Recipe resnet_recipe() {
  return recipe_with("resnet18", Json::object());
}

recipes::Recipe vit_recipe() {
  return recipe_with("vit", {{"size", "tiny"},
                             {"patch", 8},
                             {"depth", 1},
                             {"embed", 16},
                             {"heads", 2},
                             {"pool", "token"},
                             {"patch_dropout", 0.5}});
}

recipes::Recipe mobilenet_recipe() {
  return recipe_with("mobilenet_v3_small", {{"dropout", 0.5}});
}

std::string digest(Job& job) {
  return value_of(job.digest());
}

std::vector<double> losses_of(Job& job, std::int64_t steps) {
  return value_of(job.run_steps(steps, never)).losses;
}

class JobWith : public testing::TestWithParam<recipes::Recipe> {};

INSTANTIATE_TEST_SUITE_P(Models, JobWith,
                         testing::Values(resnet_recipe(), vit_recipe(), mobilenet_recipe()),
                         [](const auto& one) { return one.param.model.type; });

TEST_P(JobWith, TrainsOnFromACheckpointBitForBit) {
  const auto job = load(GetParam());
  ASSERT_TRUE(job);
  const std::string initial = digest(*job);
  (void)losses_of(*job, 1);
  ASSERT_TRUE(job->keep("one"));
  const std::string after_one = digest(*job);
  EXPECT_NE(after_one, initial);
  const std::vector<double> losses = losses_of(*job, 2);
  const std::string after_three = digest(*job);

  ASSERT_TRUE(job->restore("one"));
  EXPECT_EQ(digest(*job), after_one);
  EXPECT_EQ(losses_of(*job, 2), losses);
  EXPECT_EQ(digest(*job), after_three);

  // Through a file into another process's job.
  const Folder folder;
  ASSERT_TRUE(job->export_to(folder / "one", "one", "note"));
  const auto other = load(GetParam());
  ASSERT_TRUE(other);
  ASSERT_TRUE(other->import_from(folder / "one", "one"));
  ASSERT_TRUE(other->restore("one"));
  EXPECT_EQ(losses_of(*other, 2), losses);
  EXPECT_EQ(digest(*other), after_three);

  ASSERT_TRUE(job->restore("initial"));
  EXPECT_EQ(digest(*job), initial);
}

// Neither the running means of batch normalisation nor a random generator moves.
TEST_P(JobWith, EvaluationChangesNothing) {
  const auto job = load(GetParam());
  ASSERT_TRUE(job);
  (void)losses_of(*job, 1);
  ASSERT_TRUE(job->keep("one"));
  const std::vector<double> losses = losses_of(*job, 1);
  ASSERT_TRUE(job->restore("one"));
  const std::string before = digest(*job);
  const TestResult first = value_of(job->evaluate(never));
  EXPECT_TRUE(std::isfinite(first.loss));
  EXPECT_EQ(value_of(job->evaluate(never)).loss, first.loss);
  EXPECT_EQ(digest(*job), before);
  EXPECT_EQ(losses_of(*job, 1), losses);
}

TEST_P(JobWith, MemoryFormatKeepsTheState) {
  const auto job = load(GetParam());
  ASSERT_TRUE(job);
  (void)losses_of(*job, 1);
  const std::string before = digest(*job);
  const Configuration plain = job->configuration();
  ASSERT_TRUE(job->prepare(with(plain, "layout.memory_format", std::string("channels_last"))));
  EXPECT_EQ(digest(*job), before);
  ASSERT_TRUE(job->keep("here"));
  const std::vector<double> losses = losses_of(*job, 1);
  EXPECT_TRUE(std::isfinite(losses.at(0)));
  ASSERT_TRUE(job->restore("here"));
  ASSERT_TRUE(job->prepare(plain));
  EXPECT_EQ(digest(*job), before);
  EXPECT_NEAR(losses_of(*job, 1).at(0), losses[0], 1e-3);
}

// A rate that no float32 can show follows from the samples seen, in whatever way they were trained on.
TEST(Schedule, AppliesInEveryKindOfStep) {
  recipes::Recipe recipe = small_recipe();  // 10 steps per epoch
  recipe.schedule = {"step", {{"step_epochs", 1}, {"gamma", 1e-12}}};
  const auto job = load(recipe);
  ASSERT_TRUE(job);
  (void)losses_of(*job, 9);
  const std::string after_nine = digest(*job);
  job->resume_loading();
  ASSERT_TRUE(job->advance({.steps = 1}, never));
  job->pause_loading();
  const std::string after_epoch = digest(*job);
  EXPECT_NE(after_epoch, after_nine);

  (void)losses_of(*job, 2);
  ASSERT_TRUE(job->run({.minimum_steps = 2, .warmup_steps = 1}, never));
  job->resume_loading();
  ASSERT_TRUE(job->advance({.steps = 2}, never));
  job->pause_loading();
  EXPECT_EQ(digest(*job), after_epoch);

  // Back before the drop it learns again.
  ASSERT_TRUE(job->restore("initial"));
  (void)losses_of(*job, 9);
  EXPECT_EQ(digest(*job), after_nine);
}

TEST(Schedule, ConstantChangesNoBit) {
  recipes::Recipe recipe = small_recipe();
  recipe.schedule = {"step", {{"step_epochs", 1000}, {"gamma", 0.1}}};
  const auto plain = load(small_recipe());
  const auto stepped = load(recipe);
  (void)losses_of(*plain, 12);
  (void)losses_of(*stepped, 12);
  EXPECT_EQ(digest(*plain), digest(*stepped));
}

TEST(LossOfAJob, MseTrains) {
  recipes::Recipe recipe = small_recipe();
  recipe.loss = "mse";
  const auto job = load(recipe);
  ASSERT_TRUE(job);
  const std::vector<double> losses = losses_of(*job, 40);
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_LT(value_of(job->evaluate(never)).loss, losses.front());
}

}  // namespace
}  // namespace autotuned::trainer
