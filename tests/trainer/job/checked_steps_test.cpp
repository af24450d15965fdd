// SPDX-License-Identifier: Apache-2.0
// Steps that a check looks at.
#include <gmock/gmock.h>

#include "tests/trainer/small_job.hpp"
#include "tests/trainer/updates.hpp"
#include "trainer/job/job.hpp"
#include "tuner/checks.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kSteps = 8;  // those of the check

// The look at a process that was measured: from the initial state, at that place.
CheckedSteps look(Job& job, const Configuration& configuration, const std::string& name,
                  const std::string& from = "initial", const TrainingPlace& place = {}) {
  value_of(job.prepare(configuration));
  EXPECT_TRUE(job.restore(from, place));
  CheckedSteps checked = value_of(job.check_steps(
      {.steps = kSteps, .crosses_epoch = true, .keeps_outputs_before = true}, never));
  value_of(job.keep(name));
  return checked;
}

tuner::UpdateComparison compared(const Job& job, const CheckedSteps& reference,
                                 const CheckedSteps& candidate,
                                 const std::string& candidate_base = "initial") {
  tuner::UpdateComparison updates =
      updates_of(value_of(job.compare("initial", "reference", "candidate", candidate_base)),
                 reference.block.losses, candidate.block.losses);
  const auto told = [](const CheckedSteps& checked) {
    std::vector<tuner::UpdateComparison::StepInput> inputs;
    for (const StepInput& one : checked.inputs) {
      inputs.push_back({std::to_string(one.labels), std::to_string(one.images), one.projections});
    }
    return inputs;
  };
  updates.reference_inputs = told(reference);
  updates.candidate_inputs = told(candidate);
  return updates;
}

TEST(JobCheck, AnotherWayOfLoadingIsEqualWhereverTheJobStands) {
  const auto job = load(small_cnn_recipe());
  const Configuration start = starting(small_cnn_recipe());
  const TrainingPlace place = {.epoch = 3, .sample = 60, .steps = 33};
  const CheckedSteps reference = look(*job, start, "reference", "initial", place);
  EXPECT_EQ(reference.block.steps, kSteps);
  EXPECT_EQ(reference.block.losses.size(), 8U);
  EXPECT_EQ(job->steps(), 33 + kSteps);
  ASSERT_EQ(reference.inputs.size(), 8U);
  EXPECT_EQ(reference.inputs[0].projections.size(), 20U);
  // Two steps before the end of epoch 3, then two of the next.
  EXPECT_EQ(job->place().epoch, 4);
  EXPECT_EQ(job->place().sample, 40);
  const Configuration loaded =
      with(with(start, "loader.workers", std::int64_t{2}), "transfer.dtype", std::string("uint8"));
  const CheckedSteps candidate = look(*job, loaded, "candidate", "initial", place);
  const CheckRecord check = tuner::check_equal(compared(*job, reference, candidate));
  EXPECT_TRUE(check.passed) << check.detail;
}

TEST(JobCheck, OtherSamplesAreSeen) {
  const auto job = load(small_cnn_recipe());
  const Configuration start = starting(small_cnn_recipe());
  const CheckedSteps reference = look(*job, start, "reference");
  const CheckedSteps candidate = look(*job, start, "candidate", "initial", {.epoch = 1});
  const tuner::UpdateComparison updates = compared(*job, reference, candidate);
  EXPECT_THAT(tuner::check_equal(updates).detail, HasSubstr("of step 1 are not the reference's"));
  EXPECT_THAT(tuner::check_numerics(updates).detail,
              HasSubstr("of step 1 are not the reference's"));
}

TEST(JobCheck, LooksWithoutAnyEffectOnTheTraining) {
  const auto job = load(small_cnn_recipe());
  value_of(job->run_steps(kSteps, never));
  const std::string expected = value_of(job->digest());
  EXPECT_TRUE(job->restore("initial"));
  value_of(job->check_steps({.steps = kSteps, .keeps_outputs_before = true}, never));
  EXPECT_EQ(value_of(job->digest()), expected);
  EXPECT_EQ(job->place().sample, kSteps * 20);
}

TEST(JobCheck, RefusesAPlaceThatTheDataDoNotHave) {
  const auto job = load(small_recipe());
  EXPECT_FALSE(job->restore("initial", {.epoch = 0, .sample = 201}));
  EXPECT_FALSE(job->restore("initial", {.epoch = -1}));
  EXPECT_TRUE(job->restore("initial", {.epoch = 7, .sample = 200}));
}

}  // namespace
}  // namespace autotuned::trainer
