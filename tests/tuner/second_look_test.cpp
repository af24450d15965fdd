// SPDX-License-Identifier: Apache-2.0
#include "tuner/second_look.hpp"

#include <gmock/gmock.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "tests/tuner/simulation.hpp"
#include "tuner/comparison.hpp"

namespace autotuned::tuner {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

Configuration changed(const char* knob, KnobValue value) {
  Configuration change;
  change.set(knob, std::move(value));
  return change;
}

Configuration start() {
  return simulated_input().starting;
}

TrialRecord tried(int number, const Configuration& reference, const Configuration& change,
                  Verdict verdict, Estimate estimate) {
  TrialRecord trial;
  trial.number = number;
  trial.plugin = "one";
  trial.reference = reference;
  trial.change = change;
  trial.verdict = verdict;
  trial.estimate = estimate;
  return trial;
}

const Configuration kLarger = changed("batch_size", std::int64_t{128});
const Configuration kThreads = changed("threads.intra_op", std::int64_t{1});

TEST(UndecidedChanges, AreThoseThatRanOutOfTimeWhileFaster) {
  const Configuration formats = changed("layout.memory_format", std::string("channels_last"));
  const std::vector<TrialRecord> trials = {
      tried(1, start(), formats, Verdict::rejected, {1.12, 0.95, kNoUpperEnd, 6}),
      tried(2, start(), kLarger, Verdict::rejected, {1.20, 0.97, 1.40, 8}),
      tried(3, start(), kThreads, Verdict::rejected, {1.01, 0.97, 1.10, 30}),
  };
  const auto changes = undecided_changes(start(), trials, 0.02);
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].change, kLarger);
  EXPECT_EQ(changes[0].plugin, "one");
  EXPECT_EQ(changes[0].reason, "trial 2 ended undecided: 1.200 times the rate over 8 pairs");
  EXPECT_EQ(changes[1].change, formats);
}

TEST(UndecidedChanges, AreLookedAtOnceMoreAndOnlyAgainstTheIncumbent) {
  const auto first = tried(1, start(), kLarger, Verdict::rejected, {1.12, 0.95, 1.30, 6});
  auto second = first;
  second.number = 2;
  EXPECT_THAT(undecided_changes(start(), {first, second}, 0.02), IsEmpty());
  second.verdict = Verdict::interrupted;
  EXPECT_EQ(undecided_changes(start(), {first, second}, 0.02).size(), 1U);
  EXPECT_THAT(undecided_changes(start().with(kThreads), {first}, 0.02), IsEmpty());
}

// Whatever its few pairs show, and against whatever they were measured.
TEST(UndecidedChanges, AreThoseWhoseOnlyTrialWasDisturbed) {
  for (const Estimate& estimate : {Estimate{}, Estimate{0.9, 0.0, kNoUpperEnd, 1}}) {
    auto first = tried(1, start(), kLarger, Verdict::rejected, estimate);
    first.rejection = RejectionReason::undecided_in_time;
    first.failure = ErrorKind::unsupported;
    first.reason = "undecided, because it was disturbed: a priority was changed";
    first.expected_gain_ratio = 1.4;
    const auto changes = undecided_changes(start(), {first}, 0.02);
    ASSERT_EQ(changes.size(), 1U);
    EXPECT_EQ(changes[0].change, kLarger);
    EXPECT_EQ(changes[0].plugin, "one");
    EXPECT_EQ(changes[0].reason,
              "trial 1 was undecided, because it was disturbed: a priority was changed");
    EXPECT_EQ(changes[0].expected_gain_ratio, 1.4);
    EXPECT_EQ(undecided_changes(start().with(kThreads), {first}, 0.02).size(), 1U);
    EXPECT_THAT(undecided_changes(start().with(kLarger), {first}, 0.02), IsEmpty());
    auto second = first;
    second.number = 2;
    EXPECT_THAT(undecided_changes(start(), {first, second}, 0.02), IsEmpty());
    first.failure.reset();
    EXPECT_THAT(undecided_changes(start(), {first}, 0.02), IsEmpty());
  }
}

TEST(UndecidedChanges, LeaveOutWhatFailedItsCheck) {
  EXPECT_THAT(
      undecided_changes(start(),
                        {tried(1, start(), kLarger, Verdict::rejected, {1.5, 1.2, 1.6, 9})}, 0.02),
      IsEmpty());
}

// What convolutions save in another memory format was little beside page faults, which are gone now.
TEST(SecondLooks, AreNotForWhatTrainsAnotherModelOrNeedsTooMuchMemory) {
  TrialRecord trial = tried(1, start(), kLarger, Verdict::rejected, {1.1, 0.0, kNoUpperEnd, 1});
  trial.peak_memory_bytes = 100;
  EXPECT_TRUE(is_refused(trial, 99));
  EXPECT_FALSE(is_refused(trial, 100));
  EXPECT_FALSE(is_refused(trial, 0)) << "no limit";
  trial.failed_check = CheckRecord{};
  EXPECT_TRUE(is_refused(trial, 0));
}

// Also where an earlier trial of the change was not decided, or lost.
TEST(SecondLooks, AreNotForAChangeThatAnyTrialRefused) {
  auto lost = tried(1, start(), kLarger, Verdict::rejected, {1.1, 0.9, 1.3, 9});
  auto refused = tried(2, start(), kLarger, Verdict::rejected, {1.3, 1.1, 1.5, 9});
  refused.failed_check = CheckRecord{};
  const auto other = tried(3, start(), kThreads, Verdict::rejected, {1.0, 0.9, 1.1, 9});
  auto trials = without_refused({lost, refused, other}, 0);
  ASSERT_EQ(trials.size(), 1U);
  EXPECT_EQ(trials[0].change, kThreads);
  refused.failed_check.reset();
  EXPECT_EQ(without_refused({lost, refused, other}, 0).size(), 3U);
  refused.failed_check = CheckRecord{};
  lost.verdict = Verdict::accepted;
  EXPECT_EQ(without_refused({lost, refused, other}, 0).size(), 2U) << "what is kept counts";
}

TEST(NearMisses, AreThoseThatLostBesideWhatIsGone) {
  const Configuration formats = changed("layout.memory_format", std::string("channels_last"));
  const auto lost = tried(1, start(), formats, Verdict::rejected, {1.0, 0.9, 1.1, 9});
  const auto faster = tried(2, start(), kLarger, Verdict::accepted, {1.3, 1.2, 1.4, 9});
  const Configuration now = start().with(kLarger);
  const auto changes = near_misses_to_retry(now, {start()}, {lost, faster}, 0.02);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].change, formats);
  EXPECT_EQ(changes[0].plugin, "one");
  EXPECT_EQ(changes[0].reason,
            "trial 1 found 1.000 times the rate; since then the job became 1.30 times as fast, so "
            "the change saves a larger share of it");
  // Once, whatever came of it.
  EXPECT_THAT(
      near_misses_to_retry(now, {start()},
                           {lost, faster, tried(3, now, formats, Verdict::rejected, {})}, 0.02),
      IsEmpty());
  EXPECT_THAT(near_misses_to_retry(now, {start(), now.with(formats)}, {lost, faster}, 0.02),
              IsEmpty());
}

TEST(NearMisses, LeaveOutWhatLostClearlyOrWhereLittleChanged) {
  const Configuration now = start().with(kLarger);
  const auto faster = tried(2, start(), kLarger, Verdict::accepted, {1.3, 1.2, 1.4, 9});
  const auto slower = tried(1, start(), kThreads, Verdict::rejected, {0.8, 0.7, 0.95, 9});
  EXPECT_THAT(near_misses_to_retry(now, {start()}, {slower, faster}, 0.02), IsEmpty());
  // Too few pairs for an upper end, but far below what noise explains.
  auto slow = tried(1, start(), kThreads, Verdict::rejected, {0.6, 0.0, kNoUpperEnd, 4});
  slow.noise_ratio = 0.1;
  EXPECT_THAT(near_misses_to_retry(now, {start()}, {slow, faster}, 0.02), IsEmpty());
  slow.estimate.ratio = 0.93;
  EXPECT_EQ(near_misses_to_retry(now, {start()}, {slow, faster}, 0.02).size(), 1U);
  const auto equal = tried(1, start(), kThreads, Verdict::rejected, {1.0, 0.9, 1.1, 9});
  const auto little = tried(2, start(), kLarger, Verdict::accepted, {1.05, 1.02, 1.1, 9});
  EXPECT_THAT(near_misses_to_retry(now, {start()}, {equal, little}, 0.02), IsEmpty());
  EXPECT_THAT(near_misses_to_retry(now, {start()}, {faster, equal}, 0.02), IsEmpty())
      << "it was tried after that";
}

TEST(JointChanges, TakeBackWhatWasAcceptedBefore) {
  const Configuration one_thread = start().with(kThreads);
  const std::vector<TrialRecord> trials = {
      tried(1, start(), kThreads, Verdict::accepted, {1.2, 1.1, 1.3, 9}),
      tried(2, one_thread, kLarger, Verdict::rejected, {1.02, 0.98, 1.05, 30}),
  };
  const auto changes = joint_changes(one_thread, trials);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(one_thread.with(changes[0].change), start().with(kLarger));
  EXPECT_NEAR(changes[0].expected_gain_ratio, 0.85, 1e-9);
}

TEST(JointChanges, JoinTwoThatLost) {
  std::vector<TrialRecord> trials = {
      tried(1, start(), kThreads, Verdict::rejected, {0.9, 0.8, 1.0, 9}),
      tried(2, start(), kLarger, Verdict::rejected, {1.0, 0.9, 1.01, 30}),
  };
  const auto changes = joint_changes(start(), trials);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].change, kThreads.with(kLarger));

  trials[0].estimate.ratio = 0.5;
  EXPECT_THAT(joint_changes(start(), trials), IsEmpty()) << "too far from a gain";
}

TEST(JointChanges, NeedKnobsThatDependOnEachOther) {
  const std::vector<TrialRecord> trials = {
      tried(1, start(), changed("optimizer.set_to_none", true), Verdict::rejected,
            {1.0, 0.9, 1.01, 9}),
      tried(2, start(), kLarger, Verdict::rejected, {1.0, 0.9, 1.01, 30}),
  };
  EXPECT_THAT(joint_changes(start(), trials), IsEmpty());
}

// A larger batch pays with two threads only, and two threads with a larger batch only.
double valley(const Configuration& configuration) {
  const bool is_large = configuration.integer("batch_size") == 128;
  const bool is_parallel = configuration.integer("threads.intra_op") == 2;
  if (is_large) return is_parallel ? 2000.0 : 1010.0;
  return is_parallel ? 800.0 : 1000.0;
}

TEST(SecondLook, CrossesTheValleyBetweenTwoKnobs) {
  Simulation simulation;
  simulation.input.starting.set("threads.intra_op", std::int64_t{2});
  simulation.input.recipe.tune.allow = {"numerics", "batch_size"};
  simulation.advisors.plugins["threads"] = once({{"threads.intra_op", 1}}, 1.3);
  simulation.advisors.plugins["batch"] = once({{"batch_size", 128}}, 1.2);
  simulation.job.rate = valley;
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(outcome->best.integer("batch_size"), 128);
  EXPECT_EQ(outcome->best.integer("threads.intra_op"), 2);
  EXPECT_NEAR(outcome->speedup.ratio, 2.5, 0.1);
}

// Two workers are faster by less than the first trial shows.
void add_slow_small_gain(Simulation& simulation) {
  simulation.advisors.plugins["loading"] = once({{"loader.workers", 2}}, 1.5);
  simulation.job.step_ns = 2'000'000'000;
  simulation.job.noise = 0.15;
  simulation.input.recipe.tune.budget = std::chrono::hours(1);
  simulation.job.rate = [](const Configuration& configuration) {
    return configuration.integer("loader.workers") == 2 ? 1060.0 : 1000.0;
  };
}

TEST(SecondLook, GivesWhatIsLeftToAnUndecidedChange) {
  Simulation simulation;
  add_slow_small_gain(simulation);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_GE(outcome->trials.size(), 3U) << outcome->trials[0].reason;
  EXPECT_EQ(outcome->trials[0].verdict, Verdict::rejected);
  EXPECT_EQ(outcome->trials[1].change, outcome->trials[0].change);
  EXPECT_EQ(outcome->trials[1].verdict, Verdict::accepted);
  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
}

// The steps wait for data: what the model saves is nothing until they do not.
TEST(SecondLook, TriesAgainWhatLostBesideABottleneckThatIsGone) {
  Simulation simulation;
  simulation.advisors.plugins["format"] =
      once({{"layout.memory_format", "channels_last"}}, /*gain=*/1.8);
  simulation.advisors.plugins["loading"] = once({{"loader.workers", 2}}, /*gain=*/1.3);
  simulation.job.step_ns = 2'000'000'000;
  simulation.job.noise = 0.1;
  simulation.input.recipe.tune.budget = std::chrono::hours(1);
  simulation.job.rate = [](const Configuration& configuration) {
    if (configuration.integer("loader.workers") != 2) return 1000.0;
    return 2000.0 *
           faster_with(configuration, "layout.memory_format", std::string("channels_last"), 1.5);
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_GE(outcome->trials.size(), 3U);
  EXPECT_EQ(outcome->trials[0].plugin, "format");
  EXPECT_EQ(outcome->trials[0].verdict, Verdict::rejected);
  EXPECT_EQ(outcome->trials[1].plugin, "loading");
  EXPECT_EQ(outcome->trials[1].verdict, Verdict::accepted);
  EXPECT_EQ(outcome->trials[2].plugin, "format");
  EXPECT_EQ(outcome->trials[2].verdict, Verdict::accepted);
  EXPECT_THAT(outcome->trials[2].proposal_reason, HasSubstr("since then the job became"));
  EXPECT_EQ(outcome->best.text("layout.memory_format"), "channels_last");
  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
}

// Two workers are faster.
void add_loading(Simulation& simulation) {
  simulation.advisors.plugins["loading"] = once({{"loader.workers", 2}}, 1.5);
  simulation.job.rate = [](const Configuration& configuration) {
    return 1000.0 * faster_with(configuration, "loader.workers", std::int64_t{2}, 1.5);
  };
}

// Disturbs blocks with two workers as long as `count` lasts.
std::function<std::optional<Error>(const Configuration&)> disturbs(int& count) {
  return [&count](const Configuration& configuration) -> std::optional<Error> {
    if (configuration.integer("loader.workers") != 2 || count == 0) return std::nullopt;
    --count;
    return disturbance();
  };
}

TEST(SecondLook, TriesAgainWhatWasDisturbed) {
  for (int disturbances = 1; disturbances <= 2; ++disturbances) {
    int left = disturbances;
    Simulation simulation;
    add_loading(simulation);
    simulation.job.fault = disturbs(left);
    const auto outcome = simulation.run();
    ASSERT_TRUE(outcome) << outcome.error().message();
    ASSERT_GE(outcome->trials.size(), 2U);
    EXPECT_EQ(outcome->trials[0].verdict, Verdict::rejected);
    EXPECT_EQ(outcome->trials[0].rejection, RejectionReason::undecided_in_time);
    EXPECT_EQ(outcome->trials[0].failure, ErrorKind::unsupported);
    EXPECT_EQ(outcome->trials[0].reason,
              "undecided, because it was disturbed: a priority was changed");
    const bool is_decided = disturbances == 1;
    EXPECT_EQ(outcome->best.integer("loader.workers"), is_decided ? 2 : 0);
    EXPECT_EQ(outcome->is_complete, is_decided) << "a later run tries it again";
    EXPECT_FALSE(outcome->is_budget_spent) << "no budget would have decided it";
    EXPECT_EQ(left, 0);
  }
}

// A plugin sees a rejected trial, and would say that its change was not faster. Another that proposes the same has no
// trial.
TEST(SecondLook, TellsThatADisturbedTrialDecidedNothing) {
  int left = 1;
  Simulation simulation;
  add_loading(simulation);
  simulation.advisors.plugins["other"] = once({{"loader.workers", 2}}, 1.4);
  simulation.job.fault = disturbs(left);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_GE(outcome->trials.size(), 2U);
  EXPECT_EQ(outcome->trials[1].verdict, Verdict::accepted) << outcome->trials[1].reason;
  const auto& events = simulation.ledger.events;
  const std::string told = "trial 1 of loader.workers=2 was disturbed and decided nothing";
  EXPECT_THAT(events, Contains("answered loading: " + told));
  EXPECT_THAT(events, Contains("answered other: skipped: " + told));
}

// The reference alone, too.
TEST(SecondLook, TriesAgainWhereTheReferenceWasDisturbed) {
  Simulation simulation;
  add_loading(simulation);
  simulation.job.fault = [&](const Configuration& configuration) -> std::optional<Error> {
    const auto& trials = simulation.ledger.trials;
    const bool is_first = trials.size() == 1 && trials.at(1).verdict == Verdict::running;
    if (!is_first || configuration != simulation.input.starting) return std::nullopt;
    return disturbance();
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(outcome->trials[0].rejection, RejectionReason::undecided_in_time);
  EXPECT_THAT(outcome->trials[0].reason, HasSubstr("the reference failed twice"));
  EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
}

// As one that its time cut short: the change is dropped, and the next run tries it again.
TEST(SecondLook, AConfirmationThatWasDisturbedIsUndecided) {
  int left = 1;
  Simulation simulation;
  add_loading(simulation);
  const auto fault = disturbs(left);
  simulation.job.fault = [&](const Configuration& configuration) -> std::optional<Error> {
    const auto& trials = simulation.ledger.trials;
    const bool is_confirming = !trials.empty() &&
                               trials.rbegin()->second.kind == TrialKind::confirmation &&
                               trials.rbegin()->second.verdict == Verdict::running;
    return is_confirming ? fault(configuration) : std::nullopt;
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_EQ(outcome->trials.size(), 2U);
  EXPECT_EQ(outcome->trials[1].rejection, RejectionReason::undecided_in_time);
  EXPECT_EQ(outcome->best, simulation.input.starting);
  EXPECT_FALSE(outcome->is_complete);
  EXPECT_FALSE(outcome->is_budget_spent);
}

// Two workers train another model, which only the second trial finds out.
void fail_checks(Simulation& simulation) {
  simulation.job.updates = [](const Configuration&, const Configuration& candidate,
                              std::int64_t steps) {
    UpdateComparison updates = SimulatedBackend::equal(steps);
    updates.equal = updates.finite = candidate.integer("loader.workers") != 2;
    return updates;
  };
}

TEST(SecondLook, IsTheLastOfADisturbedChangeThatItRefuses) {
  int left = 1;
  Simulation simulation;
  add_loading(simulation);
  fail_checks(simulation);
  simulation.job.fault = disturbs(left);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_EQ(outcome->trials.size(), 2U);
  EXPECT_EQ(outcome->trials[1].rejection, RejectionReason::not_same_model);
  EXPECT_EQ(outcome->best, simulation.input.starting);
  EXPECT_TRUE(outcome->is_complete);
}

TEST(SecondLook, IsTheLastOfAnUndecidedChangeThatItRefuses) {
  Simulation simulation;
  add_slow_small_gain(simulation);
  fail_checks(simulation);
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_EQ(outcome->trials.size(), 2U);
  EXPECT_EQ(outcome->trials[0].rejection, RejectionReason::undecided_in_time);
  EXPECT_EQ(outcome->trials[1].rejection, RejectionReason::not_same_model);
  EXPECT_TRUE(outcome->is_complete);
}

}  // namespace
}  // namespace autotuned::tuner
