// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/run_comparison.hpp"

#include <gtest/gtest.h>
#include <time.h>

#include "tests/base/environment_variable.hpp"
#include "tests/daemon/report/record_sample.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

TrialBlock block(bool is_candidate, std::int64_t wait_ns) {
  TrialBlock block{.pair = 1, .is_candidate = is_candidate, .is_first = false, .block = {}};
  block.block.duration_ns = 1000;
  block.block.samples = 10;
  block.block.data_wait_ns = wait_ns;
  block.block.cpu_ns = 500;
  block.block.peak_host_memory_bytes = 4096;
  return block;
}

// One side, and what is other in its run.
ComparedSide side_with(void (*change)(RunRecord& record),
                       const std::vector<TrialBlock>& blocks = {}) {
  RunRecord record = sample_record();
  change(record);
  return side_of(record, std::nullopt, blocks);
}

void leave_as_it_is(RunRecord& /*record*/) {}

void use_a_script(RunRecord& record) {
  record.run.recipe = {{"kind", "script"}, {"name", "train.py"}};
}

void use_a_paced_model(RunRecord& record) {
  record.run.recipe["model"]["type"] = "paced";
}

void use_a_resnet(RunRecord& record) {
  record.run.recipe["model"]["type"] = "resnet";
}

template <int kSeconds>
void set_budget(RunRecord& record) {
  record.run.recipe["tune"] = {{"budget_ns", std::int64_t{kSeconds} * 1'000'000'000}};
}

void differ_in_everything(RunRecord& record) {
  record.run.id = {"r-20261122-000000"};
  record.run.recipe["optimizer"]["lr"] = 0.1;
  record.environment->facts["cpus_allowed"] = 8;
  record.run.best = sample_configuration(true, 4);
  record.run.best_samples_per_second = 2500;
  record.profiles = {sample_profile(record.run.best, 0.0)};
}

ComparedSide side_of_trial() {
  RunRecord record = sample_record();
  TrialRecord trial = sample_trial(3, "num_workers", Verdict::rejected, {});
  trial.change = {};
  trial.change.set("loader.workers", std::int64_t{2});
  record.trials.push_back(trial);
  return side_of(record, trial, {block(true, 100), block(false, 900)});
}

std::string compared(const ComparedSide& a, const ComparedSide& b) {
  return comparison_summary(a, b) + "\n" + comparison_text(a, b);
}

TEST(RunComparison, IsToldInAFewLinesAndInMany) {
  const EnvironmentVariable zone("TZ", "UTC");
  ::tzset();
  const ComparedSide run = side_with(leave_as_it_is);
  const std::string same = compared(run, run);
  tests::Cases cases;
  cases.add("a run with itself", "\n" + same);
  cases.add("two runs that differ; the second one has no blocks",
            "\n" + compared(side_with(leave_as_it_is, {block(true, 100)}),
                            side_with(differ_in_everything)));
  const auto tell = [&](const char* given, const ComparedSide& a, const ComparedSide& b) {
    cases.add_difference(given, same, compared(a, b));
  };
  tell("a trial that was neither profiled nor checked", side_of_trial(), side_of_trial());
  tell("two budgets", side_with(set_budget<60>), side_with(set_budget<90>));
  tell("a script with itself", side_with(use_a_script), side_with(use_a_script));
  tell("a script with a recipe", side_with(use_a_script), run);
  tell("a model that stands in for an accelerator", run, side_with(use_a_paced_model));
  tell("different jobs have no ratio", run, side_with(use_a_resnet));
  tell("the training of one left out what it was measured with", run,
       side_with(leave_out_extension));
  tests::expect_golden("daemon/report/golden/run_comparison.txt", cases.text());
}

TEST(RunComparison, ShowsWhatDiffers) {
  const ComparedSide a = side_with(leave_as_it_is, {block(true, 100)});
  EXPECT_EQ(comparison_json(a, a).at("ratio"), 1.0);
  const Json json = comparison_json(a, side_with(differ_in_everything));
  EXPECT_EQ(json.at("environment"), Json({{{"field", "cpus_allowed"}, {"a", 2}, {"b", 8}}}));
  EXPECT_EQ(json.at("recipe"), Json({{{"field", "optimizer.lr"}, {"a", nullptr}, {"b", 0.1}}}));
  EXPECT_EQ(json.at("knobs"), Json({{{"field", "loader.workers"}, {"a", 0}, {"b", 4}}}));
  EXPECT_EQ(json.at("ratio"), 2.0);
  EXPECT_EQ(json.at("is_side_by_side"), false);
  EXPECT_DOUBLE_EQ(json.at("metrics").at("step.data_wait_ratio").at("difference"), -0.1);
  EXPECT_EQ(json.at("metrics").at("blocks.data_wait_ratio").at("a"), 0.1);
  EXPECT_EQ(json.at("metrics").at("blocks.data_wait_ratio").at("b"), nullptr);
  EXPECT_EQ(json.at("spans_ns_per_step").at("forward").at("a"), 1'600'000);
  EXPECT_EQ(comparison_json(side_with(set_budget<60>), side_with(set_budget<90>))
                .at("recipe")
                .at(0)
                .at("field"),
            "tune.budget_ns");
  EXPECT_NE(comparison_json(a, side_with(use_a_paced_model)).at("b").at("note"), "");
  EXPECT_EQ(json.at("b").at("left_out"), "");
  EXPECT_EQ(comparison_json(a, side_with(leave_out_extension)).at("b").at("left_out"),
            "measured with plugin mine, which the training left out");
}

TEST(RunComparison, ATrialIsItsCandidate) {
  const ComparedSide side = side_of_trial();
  EXPECT_EQ(side.name, "r-20261121-7f3a9c.3");
  EXPECT_EQ(side.what, "small, trial of num_workers, rejected");
  EXPECT_EQ(side.configuration.integer("loader.workers"), 2);
  EXPECT_EQ(side.metrics.at("blocks.data_wait_ratio"), 0.1);
  EXPECT_EQ(side.metrics.at("blocks.cpu_ns_per_sample"), 50.0);
  EXPECT_TRUE(comparison_json(side, side).at("ratio").is_null());
}

TEST(RunComparison, ARunIsMeasuredByTheTrialThatSettledIt) {
  const RunRecord record = sample_record();
  EXPECT_EQ(measured_trial(record, std::nullopt)->number, 2);
  EXPECT_EQ(measured_trial(record, record.trials[0])->number, 1);
  EXPECT_FALSE(measured_trial({}, std::nullopt));
}

TEST(RunComparison, ARunThatWasNotTunedIsItsStart) {
  RunRecord record = sample_record();
  record.run.best = {};
  const ComparedSide side = side_of(record, std::nullopt, {});
  EXPECT_EQ(side.configuration, record.run.starting);
  EXPECT_EQ(side.samples_per_second, 1000);
}

TEST(RunComparison, OfDifferentJobsGivesNoRatio) {
  const ComparedSide mlp = side_with(leave_as_it_is);
  const ComparedSide resnet = side_with(use_a_resnet);
  EXPECT_EQ(different_jobs_text(mlp, mlp), "");
  EXPECT_EQ(different_jobs_text(mlp, resnet), "they train different models (mlp and resnet)");
  const Json json = comparison_json(mlp, resnet);
  EXPECT_TRUE(json.at("ratio").is_null());
  EXPECT_EQ(json.at("different_jobs"), "they train different models (mlp and resnet)");
  EXPECT_TRUE(json.at("metrics").at("step.data_wait_ratio").at("difference").is_null());
  EXPECT_TRUE(comparison_json(mlp, mlp).at("different_jobs").is_null());

  RunRecord record = sample_record();
  use_a_script(record);
  const ComparedSide script = side_of(record, std::nullopt, {});
  EXPECT_EQ(different_jobs_text(mlp, script), "one is a recipe and the other a script");
  record.run.recipe["name"] = "other.py";
  const ComparedSide other = side_of(record, std::nullopt, {});
  EXPECT_EQ(different_jobs_text(script, other),
            "they are different scripts (train.py and other.py)");
  record.run.recipe["name"] = "train.py";
  record.run.training["counted"] = "steps";
  const ComparedSide steps = side_of(record, std::nullopt, {});
  EXPECT_EQ(different_jobs_text(script, steps), "one counts samples and the other steps");
}

TEST(RunComparison, ParametersOfModelAndDataMakeAnotherJob) {
  RunRecord record = sample_record();
  record.run.recipe["model"]["hidden"] = 128;
  record.run.recipe["data"]["path"] = "/data/./photos";
  record.run.recipe["data"]["line"] = 3;
  const ComparedSide small = side_of(record, std::nullopt, {});
  record.run.recipe["data"]["path"] = "/data/photos";
  record.run.recipe["data"]["line"] = 4;
  record.run.recipe["optimizer"]["lr"] = 0.5;
  EXPECT_EQ(different_jobs_text(small, side_of(record, std::nullopt, {})), "");

  record.run.recipe["model"]["hidden"] = 256;
  ComparedSide large = side_of(record, std::nullopt, {});
  EXPECT_EQ(different_jobs_text(small, large), "they train different models (hidden 128 and 256)");
  record.run.recipe["model"]["hidden"] = 128;
  record.run.recipe["data"]["path"] = "/data/pictures";
  EXPECT_EQ(different_jobs_text(small, side_of(record, std::nullopt, {})),
            "they train on different data (path /data/./photos and /data/pictures)");

  record.run.recipe_hash = "0123456789abcdef";
  large = side_of(record, std::nullopt, {});
  ComparedSide same = small;
  same.recipe_hash = record.run.recipe_hash;
  EXPECT_EQ(different_jobs_text(same, large), "") << "the files are the same elsewhere";
}

TEST(RunComparison, OtherTransformsMakeAnotherJob) {
  RunRecord record = sample_record();
  record.run.recipe["input"] = {{{"type", "decode_jpeg"}, {"line", 7}},
                                {{"type", "resize"}, {"size", 32}}};
  const ComparedSide small = side_of(record, std::nullopt, {});
  record.run.recipe["input"][0]["line"] = 9;
  record.run.recipe["name"] = "other";
  EXPECT_EQ(different_jobs_text(small, side_of(record, std::nullopt, {})), "");
  record.run.recipe["input"][1]["size"] = 64;
  EXPECT_EQ(different_jobs_text(small, side_of(record, std::nullopt, {})),
            "they transform their samples differently (input.2.size 32 and 64)");
}

TEST(RunComparison, TellsAnUndecidedConfirmationFromNone) {
  RunRecord record = sample_record();
  record.run.speedup = {};
  record.trials[1].verdict = Verdict::rejected;
  record.trials[1].rejection = RejectionReason::undecided_in_time;
  const ComparedSide undecided = side_of(record, std::nullopt, {});
  record.trials.clear();
  const ComparedSide none = side_of(record, std::nullopt, {});
  EXPECT_NE(comparison_summary(undecided, none).find("gains    A not confirmed, B not measured:"),
            std::string::npos)
      << comparison_summary(undecided, none);
}

// The budget of 0 is the extension's, not the user's.
TEST(RunComparison, TheBudgetOfAnExtensionIsNoDifference) {
  RunRecord record = extending_record();
  record.run.recipe["optimizer"]["lr"] = 0.5;
  set_budget<0>(record);
  const ComparedSide extension = side_of(record, std::nullopt, {});
  const ComparedSide extended = side_with(set_budget<10>);
  EXPECT_EQ(differences_between(extended.recipe, extension.recipe).size(), 2U);
  for (const auto& found :
       {recipe_differences(extended, extension), recipe_differences(extension, extended)}) {
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].field, "optimizer.lr");
  }
  EXPECT_EQ(comparison_json(extended, extension).at("recipe").size(), 1U);
  EXPECT_EQ(compared(extended, extension).find("tune.budget"), std::string::npos);
}

TEST(Differences, GoIntoObjectsAndLists) {
  const auto found = differences_between({{"a", {{"b", 1}}}, {"list", {1, 2}}, {"same", "x"}},
                                         {{"a", {{"b", 2}}}, {"list", {1}}, {"same", "x"}});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].field, "a.b");
  EXPECT_EQ(found[1].field, "list.2");
  EXPECT_EQ(found[1].a, 2);
  EXPECT_TRUE(found[1].b.is_null());
}

}  // namespace
}  // namespace autotuned::daemon
