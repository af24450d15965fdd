// SPDX-License-Identifier: Apache-2.0
// What plugins answer, sensible or not, and what a session makes of it.
#include <gmock/gmock.h>

#include <limits>

#include "tests/tuner/simulation.hpp"
#include "tuner/advisors.hpp"
#include "tuner/proposals.hpp"

namespace autotuned::tuner {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(Advice, ReadsCandidatesInOrder) {
  Json answer = propose({{"loader.workers", 2}}, 1.5);
  answer["candidates"].push_back(
      {{"change", {{"transfer.dtype", "uint8"}}}, {"expected_gain_ratio", 1}, {"reason", "b"}});
  const auto advice = parse_advice(answer, "loading");
  ASSERT_TRUE(advice);
  ASSERT_EQ(advice->proposals.size(), 2U);
  EXPECT_EQ(advice->proposals[0].plugin, "loading");
  EXPECT_EQ(advice->proposals[0].expected_gain_ratio, 1.5);
  EXPECT_EQ(advice->proposals[1].change.text("transfer.dtype"), "uint8");
}

TEST(Advice, NonsenseIsNamed) {
  const auto with = [](const char* field, const Json& value) {
    Json answer = propose({{"loader.workers", 2}});
    answer["candidates"][0][field] = value;
    return answer;
  };
  const std::vector<std::pair<Json, std::string>> cases = {
      {Json(), "not an object"},
      {Json::array(), "not an object"},
      {Json::object(), "candidates is not an array"},
      {{{"candidates", 3}}, "candidates is not an array"},
      {{{"candidates", Json::array()}}, "neither a candidate nor a reason"},
      {{{"candidates", {1}}}, "candidates[0] is not an object"},
      {{{"error", "division by zero"}}, "division by zero"},
      {with("change", Json::object()), "names no knob"},
      {with("change", 7), "change"},
      {with("change", {{"loader.workers", Json::array()}}), "change"},
      {with("expected_gain_ratio", "much"), "expected_gain_ratio"},
      {with("expected_gain_ratio", -1.0), "not above 0"},
      {with("expected_gain_ratio", std::numeric_limits<double>::quiet_NaN()),
       "expected_gain_ratio"},
      {with("signal_share_ratio", "all"), "signal_share_ratio"},
      {with("signal_share_ratio", 1.5), "not between 0 and 1"},
      {with("preparation_s", "long"), "preparation_s"},
      {with("preparation_s", -1), "preparation_s is not between 0 and 86,400"},
      {with("preparation_s", 1e9), "preparation_s is not between 0 and 86,400"},
      {with("reason", ""), "reason is empty"},
      {with("reason", Json()), "reason"},
  };
  for (const auto& [answer, message] : cases) {
    const auto advice = parse_advice(answer, "odd");
    ASSERT_FALSE(advice) << answer;
    EXPECT_EQ(advice.error().kind, ErrorKind::invalid);
    EXPECT_THAT(advice.error().what, HasSubstr(message)) << answer;
    EXPECT_THAT(advice.error().where, HasSubstr("odd"));
  }
}

TEST(Advice, FaultsLeaveThePluginOutAndNobodyElse) {
  const std::vector<std::pair<Json, std::string>> faults = {
      {propose({{"loader.wrokers", 2}}), "unknown knob"},
      {propose({{"env.AUTOTUNED_JOB", "1"}}), "unknown knob env.AUTOTUNED_JOB"},
      {propose({{"env.CUDA_VISIBLE_DEVICES", "1"}}), "unknown knob env.CUDA_VISIBLE_DEVICES"},
      {propose({{"env.SETTING", "1"}}), "env.SETTING, which plugins may not set"},
      {propose({{"loader.workers", 99}}), "loader.workers=99"},
      {propose({{"loader.workers", "many"}}), "loader.workers"},
      {propose({{"memory.malloc", "keep"}}), "does not support"},
      {propose({{"transfer.non_blocking", true}}), "transfer.non_blocking"},  // needs CUDA
      {propose({{"batch_size", 4096}}), "permits 1024"},
      {propose({{"batch_size", 64}}), "does not permit"},
      {Json("nonsense"), "not an object"},
  };
  for (const auto& [answer, message] : faults) {
    Simulation simulation;
    std::erase(simulation.input.supported_knobs, "memory.malloc");
    simulation.input.recipe.tune.allow = {"numerics"};
    simulation.advisors.plugins["faulty"] = [answer = answer](const Json&) { return answer; };
    simulation.advisors.plugins["loading"] = once({{"loader.workers", 2}});
    simulation.job.rate = [](const Configuration& configuration) {
      return configuration.integer("loader.workers") == 2 ? 1500.0 : 1000.0;
    };
    const auto outcome = simulation.run();
    ASSERT_TRUE(outcome) << answer;
    EXPECT_THAT(simulation.ledger.faults["faulty"], HasSubstr(message)) << answer;
    EXPECT_EQ(simulation.ledger.faults.size(), 1U);
    EXPECT_EQ(outcome->best.integer("loader.workers"), 2);
    const auto asked = std::ranges::count(simulation.ledger.events, "asking faulty");
    EXPECT_EQ(asked, 1) << "asked again after a fault";
  }
}

TEST(Advice, AnErrorOfThePluginIsItsFault) {
  Simulation simulation;
  simulation.advisors.plugins["hanging"] = [](const Json&) -> Result<Json> {
    return fail(ErrorKind::timeout, "no answer in 2 s");
  };
  ASSERT_TRUE(simulation.run());
  EXPECT_THAT(simulation.ledger.faults["hanging"], HasSubstr("no answer in 2 s"));
}

TEST(Advice, APluginSearchesOnItsOwnTrials) {
  Simulation simulation;
  simulation.advisors.plugins["loading"] = [](const Json& situation) -> Result<Json> {
    std::int64_t workers = 1;
    for (const Json& trial : situation["trials"]) {
      if (trial["verdict"] != "accepted") return none("one more did not help");
      workers = trial["change"]["loader.workers"].get<std::int64_t>() + 1;
    }
    return propose({{"loader.workers", workers}});
  };
  simulation.job.rate = [](const Configuration& configuration) {
    return 1000.0 * (1.0 + 0.3 * static_cast<double>(std::min<std::int64_t>(
                                     3, configuration.integer("loader.workers"))));
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->best.integer("loader.workers"), 3);
  EXPECT_EQ(outcome->trials.size(), 5U);  // 1, 2, 3, 4 in vain, confirmation
}

TEST(Advice, ShowsThePluginWhatItsPageSays) {
  Simulation simulation;
  simulation.advisors.plugins["loading"] = once({{"loader.workers", 2}});
  simulation.advisors.plugins["other"] = once({{"optimizer.set_to_none", true}});
  TrialRecord old;
  old.plugin = "loading";
  old.change.set("loader.workers", std::int64_t{1});
  old.verdict = Verdict::rejected;
  simulation.input.history = {old};
  ASSERT_TRUE(simulation.run());
  const Json& first = simulation.advisors.situations[0];
  EXPECT_EQ(first["schema"], 1);
  EXPECT_EQ(first["metrics"]["step.data_wait_ratio"], 0.5);
  EXPECT_EQ(first["environment"]["cpus_allowed"], 4);
  EXPECT_EQ(first["job"]["device"], "cpu");
  EXPECT_EQ(first["recipe"]["train_samples_total"], 60000);
  EXPECT_EQ(first["recipe"]["optimizer"], "sgd");
  EXPECT_EQ(first["knobs"]["loader.workers"]["maximum"], 4);
  EXPECT_EQ(first["knobs"]["loader.workers"]["switch"], "live");
  EXPECT_EQ(first["knobs"]["loader.workers"]["risk"], "exact");
  EXPECT_EQ(first["knobs"]["env.*"]["switch"], "restart");
  EXPECT_EQ(first["starting"], simulation.input.starting.to_json());
  EXPECT_EQ(first["permissions"]["lr_scaling"], "linear");
  EXPECT_EQ(first["permissions"]["numerics"], true);
  EXPECT_GT(first["permissions"]["memory_limit_bytes"], 0);
  EXPECT_THAT(first["trials"], IsEmpty());
  EXPECT_EQ(first["history"].size(), 1U);
  EXPECT_THAT(simulation.advisors.situations[1]["history"], IsEmpty()) << "of another plugin";
  const Json& last = simulation.advisors.situations.back();
  for (const Json& trial : last["trials"]) {
    EXPECT_TRUE(trial.contains("ratio_low") && trial.contains("failure") &&
                trial.contains("reference"));
  }
}

TEST(Advice, OscillatingPluginsComeToAnEnd) {
  // Each undoes what the other did, for ever.
  Simulation simulation;
  simulation.advisors.plugins["on"] = [](const Json&) {
    return propose({{"optimizer.fused", true}});
  };
  simulation.advisors.plugins["off"] = [](const Json&) {
    return propose({{"optimizer.fused", false}});
  };
  simulation.job.rate = [&](const Configuration& configuration) {
    // Whatever was proposed last looks faster.
    const bool is_candidate = !simulation.ledger.trials.empty() &&
                              simulation.ledger.trials.rbegin()->second.reference != configuration;
    return is_candidate ? 1500.0 : 1000.0;
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_LE(outcome->trials.size(), 3U);
}

TEST(Advice, EndlessProposalsComeToAnEnd) {
  Simulation simulation;
  int asked = 0;
  simulation.advisors.plugins["endless"] = [&](const Json&) {
    return propose({{"env.PLACEBO_SETTING", std::to_string(++asked)}});
  };
  simulation.job.fault = [&](const Configuration& configuration) -> std::optional<Error> {
    if (configuration.find("env.PLACEBO_SETTING") == nullptr) return std::nullopt;
    return Error{.kind = ErrorKind::crashed, .what = "at once"};  // and it costs no time
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_LE(asked, 1000);
}

// On a shared machine, what others hold is not there for a larger batch.
TEST(Advice, PlansWithTheMemoryThatWasFree) {
  SessionInput input = simulated_input();
  EXPECT_EQ(memory_to_plan_with_bytes(input), memory_limit_bytes(input)) << "nothing is known";
  input.memory_available_bytes = 1LL << 30;
  const Json situation =
      situation_for("any", input, input.starting, Json::object(), Json::object(), {});
  EXPECT_NEAR(situation["permissions"]["memory_limit_bytes"].get<double>(), 0.9 * (1LL << 30), 1);
  EXPECT_GT(memory_limit_bytes(input), 1LL << 30) << "what runs already is not ended for it";
  input.memory_available_bytes = 1LL << 40;
  EXPECT_EQ(memory_to_plan_with_bytes(input), memory_limit_bytes(input));
  input.memory_available_bytes = 1LL << 30;
  input.recipe.tune.memory_limit_bytes = 2LL << 30;
  EXPECT_EQ(memory_to_plan_with_bytes(input), 2LL << 30) << "the recipe's own word";
}

// Metrics and knobs are those of a rank, so what there is of the machine must be.
TEST(Advice, TellsWhatOneOfSeveralRanksHas) {
  SessionInput input = simulated_input();
  input.machine.cpus_allowed = 8;
  input.machine.physical_cores = 5;
  const auto told = [&input] {
    return situation_for("any", input, input.starting, Json::object(), Json::object(), {});
  };
  EXPECT_EQ(told()["environment"]["cpus_allowed"], 8);
  EXPECT_FALSE(told()["recipe"].contains("ranks"));
  input.recipe.train.ranks = 4;
  EXPECT_EQ(told()["environment"]["cpus_allowed"], 2);
  EXPECT_EQ(told()["environment"]["physical_cores"], 1);
  EXPECT_EQ(told()["recipe"]["ranks"], 4);
}

// Two values of one extension's knob, of which the first fails; whether the second was tried.
int trials_with_a_failing_extension(ErrorKind kind) {
  Simulation simulation;
  for (const char* name : {"odd.way", "other.way"}) {
    recipes::Knob knob = recipes::find_knob(simulation.input.knobs, "loader.workers").value();
    knob.name = name;
    simulation.input.knobs.push_back(knob);
    simulation.input.supported_knobs.emplace_back(name);
    simulation.input.extension_knobs.emplace_back(name);
    simulation.input.starting.set(name, std::int64_t{0});
  }
  simulation.advisors.plugins["odd"] = [](const Json&) -> Result<Json> {
    Json answer = propose({{"odd.way", 1}}, 1.5);
    answer["candidates"].push_back(propose({{"odd.way", 2}}, 1.4)["candidates"][0]);
    return answer;
  };
  simulation.advisors.plugins["other"] = once({{"other.way", 1}}, 1.1);
  simulation.job.fault = [&](const Configuration& configuration) -> std::optional<Error> {
    if (configuration.integer("odd.way") == 0) return std::nullopt;
    return Error{.kind = kind, .what = "boom"};
  };
  const auto outcome = simulation.run();
  EXPECT_TRUE(outcome);
  if (!outcome) return 0;
  EXPECT_EQ(outcome->trials.at(0).failure, kind);
  EXPECT_EQ(outcome->trials.back().plugin, "other") << "an extension that did nothing wrong";
  return static_cast<int>(outcome->trials.size());
}

TEST(Advice, AnExtensionThatFailsIsLeftOutForTheRestOfTheRun) {
  for (const ErrorKind kind : {ErrorKind::crashed, ErrorKind::timeout, ErrorKind::invalid}) {
    EXPECT_EQ(trials_with_a_failing_extension(kind), 2);
  }
  // Another value may need less.
  EXPECT_EQ(trials_with_a_failing_extension(ErrorKind::out_of_memory), 3);
}

class Screening : public testing::Test {
 protected:
  static Configuration workers(std::int64_t count) {
    Configuration configuration;
    configuration.set("loader.workers", count);
    return configuration;
  }
  TrialRecord lost(const Configuration& reference, std::int64_t count, double expected) {
    TrialRecord trial;
    trial.reference = reference;
    trial.change = workers(count);
    trial.expected_gain_ratio = expected;
    trial.verdict = Verdict::rejected;
    return trial;
  }
  // Whether a plugin's proposal is skipped.
  bool is_skipped(const Proposal& proposal, const std::vector<Configuration>& past_incumbents,
                  const std::vector<TrialRecord>& trials) const {
    const auto refusal = screen(proposal, {input_, incumbent_, past_incumbents, trials, {}, {}});
    EXPECT_FALSE(refusal && refusal->is_fault);
    return refusal.has_value();
  }
  SessionInput input_ = simulated_input();
  Configuration incumbent_ = input_.starting;
  Configuration other_ = [this] {
    Configuration other = input_.starting;
    other.set("optimizer.fused", true);
    return other;
  }();
};

TEST_F(Screening, AFreshChangeIsTried) {
  EXPECT_FALSE(is_skipped({"p", workers(2), 1.3, "r"}, {}, {}));
}

TEST_F(Screening, WhatRunsAlreadyAndWhatWasBeatenIsNot) {
  EXPECT_TRUE(is_skipped({"p", workers(0), 1.3, "r"}, {}, {}));
  EXPECT_TRUE(is_skipped({"p", workers(2), 1.3, "r"}, {incumbent_.with(workers(2))}, {}));
}

TEST_F(Screening, NeverTwiceAgainstOneIncumbent) {
  const std::vector<TrialRecord> trials = {lost(incumbent_, 2, 1.1)};
  EXPECT_TRUE(is_skipped({"p", workers(2), 9.0, "r"}, {}, trials));
  EXPECT_FALSE(is_skipped({"p", workers(3), 1.1, "r"}, {}, trials));
}

TEST_F(Screening, OneSecondChanceWhenMoreIsExpected) {
  std::vector<TrialRecord> trials = {lost(other_, 2, 1.2)};
  EXPECT_TRUE(is_skipped({"p", workers(2), 1.2, "r"}, {}, trials));
  EXPECT_FALSE(is_skipped({"p", workers(2), 1.4, "r"}, {}, trials));
  Configuration third = other_;
  third.set("optimizer.set_to_none", true);
  trials.push_back(lost(third, 2, 1.4));
  const Proposal again{"p", workers(2), 3.0, "r"};
  EXPECT_TRUE(is_skipped(again, {}, trials));
  const auto refusal = screen(again, {input_, incumbent_, {}, trials, {}, {}});
  ASSERT_TRUE(refusal);
  EXPECT_THAT(refusal->reason, HasSubstr("did not show a gain"));
}

TEST(ScreeningBySignal, WhatItsSignalExplainsCannotReachTheLeastGain) {
  SessionInput input = simulated_input();
  const auto reason_to_skip = [](const Proposal& proposal,
                                 const SessionInput& of) -> std::optional<std::string> {
    const auto refusal = screen(proposal, {of, of.starting, {}, {}, {}, {}});
    if (!refusal) return std::nullopt;
    EXPECT_FALSE(refusal->is_fault) << refusal->reason;
    return refusal->reason;
  };
  Proposal proposal{.plugin = "p", .reason = "r", .signal_share_ratio = 0.008};
  proposal.change.set("optimizer.set_to_none", true);
  const auto reason = reason_to_skip(proposal, input);
  ASSERT_TRUE(reason);
  EXPECT_THAT(*reason, testing::AllOf(HasSubstr("0.8 % of the step"), HasSubstr("2.0 %")));
  proposal.signal_share_ratio = 0.0199;  // 1 / (1 - 0.0199) = 1.0203
  EXPECT_FALSE(reason_to_skip(proposal, input));
  proposal.signal_share_ratio = 1.0;
  EXPECT_FALSE(reason_to_skip(proposal, input));
  proposal.signal_share_ratio = 0.0;
  EXPECT_TRUE(reason_to_skip(proposal, input));
  input.job_facts["device"] = "cuda:0";
  EXPECT_FALSE(reason_to_skip(proposal, input)) << "shares of host time bound nothing there";
  proposal.signal_share_ratio.reset();
  EXPECT_FALSE(reason_to_skip(proposal, simulated_input()));
}

TEST(ScreeningBySignal, CostsNoTrialAndIsSaid) {
  Simulation simulation;
  simulation.advisors.plugins["small"] = [](const Json&) -> Result<Json> {
    Json answer = propose({{"optimizer.set_to_none", true}}, 1.9);
    answer["candidates"][0]["signal_share_ratio"] = 0.004;
    return answer;
  };
  const auto outcome = simulation.run();
  ASSERT_TRUE(outcome);
  EXPECT_THAT(outcome->trials, IsEmpty());
  EXPECT_THAT(simulation.ledger.events,
              testing::Contains(HasSubstr("answered small: skipped: optimizer.set_to_none=on can "
                                          "save at most 0.4 % of the step")));
}

TEST(Candidates, OrderByGainThenRiskThenFewness) {
  const SessionInput input = simulated_input();
  const auto proposal = [](const char* plugin, const char* knob, const KnobValue& value,
                           double gain) {
    Proposal made{.plugin = plugin, .expected_gain_ratio = gain};
    made.change.set(knob, value);
    return made;
  };
  const Proposal exact = proposal("b", "loader.workers", std::int64_t{2}, 1.3);
  const Proposal numerics = proposal("a", "precision.autocast", std::string("bf16"), 1.3);
  const Proposal semantics = proposal("a", "batch_size", std::int64_t{64}, 1.3);
  const Proposal large = proposal("z", "batch_size", std::int64_t{64}, 1.31);
  Proposal both = exact;
  both.plugin = "a";
  both.change.set("loader.prefetch_batches", std::int64_t{4});
  EXPECT_TRUE(is_tried_before(large, exact, input));
  EXPECT_TRUE(is_tried_before(exact, numerics, input));
  EXPECT_TRUE(is_tried_before(numerics, semantics, input));
  EXPECT_TRUE(is_tried_before(exact, both, input));
  EXPECT_FALSE(is_tried_before(exact, exact, input));
  const Proposal restart = proposal("a", "memory.malloc", std::string("keep"), 1.3);
  EXPECT_TRUE(is_tried_before(exact, restart, input)) << "a restart costs more";
  EXPECT_TRUE(is_tried_before(restart, numerics, input));
}

}  // namespace
}  // namespace autotuned::tuner
