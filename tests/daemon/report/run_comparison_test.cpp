// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/run_comparison.hpp"

#include <gmock/gmock.h>

#include "tests/daemon/report/record_sample.hpp"

namespace autotuned::daemon {
namespace {

using testing::HasSubstr;
using testing::Not;

TrialBlock block(bool is_candidate, std::int64_t wait_ns) {
  TrialBlock block{.pair = 1, .is_candidate = is_candidate, .is_first = false, .block = {}};
  block.block.duration_ns = 1000;
  block.block.samples = 10;
  block.block.data_wait_ns = wait_ns;
  block.block.cpu_ns = 500;
  block.block.peak_host_memory_bytes = 4096;
  return block;
}

TEST(RunComparison, OfARunWithItself) {
  const ComparedSide side = side_of(sample_record(), std::nullopt, {});
  const std::string text = comparison_text(side, side);
  EXPECT_THAT(text, HasSubstr("environment: the same"));
  EXPECT_THAT(text, HasSubstr("recipe: the same"));
  EXPECT_THAT(text, HasSubstr("knob: the same"));
  EXPECT_THAT(text, HasSubstr("A and B were not measured side by side"));
  EXPECT_EQ(comparison_json(side, side).at("ratio"), 1.0);
}

TEST(RunComparison, NamesAScriptAsOne) {
  RunRecord record = sample_record();
  const ComparedSide recipe = side_of(record, std::nullopt, {});
  record.run.recipe = {{"kind", "script"}, {"name", "train.py"}};
  const ComparedSide script = side_of(record, std::nullopt, {});
  EXPECT_THAT(comparison_text(script, script), HasSubstr("script: the same"));
  EXPECT_THAT(comparison_summary(script, script),
              HasSubstr("nothing: machine, script and knobs are the same"));
  EXPECT_THAT(comparison_summary(script, recipe), HasSubstr("changed  job "));
}

TEST(RunComparison, ShowsWhatDiffers) {
  RunRecord other = sample_record();
  other.run.id = {"r-20261122-000000"};
  other.run.recipe["optimizer"]["lr"] = 0.1;
  other.environment->facts["cpus_allowed"] = 8;
  other.run.best = sample_configuration(true, 4);
  other.run.best_samples_per_second = 2500;
  other.profiles = {sample_profile(other.run.best, 0.0)};
  const ComparedSide a = side_of(sample_record(), std::nullopt, {block(true, 100)});
  const ComparedSide b = side_of(other, std::nullopt, {});

  const Json json = comparison_json(a, b);
  EXPECT_EQ(json.at("environment"), Json({{{"field", "cpus_allowed"}, {"a", 2}, {"b", 8}}}));
  EXPECT_EQ(json.at("recipe"), Json({{{"field", "optimizer.lr"}, {"a", nullptr}, {"b", 0.1}}}));
  EXPECT_EQ(json.at("knobs"), Json({{{"field", "loader.workers"}, {"a", 0}, {"b", 4}}}));
  EXPECT_EQ(json.at("ratio"), 2.0);
  EXPECT_EQ(json.at("is_side_by_side"), false);
  EXPECT_DOUBLE_EQ(json.at("metrics").at("step.data_wait_ratio").at("difference"), -0.1);
  EXPECT_EQ(json.at("metrics").at("blocks.data_wait_ratio").at("a"), 0.1);
  EXPECT_EQ(json.at("metrics").at("blocks.data_wait_ratio").at("b"), nullptr);
  EXPECT_EQ(json.at("spans_ns_per_step").at("forward").at("a"), 1'600'000);

  const std::string text = comparison_text(a, b);
  EXPECT_THAT(text, testing::ContainsRegex("loader.workers +0 +4\n"));
  EXPECT_THAT(text, testing::ContainsRegex("optimizer.lr +- +0.1\n"));
  EXPECT_THAT(text, testing::ContainsRegex("its own +1,250 samples/s +2,500 samples/s +2.000\n"));
  EXPECT_THAT(text, testing::ContainsRegex("step.data_wait_ratio +10.0 % +0.0 % +-10.0 points\n"));
  EXPECT_THAT(text, Not(HasSubstr("blocks.data_wait_ratio")));  // B has none
  EXPECT_THAT(text, HasSubstr("A: exact check passed: all are equal"));
}

TEST(RunComparison, ShowsTimesAsARecipeHasThem) {
  RunRecord first = sample_record();
  first.run.recipe["tune"] = {{"budget_ns", 60'000'000'000}};
  RunRecord second = first;
  second.run.recipe["tune"]["budget_ns"] = 90'000'000'000;
  const ComparedSide a = side_of(first, std::nullopt, {});
  const ComparedSide b = side_of(second, std::nullopt, {});
  EXPECT_THAT(comparison_summary(a, b), HasSubstr("recipe tune.budget 1min → 90s"));
  EXPECT_THAT(comparison_text(a, b), testing::ContainsRegex("tune.budget +1min +90s\n"));
  EXPECT_EQ(comparison_json(a, b).at("recipe").at(0).at("field"), "tune.budget_ns");
}

TEST(RunComparison, ATrialIsItsCandidate) {
  RunRecord record = sample_record();
  TrialRecord trial = sample_trial(3, "num_workers", Verdict::rejected, {});
  trial.change = {};
  trial.change.set("loader.workers", std::int64_t{2});
  record.trials.push_back(trial);
  const ComparedSide side = side_of(record, trial, {block(true, 100), block(false, 900)});
  EXPECT_EQ(side.name, "r-20261121-7f3a9c.3");
  EXPECT_EQ(side.what, "small, trial of num_workers, rejected");
  EXPECT_EQ(side.configuration.integer("loader.workers"), 2);
  EXPECT_EQ(side.metrics.at("blocks.data_wait_ratio"), 0.1);
  EXPECT_EQ(side.metrics.at("blocks.cpu_ns_per_sample"), 50.0);
  const std::string text = comparison_text(side, side);
  EXPECT_THAT(text, HasSubstr("r-20261121-7f3a9c.3 was not profiled."));
  EXPECT_THAT(text, HasSubstr("not measured"));
  EXPECT_THAT(text, HasSubstr("A: no checks"));
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

TEST(RunComparison, SaysThatAModelStandsInForAnAccelerator) {
  RunRecord record = sample_record();
  const ComparedSide real = side_of(record, std::nullopt, {});
  record.run.recipe["model"]["type"] = "paced";
  const ComparedSide paced = side_of(record, std::nullopt, {});
  EXPECT_THAT(comparison_text(real, paced), HasSubstr("stands in for an accelerator"));
  EXPECT_THAT(comparison_text(real, real), Not(HasSubstr("stands in for an accelerator")));
  EXPECT_NE(comparison_json(real, paced).at("b").at("note"), "");
}

TEST(RunComparison, OfDifferentJobsGivesNoRatio) {
  RunRecord record = sample_record();
  const ComparedSide mlp = side_of(record, std::nullopt, {});
  record.run.recipe["model"]["type"] = "resnet";
  const ComparedSide resnet = side_of(record, std::nullopt, {});
  EXPECT_EQ(different_jobs_text(mlp, mlp), "");
  EXPECT_EQ(different_jobs_text(mlp, resnet), "they train different models (mlp and resnet)");
  const Json json = comparison_json(mlp, resnet);
  EXPECT_TRUE(json.at("ratio").is_null());
  EXPECT_EQ(json.at("different_jobs"), "they train different models (mlp and resnet)");
  EXPECT_TRUE(json.at("metrics").at("step.data_wait_ratio").at("difference").is_null());
  EXPECT_TRUE(comparison_json(mlp, mlp).at("different_jobs").is_null());
  const std::string summary = comparison_summary(mlp, resnet);
  EXPECT_THAT(summary, HasSubstr("1,250 samples/s and 1,250 samples/s: not compared, since A and "
                                 "B are different jobs: they train different models"));
  EXPECT_THAT(summary, Not(HasSubstr("1.000 x, not measured")));
  const std::string text = comparison_text(mlp, resnet);
  EXPECT_THAT(text, HasSubstr("A and B are different jobs: they train different models"));
  EXPECT_THAT(text, testing::ContainsRegex("its own +1,250 samples/s +1,250 samples/s +-\n"));
  EXPECT_THAT(text, Not(HasSubstr("points")));

  record.run.recipe = {{"kind", "script"}, {"name", "train.py"}};
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
