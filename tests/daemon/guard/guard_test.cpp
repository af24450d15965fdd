// SPDX-License-Identifier: Apache-2.0
#include "daemon/guard/guard.hpp"

#include <gtest/gtest.h>

#include "tests/golden.hpp"
#include "tuner/comparison.hpp"

namespace autotuned::daemon {
namespace {

constexpr double kTolerance = 0.05;

// What the other side, the candidate, reaches.
TrialRecord trial_of(Verdict verdict, const Estimate& estimate) {
  TrialRecord trial;
  trial.verdict = verdict;
  trial.estimate = estimate;
  trial.reference_samples_per_second = 1000;
  trial.candidate_samples_per_second = 1000 * estimate.ratio;
  return trial;
}

TrialRecord rejected(RejectionReason rejection, const Estimate& estimate) {
  TrialRecord trial = trial_of(Verdict::rejected, estimate);
  trial.rejection = rejection;
  trial.reason = "because";
  return trial;
}

TEST(Guard, IsSlowerWhereTheOtherSideIsFaster) {
  const GuardResult result =
      result_of(trial_of(Verdict::accepted, {.ratio = 1.25, .low = 1.1, .high = 2.0, .pairs = 9}),
                kTolerance);
  EXPECT_EQ(result.verdict, GuardVerdict::slower);
  EXPECT_DOUBLE_EQ(result.ratio.ratio, 0.8);
  EXPECT_DOUBLE_EQ(result.ratio.low, 0.5);
  EXPECT_DOUBLE_EQ(result.ratio.high, 1 / 1.1);
  EXPECT_EQ(result.own_samples_per_second, 1000);
  EXPECT_EQ(result.against_samples_per_second, 1250);
}

TEST(Guard, IsNotSlowerOnlyWhereALossIsExcluded) {
  const Estimate equal{.ratio = 1.0, .low = 0.96, .high = 1.04, .pairs = 20};
  EXPECT_EQ(result_of(rejected(RejectionReason::no_gain, equal), kTolerance).verdict,
            GuardVerdict::not_slower);
  EXPECT_EQ(result_of(rejected(RejectionReason::no_gain, equal), 0.03).verdict,
            GuardVerdict::undecided)
      << "the interval holds a loss of three per cent";
  const Estimate gain{.ratio = 0.8, .low = 0.7, .high = 0.9, .pairs = 20};
  EXPECT_EQ(result_of(rejected(RejectionReason::slower, gain), kTolerance).verdict,
            GuardVerdict::not_slower);
}

TEST(Guard, IsUndecidedWhereTheTimeWasTooShort) {
  const GuardResult result =
      result_of(rejected(RejectionReason::undecided_in_time,
                         {.ratio = 1.0, .low = 0.0, .high = tuner::kNoUpperEnd, .pairs = 2}),
                kTolerance);
  EXPECT_EQ(result.verdict, GuardVerdict::undecided);
  EXPECT_EQ(result.reason, "too few pairs for an interval");
  EXPECT_EQ(result.ratio.low, 0.0);
  EXPECT_EQ(result.ratio.high, tuner::kNoUpperEnd);
  // Memory says nothing of the rate, rare stalls leave it open.
  for (const RejectionReason other : {RejectionReason::memory_limit, RejectionReason::totals}) {
    EXPECT_EQ(
        result_of(rejected(other, {.ratio = 1.2, .low = 1.1, .high = 1.3, .pairs = 9}), kTolerance)
            .verdict,
        GuardVerdict::undecided);
  }
}

// Its few pairs say nothing in either direction.
TEST(Guard, IsUndecidedWhereSomethingDisturbedIt) {
  TrialRecord trial = rejected(RejectionReason::undecided_in_time,
                               {.ratio = 1.25, .low = 1.1, .high = 2.0, .pairs = 9});
  trial.failure = ErrorKind::unsupported;
  const GuardResult result = result_of(trial, kTolerance);
  EXPECT_EQ(result.verdict, GuardVerdict::undecided);
  EXPECT_EQ(result.reason, "because");
}

// Not the sentence of the trial, whose ratio is the other way round.
TEST(Guard, SaysWhyInTheDirectionOfItsRatio) {
  const Estimate open{.ratio = 1.25, .low = 0.8, .high = 2.0, .pairs = 1};
  const GuardResult result =
      result_of(rejected(RejectionReason::undecided_in_time, open), kTolerance);
  EXPECT_EQ(result.verdict, GuardVerdict::undecided);
  EXPECT_EQ(result.reason,
            "the ratio may be 0.50 to 1.25, which neither excludes nor shows a loss of 5.0 % of "
            "this side's rate");
  EXPECT_EQ(result_of(rejected(RejectionReason::memory_limit, open), kTolerance).reason, "because");
}

// The other side is faster, whatever a training would have to repay.
TEST(Guard, LeavesOutWhatAChangeCostsOnce) {
  EXPECT_EQ(result_of(rejected(RejectionReason::not_repaid,
                               {.ratio = 1.3, .low = 1.2, .high = 1.4, .pairs = 9}),
                      kTolerance)
                .verdict,
            GuardVerdict::slower);
}

GuardSpec plan_of_settings() {
  GuardSpec spec;
  spec.own.name = "small.yaml";
  spec.own.trainer = "/bin/trainer";
  spec.own.configuration.set("loader.workers", std::int64_t{0});
  spec.against = spec.own;
  return spec;
}

TEST(Guard, MeasuresSettingsOfOneJobInOneJob) {
  GuardSpec spec = plan_of_settings();
  EXPECT_TRUE(spec.is_of_one());
  spec.against.configuration.set("loader.workers", std::int64_t{2});
  spec.against.recipe.name = "best";
  spec.against.recipe.output_dir = "/elsewhere";
  spec.against.recipe.start = spec.against.configuration;
  spec.against.recipe.train.batch_size = 64;
  EXPECT_FALSE(spec.is_of_one());
  EXPECT_FALSE(spec.has_two_jobs());
  spec.against.recipe.model.type = "resnet18";
  EXPECT_TRUE(spec.has_two_jobs());
  spec = plan_of_settings();
  spec.against.trainer = "/old/trainer";
  EXPECT_TRUE(spec.has_two_jobs());
}

TEST(Guard, PrintsATableAndTheSameAsJson) {
  GuardSpec spec = plan_of_settings();
  spec.against.name = "best.yaml";
  spec.against.configuration.set("loader.workers", std::int64_t{2});
  GuardResult result =
      result_of(trial_of(Verdict::accepted, {.ratio = 1.25, .low = 1.1, .high = 2.0, .pairs = 9}),
                kTolerance);
  result.own_build = "0.1, LibTorch 2.11";
  tests::Cases cases;
  cases.add("slower", "\n" + guard_text(spec, result));
  const Json json = guard_json(spec, result);
  EXPECT_EQ(json.at("verdict"), "slower");
  EXPECT_DOUBLE_EQ(json.at("ratio").get<double>(), 0.8);
  EXPECT_EQ(json.at("against").at("configuration").at("loader.workers"), 2);
  EXPECT_EQ(json.at("this").at("samples_per_second"), 1000);

  const GuardSpec same = plan_of_settings();
  cases.add("not measured", "\n" + guard_text(same, unmeasured()));
  GuardResult undecided = result_of(rejected(RejectionReason::undecided_in_time,
                                             {.ratio = 1.25, .low = 0.8, .high = 2.0, .pairs = 1}),
                                    kTolerance);
  cases.add("undecided", "\n" + guard_text(same, undecided));
  undecided.process_pairs = 1;
  cases.add("undecided, in pairs of processes", "\n" + guard_text(same, undecided));
  tests::expect_golden("daemon/guard/golden/guard.txt", cases.text());
  EXPECT_TRUE(guard_json(same, unmeasured()).at("ratio").is_null());
}

}  // namespace
}  // namespace autotuned::daemon
