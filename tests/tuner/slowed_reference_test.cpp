// SPDX-License-Identifier: Apache-2.0
// A gain of an extension over a reference that is far slower than it was before the trial.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "tests/tuner/simulation.hpp"
#include "tuner/trial.hpp"

namespace autotuned::tuner {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

constexpr const char* kKnob = "mine.way";
// The simulated job reports a thousand times the rate that a test gives.
constexpr double kReported = 1000.0;

class SlowedReference : public testing::Test {
 protected:
  SlowedReference() {
    recipes::Knob knob = recipes::find_knob(simulation_.input.knobs, "loader.workers").value();
    knob.name = kKnob;
    simulation_.input.knobs.push_back(knob);
    simulation_.input.supported_knobs.emplace_back(kKnob);
    simulation_.input.extension_knobs.emplace_back(kKnob);
    simulation_.input.starting.set(kKnob, std::int64_t{0});
  }

  // One trial in which the two configurations have these rates, and the reference had another one before.
  // `own`: the value of the extension's knob in the reference.
  TrialRecord run(double reference, double candidate, double before, const char* knob = kKnob,
                  std::int64_t own = 0) {
    Configuration incumbent = simulation_.input.starting;
    incumbent.set(kKnob, own);
    simulation_.job.rate = [=](const Configuration& configuration) {
      return configuration == incumbent ? reference : candidate;
    };
    TrialPlan plan;
    plan.time_share = seconds(60);
    plan.most_time = seconds(60);
    plan.is_checked = false;
    plan.reference_rate_before = before * kReported;
    TrialRecord trial;
    trial.number = 1;
    trial.reference = incumbent;
    trial.change.set(knob, std::int64_t{2});
    TrialRunner runner(simulation_.input, simulation_.job, simulation_.ledger, simulation_.clock);
    auto done = runner.run(trial, plan);
    EXPECT_TRUE(done) << done.error().message();
    return done.value_or(trial);
  }

  Simulation simulation_;
};

TEST_F(SlowedReference, ShowsNoGain) {
  const TrialRecord trial = run(57.0, 580.0, 1000.0);
  EXPECT_EQ(trial.verdict, Verdict::rejected);
  EXPECT_EQ(trial.rejection, RejectionReason::undecided_in_time);
  EXPECT_EQ(trial.failure, ErrorKind::unsupported);
  EXPECT_THAT(trial.reason, HasSubstr("the reference trained 5"));
  EXPECT_THAT(trial.reason,
              HasSubstr(" samples/s in this trial, and 1000000.0 samples/s before it; something "
                        "slows it, so a gain over it says nothing"));
}

TEST_F(SlowedReference, IsNoFaultOfACandidateThatIsFasterThanItWas) {
  EXPECT_EQ(run(500.0, 1100.0, 1000.0).verdict, Verdict::accepted);
}

TEST_F(SlowedReference, MayBeALittleSlower) {
  EXPECT_EQ(run(850.0, 970.0, 1000.0).verdict, Verdict::accepted);
}

TEST_F(SlowedReference, IsNotSeenIfItsEarlierRateIsNotKnown) {
  EXPECT_EQ(run(57.0, 580.0, 0.0).verdict, Verdict::accepted);
}

TEST_F(SlowedReference, DoesNotConcernOtherKnobs) {
  EXPECT_EQ(run(57.0, 580.0, 1000.0, "loader.workers").verdict, Verdict::accepted);
}

// It runs in both arms then, and can tell them apart.
TEST_F(SlowedReference, ConcernsOtherKnobsBesideAnExtension) {
  EXPECT_EQ(run(57.0, 580.0, 1000.0, "loader.workers", /*own=*/1).verdict, Verdict::rejected);
  EXPECT_EQ(run(1000.0, 1200.0, 1000.0, "loader.workers", /*own=*/1).verdict, Verdict::accepted);
}

// The extension is slower, and from then on slows the configuration that is measured beside it.
TEST_F(SlowedReference, IsFoundByTheBaseline) {
  simulation_.advisors.plugins["mine"] = once({{kKnob, 1}}, 1.5);
  bool is_slowed = false;
  simulation_.job.rate = [&](const Configuration& configuration) {
    if (configuration.integer(kKnob) == 0) return is_slowed ? 57.0 : 1000.0;
    is_slowed = true;
    return 580.0;
  };
  const auto outcome = simulation_.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_FALSE(outcome->trials.empty());
  EXPECT_EQ(outcome->trials[0].verdict, Verdict::rejected) << outcome->trials[0].reason;
  EXPECT_EQ(outcome->best, simulation_.input.starting);
}

// The candidate is faster than the baseline, but not than the incumbent was when it was accepted.
TEST_F(SlowedReference, IsFoundByTheRateOfTheIncumbent) {
  simulation_.advisors.plugins["loading"] = once({{"loader.workers", 2}}, 2.0);
  simulation_.advisors.plugins["mine"] = once({{kKnob, 1}}, 1.1);
  bool is_slowed = false;
  simulation_.job.rate = [&](const Configuration& configuration) {
    if (configuration.integer(kKnob) == 1) {
      is_slowed = true;
      return 1100.0;
    }
    const double rate = configuration.integer("loader.workers") == 2 ? 1500.0 : 1000.0;
    return is_slowed ? 0.6 * rate : rate;
  };
  const auto outcome = simulation_.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  const auto mine = std::ranges::find_if(outcome->trials, [](const TrialRecord& trial) {
    return trial.kind == TrialKind::proposal && trial.plugin == "mine";
  });
  ASSERT_NE(mine, outcome->trials.end());
  EXPECT_EQ(mine->reference.integer("loader.workers"), 2);
  EXPECT_EQ(mine->verdict, Verdict::rejected) << mine->reason;
  EXPECT_THAT(mine->reason, HasSubstr("something slows it"));
  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
  EXPECT_EQ(outcome->best.integer(kKnob), 0);
}

// A disturbance may be anybody's work: the extension is not left out, and each of its changes has two trials.
TEST_F(SlowedReference, AnExtensionWhoseTrialsAreDisturbedKeepsNothing) {
  simulation_.advisors.plugins["mine"] = [](const Json& situation) -> Result<Json> {
    const auto next = static_cast<std::int64_t>(situation["trials"].size()) + 1;
    if (next > 2) return none("it has nothing more");
    return propose({{kKnob, next}}, 1.5);
  };
  simulation_.job.fault = [](const Configuration& configuration) -> std::optional<Error> {
    if (configuration.integer(kKnob) == 0) return std::nullopt;
    return disturbance();
  };
  const auto outcome = simulation_.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(outcome->trials.size(), 4U);
  EXPECT_EQ(outcome->best, simulation_.input.starting);
  EXPECT_FALSE(outcome->is_complete);
}

}  // namespace
}  // namespace autotuned::tuner
