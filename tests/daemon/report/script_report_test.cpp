// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/script_report.hpp"

#include <gmock/gmock.h>

#include <sstream>
#include <string>

#include "daemon/report/report.hpp"
#include "daemon/report/story.hpp"

namespace autotuned::daemon {
namespace {

using testing::HasSubstr;

storage::RunRow sample() {
  storage::RunRow run;
  run.id.text = "r-20261123-5d0c1e";
  run.recipe_name = "train.py";
  run.recipe = {{"kind", "script"},
                {"name", "train.py"},
                {"command", {"python3", "train.py", "--epochs", "2"}}};
  run.state = storage::RunState::training;
  run.starting.set("loader.workers", std::int64_t{0});
  run.best = run.starting;
  run.best.set("loader.workers", std::int64_t{2});
  run.speedup = {.ratio = 1.49, .low = 1.22, .high = 1.57, .pairs = 7};
  run.baseline_samples_per_second = 640.0;
  run.best_samples_per_second = 954.0;
  run.tuning_duration_ns = 38'200'000'000;
  run.training["steps"] = 1870;
  run.training["tuned_steps"] = 1870;
  run.training["tuning_cost_ns"] = 2'200'000'000;
  run.training["steps_under"] = {{{"change", ""}, {"steps", 1240}},
                                 {{"change", "loader.workers 0 → 2"}, {"steps", 630}}};
  return run;
}

TEST(ScriptReport, SaysWhatWasKeptAndWhatTheStepsRanUnder) {
  EXPECT_EQ(tuned_text(sample()),
            "kept     loader.workers 0 → 2\n"
            "faster   1.49 x (1.22 to 1.57)\n"
            "tuning   38.2 s, 2.2 s more than its steps take as the script is\n"
            "steps    of the training: 1,240 as the script is, 630 with loader.workers 0 → 2\n");
}

TEST(ScriptReport, TellsTheLoggersOfTheScriptWhatWasKept) {
  storage::RunRow run = sample();
  const Json kept = {{"run", "r-20261123-5d0c1e"},
                     {"change", "loader.workers 0 → 2"},
                     {"speedup", 1.49},
                     {"faster", "1.49 x (1.22 to 1.57)"}};
  EXPECT_EQ(kept_json(run), kept);
  run.best = run.starting;
  EXPECT_TRUE(kept_json(run).is_null());
  run.best = Configuration();
  EXPECT_TRUE(kept_json(run).is_null()) << "its tuning did not end";
}

TEST(ScriptReport, OfManyChangesSaysHowMany) {
  Json parts = Json::array({{{"change", ""}, {"steps", 1240}}});
  for (int i = 0; i < 9; ++i)
    parts.push_back({{"change", "threads.intra_op 2 → " + std::to_string(i)}, {"steps", 100}});
  EXPECT_EQ(steps_under_text({{"steps_under", parts}}),
            "1,240 as the script is, 900 with one of 9 changes");
}

TEST(ScriptReport, SaysWhatThereWasNoTimeFor) {
  storage::RunRow run = sample();
  run.training["budget_ns"] = 20'000'000'000;
  run.training["is_budget_spent"] = true;
  EXPECT_THAT(tuned_text(run), HasSubstr("did not suffice for a second look"));
  run.training["untried"] =
      Json::array({{{"plugin", "amp"}, {"change", "precision.autocast off → bf16"}}});
  for (const std::string& text : {tuned_text(run), run_text(run, {})}) {
    EXPECT_THAT(
        text,
        HasSubstr("untried  precision.autocast off → bf16 (amp): what was left of the budget of "
                  "20.0 s is too short for a trial\n         the next run goes on with it"));
  }
}

// The card takes the first nine columns of each line for its label.
TEST(ScriptReport, EachLineOfASummaryBeginsWithALabelOrItsBlanks) {
  storage::RunRow run = sample();
  run.training["is_budget_spent"] = true;
  const auto look = [&run] {
    for (const std::string& text : {tuned_text(run), summary_text(run, {})}) {
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) {
        ASSERT_GT(line.size(), 9U) << text;
        EXPECT_EQ(line[8], ' ') << line;
        EXPECT_NE(line[9], ' ') << line;
      }
    }
  };
  look();
  run.training["untried"] =
      Json::array({{{"plugin", "amp"}, {"change", "precision.autocast off → bf16"}}});
  look();
  run.training["untried"].push_back({{"plugin", "threads"}, {"change", "threads.intra_op 2 → 1"}});
  look();
  run.training["shortage"] = "--budget 1.0 s is too small for one trial here";
  look();
}

TEST(ScriptReport, SaysThatNoTrialFittedIntoItsTime) {
  storage::RunRow run = sample();
  run.best = run.starting;
  run.training["is_budget_spent"] = true;
  run.training["shortage"] = "--budget 1.0 s is too small for one trial here";
  EXPECT_THAT(
      tuned_text(run),
      HasSubstr(
          "\nuntried  nothing new was tried: --budget 1.0 s is too small for one trial here\n"));
  EXPECT_THAT(tuned_text(run), testing::Not(HasSubstr("second look")));
}

// Many are a number, for whoever does not ask.
TEST(ScriptReport, ManyProposalsWithoutATrialAreOneLine) {
  RunRecord record{.run = sample()};
  Json& untried = record.run.training["untried"];
  untried = Json::array({{{"plugin", "amp"}, {"change", "precision.autocast off → bf16"}}});
  for (int i = 1; i < 7; ++i)
    untried.push_back(
        {{"plugin", "threads"}, {"change", "threads.intra_op 2 → " + std::to_string(i)}});
  const std::string folded = story_text(record);
  EXPECT_THAT(folded, HasSubstr("  not tried: 7 proposals, the first is precision.autocast off → "
                                "bf16 (amp): what was left of the budget"));
  EXPECT_THAT(folded, HasSubstr("`autotuned explain r-20261123-5d0c1e --verbose` lists them"));
  EXPECT_THAT(folded, testing::Not(HasSubstr("threads.intra_op 2 → 6")));
  EXPECT_THAT(run_text(record.run, {}), HasSubstr("untried  7 proposals, the first is "));
  const std::string whole = story_text(record, /*is_whole=*/true);
  EXPECT_THAT(whole, HasSubstr("\n    precision.autocast off → bf16 (amp)\n"));
  EXPECT_THAT(whole, HasSubstr("\n    threads.intra_op 2 → 6 (threads)\n"));
}

TEST(ScriptReport, SaysHowTheScriptEnded) {
  storage::RunRow run = sample();
  run.state = storage::RunState::finished;
  EXPECT_EQ(state_text(run), "finished");
  run.training["exit_code"] = 3;
  EXPECT_EQ(state_text(run), "finished (exit status 3 of the script)");
  run.state = storage::RunState::cancelled;
  run.training["exit_code"] = 0;
  run.training["signal"] = 2;
  EXPECT_EQ(state_text(run), "interrupted (signal 2 (Interrupt))");
}

TEST(ScriptReport, CountsStepsWhereItHasNoSamples) {
  storage::RunRow run = sample();
  EXPECT_THAT(run_text(run, {}), HasSubstr("start    640 samples/s"));
  run.training["counted"] = "steps";
  EXPECT_THAT(run_text(run, {}), HasSubstr("start    640 steps/s"));
  run.baseline_samples_per_second = 1.5;
  const std::string story = story_text({.run = run});
  EXPECT_THAT(story, HasSubstr("The starting configuration trained 1.50 steps/s."));
  EXPECT_THAT(story, HasSubstr("instead of 1.50 steps/s"));
  EXPECT_THAT(story, testing::Not(HasSubstr("samples")));
}

TEST(ScriptReport, StepsAreThoseOfTheWholeScript) {
  storage::RunRow run = sample();
  run.training["is_counted_to_end"] = true;
  EXPECT_THAT(run_text(run, {}), HasSubstr("trained  1,870 steps\n"));
  run.training["is_counted_to_end"] = false;
  EXPECT_THAT(run_text(run, {}), HasSubstr("trained  1,870 steps until its tuning ended"));
}

// Its steps are steps of the training: only what they took beyond the rate of the start is lost.
TEST(ScriptReport, ItsTuningHasCostOnlyWhatItTookBeyondItsSteps) {
  storage::RunRow run = sample();
  const auto pays = break_even(run);
  ASSERT_TRUE(pays);
  EXPECT_NEAR(pays->seconds, 2.2 / 0.49, 1e-6);
  EXPECT_NEAR(pays->samples, 2.2 * 640 * 1.49 / 0.49, 1e-6);
  EXPECT_THAT(story_text({.run = run}),
              HasSubstr("The script made 1,870 steps of its training meanwhile. At the rate of the "
                        "start they would have taken 36.0 s, so the tuning cost 2.2 s."));
  run.training["tuning_cost_ns"] = 0;
  EXPECT_THAT(story_text({.run = run}), HasSubstr("taken no less: the tuning cost nothing."));
  run.training.erase("tuning_cost_ns");
  EXPECT_NEAR(break_even(run)->seconds, 38.2 / 0.49, 1e-6) << "that of a recipe";
}

TEST(ScriptReport, WhoHasTheSameToSaySharesALine) {
  RunRecord record{.run = sample()};
  for (const char* plugin : {"crop_first", "input_cache", "jpeg_index"}) {
    storage::PluginAnswerRow answer;
    answer.plugin = plugin;
    answer.outcome = "what it changes can only be changed in a recipe";
    answer.is_answered = true;
    record.answers.push_back(answer);
  }
  EXPECT_THAT(story_text(record),
              HasSubstr("crop_first, input_cache and jpeg_index proposed nothing: what it changes "
                        "can only be changed in a recipe."));
}

TEST(ScriptReport, AWideIntervalDecidesNothing) {
  RunRecord record{.run = sample()};
  TrialRecord trial;
  trial.number = 1;
  trial.kind = TrialKind::proposal;
  trial.plugin = "amp";
  trial.verdict = Verdict::rejected;
  trial.rejection = RejectionReason::undecided_in_time;
  trial.estimate = {.ratio = 1.04, .low = 0.9, .high = 1.2, .pairs = 5};
  record.trials = {trial};
  EXPECT_THAT(story_text(record), HasSubstr("Rejected, undecided: +4.0 %"));
  record.trials[0].rejection = RejectionReason::no_gain;
  record.trials[0].estimate = {.ratio = 1.0, .low = 0.99, .high = 1.01, .pairs = 5};
  EXPECT_THAT(story_text(record), HasSubstr("Rejected, no gain: +0.0 %"));
  // A check comes before any block: there is no gain to tell.
  record.trials[0].rejection = RejectionReason::not_same_model;
  record.trials[0].estimate = {};
  EXPECT_THAT(story_text(record), testing::Not(HasSubstr("would have been worth")));
}

TEST(ScriptReport, SaysThatNothingWasKept) {
  storage::RunRow run = sample();
  run.best = run.starting;
  EXPECT_THAT(tuned_text(run), HasSubstr("the script goes on as it is"));
}

TEST(ScriptReport, ARunOfAScriptIsTold) {
  const storage::RunRow run = sample();
  EXPECT_TRUE(is_script(run.recipe));
  EXPECT_FALSE(is_script(Json{{"model", {{"type", "mlp"}}}}));
  EXPECT_EQ(script_text(run.recipe), "the script train.py: python3 train.py --epochs 2");
  const std::string text = run_text(run, {});
  const RunRecord record{.run = run, .environment = storage::EnvironmentRow{.libtorch = "2.9.1"}};
  EXPECT_THAT(story_text(record), HasSubstr("; PyTorch 2.9.1.")) << "it is the script's own";
  EXPECT_EQ(story_json(record).at("job").at("script"), script_text(run.recipe));
  EXPECT_THAT(text, HasSubstr("script   train.py"));
  EXPECT_THAT(text, HasSubstr("while it was tuned: 1,240 as the script is, 630 with"));
}

TEST(ScriptReport, ARunWithoutStepsTellsNone) {
  EXPECT_EQ(steps_under_text(Json::object()), "");
  EXPECT_EQ(steps_under_text(Json(nullptr)), "");
}

}  // namespace
}  // namespace autotuned::daemon
