// SPDX-License-Identifier: Apache-2.0
// A whole search over a script: trials, checks, what is kept.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>

#include "tests/daemon/scripts/script_scene.hpp"
#include "tests/tuner/simulation.hpp"

namespace autotuned::daemon {
namespace {

using testing::HasSubstr;

class ScriptTuning : public testing::Test {
 protected:
  Result<tuner::SessionOutcome> tune(ScriptScene& scene, std::vector<std::string> allow) {
    return tune_by(clock_, scene, std::move(allow));
  }
  Result<tuner::SessionOutcome> tune_by(const Clock& clock, ScriptScene& scene,
                                        std::vector<std::string> allow) {
    ScriptBackend& job = scene.loaded();
    tuner::SessionInput input;
    input.recipe.name = "train.py";
    input.recipe.tune.allow = std::move(allow);
    input.recipe.tune.budget = budget_;
    input.is_script = true;
    input.is_budget_option = true;
    input.knobs = job.knobs();
    for (const recipes::Knob& knob : input.knobs)
      input.supported_knobs.push_back(knob.name);
    input.machine.memory_allowed_bytes = 8LL << 30;
    input.starting = job.starting();
    input.job_facts = job.facts();
    return tuner::run_session(input, job, advisors_, ledger_, clock);
  }

  // The trial of a change that costs 30 s once and saves a sixth of each step.
  TrialRecord charged_trial(std::int64_t samples_left) {
    advisors_.plugins["malloc"] = tuner::once({{"memory.malloc", "keep"}});
    ScriptScene scene(Json{{"factors", {{"memory.malloc=keep", 1.2}}},
                           {"once", {{"memory.malloc=keep", 30'000'000'000}}},
                           {"samples_left", samples_left}});
    const auto outcome = tune(scene, {});
    const bool has_trial = outcome && !outcome->trials.empty();
    EXPECT_TRUE(has_trial);
    return has_trial ? outcome->trials[0] : TrialRecord{};
  }

  std::chrono::nanoseconds budget_ = recipes::Tune{}.budget;
  SystemClock clock_;
  tuner::SimulatedAdvisors advisors_;
  tuner::MemoryLedger ledger_;
};

TEST_F(ScriptTuning, KeepsWhatIsFasterAndTrainsTheSame) {
  advisors_.plugins["precision"] = tuner::once({{"precision.autocast", "bf16"}});
  advisors_.plugins["malloc"] = tuner::once({{"memory.malloc", "keep"}}, 1.2);
  ScriptScene scene(Json{{"factors", {{"precision.autocast=bf16", 1.5}}}});
  const auto outcome = tune(scene, {"numerics"});
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(outcome->best, scene.with("precision.autocast", std::string("bf16")));
  EXPECT_NEAR(outcome->speedup.ratio, 1.5, 0.03);
  EXPECT_EQ(outcome->trials[0].verdict, Verdict::accepted);
  EXPECT_EQ(outcome->trials[0].process_pairs, 0) << "blocks of one process";
  // The candidate goes along beside real steps before it makes any.
  const std::vector<Json>& requests = scene.let_go().requests();
  const auto first = [&](const char* name) {
    return std::ranges::find_if(requests, [name](const Json& request) {
      return request.at("request") == name &&
             request.value("configuration", Json::object()).value("precision.autocast", "") ==
                 "bf16";
    });
  };
  ASSERT_NE(first("check"), requests.end());
  EXPECT_LT(first("check"), first("prepare"));
}

TEST_F(ScriptTuning, NoStepOfAnotherModelIsMade) {
  advisors_.plugins["precision"] = tuner::once({{"precision.autocast", "bf16"}});
  ScriptScene scene(Json{{"factors", {{"precision.autocast=bf16", 1.5}}},
                         {"wrong", {"precision.autocast=bf16"}}});
  const auto outcome = tune(scene, {"numerics"});
  ASSERT_TRUE(outcome) << outcome.error().message();
  ASSERT_EQ(outcome->trials.size(), 1U);
  EXPECT_EQ(outcome->trials[0].rejection, RejectionReason::not_same_model);
  scene.let_go();
  const auto prepared = scene.asked("prepare");
  EXPECT_TRUE(std::ranges::none_of(prepared, [](const Json& request) {
    return request.at("configuration").at("precision.autocast") == "bf16";
  }));
}

TEST_F(ScriptTuning, WhatIsNotPermittedIsNotTried) {
  advisors_.plugins["precision"] = tuner::once({{"precision.autocast", "bf16"}});
  ScriptScene scene;
  const auto outcome = tune(scene, {});
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_TRUE(outcome->trials.empty());
  EXPECT_THAT(ledger_.faults["precision"], HasSubstr("does not permit"));
}

TEST_F(ScriptTuning, WhatNoBudgetIsLeftForIsTold) {
  advisors_.plugins["precision"] = tuner::once({{"precision.autocast", "bf16"}}, 1.2);
  // Until the last plugin has answered, the budget is over.
  tuner::FakeClock clock;
  advisors_.plugins["malloc"] = [this, &clock](const Json& situation) {
    clock.advance(budget_);
    return tuner::once({{"memory.malloc", "keep"}}, 1.4)(situation);
  };
  ScriptScene scene;
  const auto outcome = tune_by(clock, scene, {"numerics"});
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_TRUE(outcome->trials.empty());
  ASSERT_EQ(outcome->untried.size(), 2U);
  EXPECT_EQ(outcome->untried[0].plugin, "malloc") << "the most promising first";
  EXPECT_EQ(outcome->untried[0].reference, scene.job().starting());
  EXPECT_EQ(outcome->untried[1].change.text("precision.autocast"), "bf16");
}

TEST_F(ScriptTuning, ABudgetForNoTrialMakesNoBlocks) {
  advisors_.plugins["malloc"] = tuner::once({{"memory.malloc", "keep"}}, 1.4);
  budget_ = std::chrono::milliseconds(1);
  ScriptScene scene;
  const auto outcome = tune(scene, {"numerics"});
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(outcome->shortage,
            "--budget 1.0 ms is too small for one trial here: at least 4.4 s are needed, more "
            "where steps are slow");
  EXPECT_EQ(outcome->best, scene.job().starting());
  EXPECT_TRUE(advisors_.situations.empty());
}

TEST_F(ScriptTuning, TheEnvironmentOfAScriptIsItsOwn) {
  advisors_.plugins["spinning"] = [](const Json&) -> Result<Json> {
    return tuner::propose({{"env.GOMP_SPINCOUNT", "300000"}});
  };
  ScriptScene scene;
  const auto outcome = tune(scene, {});
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_TRUE(outcome->trials.empty());
  EXPECT_THAT(ledger_.faults["spinning"], HasSubstr("cannot be changed in a script"));
  EXPECT_FALSE(advisors_.situations.at(0).at("knobs").contains("env.*"));
}

TEST_F(ScriptTuning, PluginsAreToldWhatIsKnownAndNothingElse) {
  advisors_.plugins["curious"] = [](const Json&) -> Result<Json> {
    return tuner::none("it looks");
  };
  ScriptScene scene;
  ASSERT_TRUE(tune(scene, {}));
  const Json& situation = advisors_.situations.at(0);
  EXPECT_EQ(situation.at("recipe"), Json({{"batch_size", 8}, {"optimizer", "sgd"}}));
  EXPECT_EQ(situation.at("knobs").at("loader.workers").at("unavailable"),
            "the loader is iterated by hand");
  EXPECT_EQ(situation.at("job").at("device"), "cpu");
  EXPECT_EQ(situation.at("permissions").at("option"), "--allow");
}

// Compiling a module, say.
TEST_F(ScriptTuning, WhatTheRestOfTheTrainingDoesNotRepayIsRejected) {
  const TrialRecord trial = charged_trial(/*samples_left=*/120'000);  // a minute
  EXPECT_EQ(trial.one_time_ns, 30'000'000'000);
  EXPECT_EQ(trial.rejection, RejectionReason::not_repaid) << trial.reason;
  EXPECT_THAT(trial.reason, HasSubstr("doing something once takes 30"));
}

TEST_F(ScriptTuning, WhatTheRestOfTheTrainingRepaysIsKept) {
  const TrialRecord trial = charged_trial(/*samples_left=*/7'200'000);  // an hour
  EXPECT_EQ(trial.one_time_ns, 30'000'000'000);
  EXPECT_EQ(trial.verdict, Verdict::accepted) << trial.reason;
}

TEST_F(ScriptTuning, ATrialInWhichTheScriptEndsIsInterrupted) {
  advisors_.plugins["malloc"] = tuner::once({{"memory.malloc", "keep"}});
  // load, the blocks of the baseline and of the ceiling with their places, a profile, and some pairs.
  ScriptScene scene(Json{{"ends_at", 30}});
  const auto outcome = tune(scene, {});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().kind, ErrorKind::cancelled);
  ASSERT_EQ(ledger_.trials.size(), 1U);
  EXPECT_EQ(ledger_.trials.at(1).verdict, Verdict::interrupted);
}

}  // namespace
}  // namespace autotuned::daemon
