// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/script_report.hpp"

#include <gtest/gtest.h>
#include <time.h>

#include <optional>
#include <sstream>
#include <string>

#include "daemon/report/report.hpp"
#include "tests/base/environment_variable.hpp"
#include "tests/daemon/report/record_sample.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

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

Json untried_proposals(int count) {
  Json untried = Json::array({{{"plugin", "amp"}, {"change", "precision.autocast off → bf16"}}});
  for (int i = 1; i < count; ++i)
    untried.push_back(
        {{"plugin", "threads"}, {"change", "threads.intra_op 2 → " + std::to_string(i)}});
  return untried;
}

RunRecord script_with_trial(std::optional<RejectionReason> rejection, Estimate estimate) {
  RunRecord record{.run = sample()};
  TrialRecord trial;
  trial.number = 1;
  trial.kind = TrialKind::proposal;
  trial.plugin = "amp";
  trial.verdict = Verdict::rejected;
  trial.rejection = rejection;
  trial.estimate = estimate;
  record.trials = {trial};
  return record;
}

std::string lines_of_view(const std::string& view, const std::string& text) {
  std::istringstream lines(text);
  std::string marked;
  for (std::string line; std::getline(lines, line);)
    marked += view + "| " + line + "\n";
  return marked;
}

// All that is told of a run: when it ends, by `show` and by `explain`.
std::string told_of_script(const RunRecord& record, bool is_whole = false) {
  return lines_of_view("end", tuned_text(record.run)) +
         lines_of_view("show", run_text(record.run, record.trials)) +
         lines_of_view("explain", story_text(record, is_whole));
}

const Variant kScriptVariants[] = {
    {"the budget is spent",
     [](RunRecord& record) {
       record.run.training["budget_ns"] = 40'000'000'000;
       record.run.training["is_budget_spent"] = true;
     }},
    {"a proposal for which there was no time",
     [](RunRecord& record) {
       record.run.training["budget_ns"] = 40'000'000'000;
       record.run.training["is_budget_spent"] = true;
       record.run.training["untried"] = untried_proposals(1);
     }},
    {"many proposals for which there was no time",
     [](RunRecord& record) { record.run.training["untried"] = untried_proposals(7); }},
    {"its last trial ended after the budget",
     [](RunRecord& record) {
       record.run.training["budget_ns"] = 20'000'000'000;
       record.run.training["beyond_budget"] =
           Json::array({Json{{"trial", 4}, {"by", "confirmation"}}});
     }},
    {"no trial fitted into its time",
     [](RunRecord& record) {
       record.run.best = record.run.starting;
       record.run.training["is_budget_spent"] = true;
       record.run.training["shortage"] = "--budget 1.0 s is too small for one trial here";
     }},
    {"nothing was kept", [](RunRecord& record) { record.run.best = record.run.starting; }},
    {"it has counted steps, not samples",
     [](RunRecord& record) {
       record.run.training["counted"] = "steps";
       record.run.baseline_samples_per_second = 1.5;
     }},
    {"the steps are those of the whole script",
     [](RunRecord& record) { record.run.training["is_counted_to_end"] = true; }},
    {"the tuning cost nothing",
     [](RunRecord& record) { record.run.training["tuning_cost_ns"] = 0; }},
    {"plugins that have the same to say share a line",
     [](RunRecord& record) {
       for (const char* plugin : {"crop_first", "input_cache", "jpeg_index"})
         record.answers.push_back({.plugin = plugin,
                                   .outcome = "what it changes can only be changed in a recipe",
                                   .is_answered = true});
     }},
    {"LibTorch is the PyTorch of the script",
     [](RunRecord& record) { record.environment = storage::EnvironmentRow{.libtorch = "2.9.1"}; }},
    {"a wide interval decides nothing",
     [](RunRecord& record) {
       record = script_with_trial(RejectionReason::undecided_in_time, {1.04, 0.9, 1.2, 5});
     }},
    {"a narrow one shows no gain",
     [](RunRecord& record) {
       record = script_with_trial(RejectionReason::no_gain, {1.0, 0.99, 1.01, 5});
     }},
    {"a row of a version that stored the sentence only",
     [](RunRecord& record) {
       record = script_with_trial(std::nullopt, {1.0, 0.99, 1.01, 5});
       record.trials[0].reason = "no gain shown in its time: 1.000 times the rate";
     }},
    {"a check comes before any block: there is no gain to tell",
     [](RunRecord& record) { record = script_with_trial(RejectionReason::not_same_model, {}); }},
};

TEST(ScriptReport, IsToldInPlainSentences) {
  const EnvironmentVariable zone("TZ", "UTC");
  ::tzset();
  const std::string usual = told_of_script({.run = sample()});
  tests::Cases cases;
  cases.add("a script that is being trained", "\n" + usual);
  for (const Variant& variant : kScriptVariants) {
    RunRecord record{.run = sample()};
    variant.change(record);
    cases.add_difference(variant.given, usual, told_of_script(record));
  }
  RunRecord record{.run = sample()};
  record.run.training["untried"] = untried_proposals(7);
  cases.add_difference("many proposals, with --verbose", usual,
                       told_of_script(record, /*is_whole=*/true));
  tests::expect_golden("daemon/report/golden/script_report.txt", cases.text());
}

TEST(ScriptReport, NamesTheRunWhoseSearchWasTaken) {
  storage::RunRow run = sample();
  EXPECT_EQ(tuned_text(run).find("search   "), std::string::npos);
  run.training["searched_by"] = "r-20261120-0a1b2c";
  EXPECT_NE(tuned_text(run).find("\nsearch   the search of run r-20261120-0a1b2c is taken; "
                                 "--retune searches again\n"),
            std::string::npos)
      << tuned_text(run);
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
            "1,240 as the script is, 900 with one of the 9 changes that were tried");
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
  run.training["untried"] = untried_proposals(1);
  look();
  run.training["untried"] = untried_proposals(2);
  look();
  run.training["shortage"] = "--budget 1.0 s is too small for one trial here";
  look();
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

// Its steps are steps of the training: only what they took beyond the rate of the start is lost.
TEST(ScriptReport, ItsTuningHasCostOnlyWhatItTookBeyondItsSteps) {
  storage::RunRow run = sample();
  const auto pays = break_even(run);
  ASSERT_TRUE(pays);
  EXPECT_NEAR(pays->seconds, 2.2 / 0.49, 1e-6);
  EXPECT_NEAR(pays->samples, 2.2 * 640 * 1.49 / 0.49, 1e-6);
  run.training.erase("tuning_cost_ns");
  EXPECT_NEAR(break_even(run)->seconds, 38.2 / 0.49, 1e-6) << "that of a recipe";
}

TEST(ScriptReport, ARunOfAScriptIsTold) {
  const storage::RunRow run = sample();
  EXPECT_TRUE(is_script(run.recipe));
  EXPECT_FALSE(is_script(Json{{"model", {{"type", "mlp"}}}}));
  EXPECT_EQ(script_text(run.recipe), "the script train.py: python3 train.py --epochs 2");
  EXPECT_EQ(story_json({.run = run}).at("job").at("script"), script_text(run.recipe));
}

TEST(ScriptReport, ARunWithoutStepsTellsNone) {
  EXPECT_EQ(steps_under_text(Json::object()), "");
  EXPECT_EQ(steps_under_text(Json(nullptr)), "");
}

}  // namespace
}  // namespace autotuned::daemon
