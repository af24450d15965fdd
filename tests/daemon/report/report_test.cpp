// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/report.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <ctime>
#include <string>

#include "tests/golden.hpp"
#include "tuner/comparison.hpp"

namespace autotuned::daemon {
namespace {

Configuration configuration(bool set_to_none, std::int64_t workers) {
  Configuration result;
  result.set("loader.workers", workers);
  result.set("optimizer.set_to_none", set_to_none);
  return result;
}

storage::RunRow sample_run() {
  setenv("TZ", "UTC", 1);
  tzset();
  storage::RunRow run;
  run.id = {"r-20261121-7f3a9c"};
  run.recipe_name = "small";
  run.state = storage::RunState::finished;
  run.starting = configuration(false, 0);
  run.best = configuration(true, 0);
  run.baseline_samples_per_second = 1000;
  run.best_samples_per_second = 1300;
  run.speedup = {.ratio = 1.3, .low = 1.25, .high = 1.35, .pairs = 20};
  run.ceiling_samples_per_second = 5000;
  run.ceiling_bound_by = "compute";
  run.ceiling_ladder = {
      {{"rung", "host_batch"}, {"samples_per_second", 1600}, {"reached_ratio", 0.8125}},
      {{"rung", "device_batch"}, {"samples_per_second", 5000}, {"reached_ratio", 0.26}}};
  run.started_unix_ns = 1'700'000'000'000'000'000;
  run.tuning_duration_ns = 2'500'000'000;
  run.training = {{"steps", 1200}, {"final_loss", 0.25}, {"test_accuracy", 0.875}};
  run.output_dir = "/out";
  return run;
}

TrialRecord own_sample_trial() {
  TrialRecord trial;
  trial.number = 1;
  trial.plugin = "set_to_none";
  trial.reference = configuration(false, 0);
  trial.change.set("optimizer.set_to_none", true);
  trial.risk = "exact";
  trial.verdict = Verdict::accepted;
  trial.reason = "faster";
  trial.estimate = {.ratio = 1.3, .low = 1.25, .high = 1.35, .pairs = 20};
  return trial;
}

Json json_of(const storage::RunRow& run, const std::vector<TrialRecord>& trials = {},
             const std::vector<Json>& profiles = {}) {
  return run_json(run, trials, {}, profiles);
}

// The final configuration against the same without a change that gives nothing.
TrialRecord sample_ablation() {
  TrialRecord ablation = own_sample_trial();
  ablation.number = 2;
  ablation.kind = TrialKind::ablation;
  ablation.verdict = Verdict::rejected;
  ablation.estimate = {.ratio = 1.004, .low = 0.99, .high = 1.015, .pairs = 30};
  return ablation;
}

// A proposal, a confirmation that was refused and one that was not, each with a cost.
std::vector<TrialRecord> trials_that_cost_once() {
  TrialRecord proposal = own_sample_trial();
  proposal.one_time_ns = 5'000'000'000;
  TrialRecord confirmation = proposal;
  confirmation.number = 2;
  confirmation.kind = TrialKind::confirmation;
  confirmation.one_time_ns = 4'000'000'000;
  TrialRecord refused = confirmation;
  refused.verdict = Verdict::rejected;
  refused.one_time_ns = 6'000'000'000;
  return {proposal, refused, confirmation};
}

// A training at 38 % of what tuning measured.
void hold_up(storage::RunRow& run) {
  run.training["samples"] = 12'000;
  run.training["duration_ns"] = 24e9;
}

void find_two_disturbances(storage::RunRow& run) {
  hold_up(run);
  run.training["disturbances"] = {"load: others compute", "heat: too hot"};
  run.training[kDisturbanceSubjects] = {"load", "heat"};
}

void find_load(storage::RunRow& run) {
  hold_up(run);
  run.training["disturbances"] = {"load: others compute"};
  run.training[kDisturbanceSubjects] = {"load"};
}

void confirm_nothing(storage::RunRow& run) {
  run.best = run.starting;
  run.speedup = {.ratio = 1.0, .low = 1.0, .high = 1.0, .pairs = 0};
}

void measure_nothing(storage::RunRow& run) {
  confirm_nothing(run);
  run.baseline_samples_per_second = 0.0;
  run.best_samples_per_second = 0.0;
  run.ceiling_samples_per_second = 0.0;
  run.training["samples"] = 12'000;
  run.training["duration_ns"] = 12e9;
}

void fail_the_check(storage::RunRow& run) {
  run.training["check"] = {{"passed", false},
                           {"detail", "weight stands still"},
                           {"refused", {{"optimizer.set_to_none", true}}}};
}

struct RunVariant {
  const char* given;
  void (*change)(storage::RunRow& run);
};

const RunVariant kRunVariants[] = {
    {"a ladder of one rung is the ceiling",
     [](storage::RunRow& run) { run.ceiling_ladder.erase(std::size_t{0}); }},
    {"many damaged files", [](storage::RunRow& run) { run.training["damaged_files"] = 1234; }},
    {"one step and one damaged file",
     [](storage::RunRow& run) {
       run.training["damaged_files"] = 1;
       run.training["steps"] = 1;
     }},
    {"it was not checked",
     [](storage::RunRow& run) {
       run.training["check"] = {{"passed", nullptr}, {"detail", "it would take 48 s"}};
     }},
    {"it failed its check", fail_the_check},
    {"its rate beside that of tuning, within what varies; evaluation does not count",
     [](storage::RunRow& run) {
       run.training["samples"] = 12'000;
       run.training["duration_ns"] = 12e9;
       run.training["evaluation_ns"] = 1e9;
     }},
    {"it was held up, and nothing was seen", hold_up},
    {"it was held up by what was seen", find_two_disturbances},
    {"it was held up: the load of the last process says nothing of the whole",
     [](storage::RunRow& run) {
       find_two_disturbances(run);
       run.training["resumed_from_step"] = 600;
     }},
    {"it was held up: a load as while it was tuned does not count",
     [](storage::RunRow& run) {
       find_two_disturbances(run);
       run.training["other_work_ratio"] = 0.4;
       run.training["tuning_other_work_ratio"] = 0.41;
     }},
    {"it was held up beside a load that was not there while it was tuned",
     [](storage::RunRow& run) {
       hold_up(run);
       run.training["other_work_ratio"] = 0.43;
       run.training["tuning_other_work_ratio"] = 0.03;
     }},
    {"the same load is told once",
     [](storage::RunRow& run) {
       find_two_disturbances(run);
       run.training["other_work_ratio"] = 0.43;
       run.training["tuning_other_work_ratio"] = 0.03;
     }},
    {"only a load as while it was tuned",
     [](storage::RunRow& run) {
       find_load(run);
       run.training["other_work_ratio"] = 0.4;
       run.training["tuning_other_work_ratio"] = 0.41;
     }},
    {"only the load of the last process",
     [](storage::RunRow& run) {
       find_load(run);
       run.training["resumed_from_step"] = 600;
     }},
    {"a load that was not there while it was tuned, and no slow training",
     [](storage::RunRow& run) {
       run.training["samples"] = 12'000;
       run.training["duration_ns"] = 12e9;
       run.training["other_work_ratio"] = 0.43;
       run.training["tuning_other_work_ratio"] = 0.03;
     }},
    {"too short to be slow",
     [](storage::RunRow& run) {
       run.training["samples"] = 10;
       run.training["duration_ns"] = 1e9;
     }},
    {"nothing was confirmed", confirm_nothing},
    {"a ratio that is not the quotient of the rates",
     [](storage::RunRow& run) { run.best_samples_per_second = 1400; }},
    {"a ceiling that is nearly reached",
     [](storage::RunRow& run) { run.ceiling_samples_per_second = 1310; }},
    {"a ceiling that is reached, but for what rounding takes",
     [](storage::RunRow& run) { run.ceiling_samples_per_second = 1304; }},
    {"a budget of 0", measure_nothing},
    {"a budget that is too small",
     [](storage::RunRow& run) {
       measure_nothing(run);
       run.training["shortage"] = "tune.budget 1.0 s is too small for one trial here";
     }},
    {"a model that stands in for an accelerator",
     [](storage::RunRow& run) {
       run.recipe = {{"model", {{"type", "paced"}, {"step_ms", 25}}}};
     }},
    {"it failed before it was tuned",
     [](storage::RunRow& run) {
       run.state = storage::RunState::failed;
       run.best = {};
       run.error = "out of memory";
     }},
};

TEST(Report, RunAsText) {
  TrialRecord failed = own_sample_trial();
  failed.number = 2;
  failed.verdict = Verdict::failed;
  failed.failure = ErrorKind::timeout;  // its pairs decide nothing
  tests::Cases cases;
  cases.add("a run", "\n" + run_text(sample_run(), {own_sample_trial(), failed}));
  const std::string usual = run_text(sample_run(), {});
  for (const RunVariant& variant : kRunVariants) {
    storage::RunRow run = sample_run();
    variant.change(run);
    cases.add_difference(variant.given, usual, run_text(run, {}));
  }
  const std::string tried = run_text(sample_run(), {own_sample_trial()});
  TrialRecord ablation = sample_ablation();
  cases.add_difference("without one change", tried,
                       run_text(sample_run(), {own_sample_trial(), ablation}));
  for (const RejectionReason why : {RejectionReason::undecided_in_time, RejectionReason::slower}) {
    ablation.rejection = why;
    cases.add_difference("without one change: " + std::string(to_string(why)), tried,
                         run_text(sample_run(), {own_sample_trial(), ablation}));
  }
  cases.add_difference("a best configuration that costs once", tried,
                       run_text(sample_run(), trials_that_cost_once()));
  tests::expect_golden("daemon/report/golden/run.txt", cases.text());
}

// What a run ends with: its watchers have seen its trials.
TEST(Report, TheSummaryIsTheEndOfTheText) {
  storage::RunRow run = sample_run();
  const std::string summary = summary_text(run, {own_sample_trial()});
  EXPECT_TRUE(run_text(run, {own_sample_trial()}).ends_with("\n\n" + summary)) << summary;
  run.error = "the disk is full";
  run.best = {};
  EXPECT_EQ(summary_text(run, {}), "error    the disk is full\n");
}

TEST(Report, NamesAConfirmationThatTheNextRunTriesAgain) {
  TrialRecord confirmation = own_sample_trial();
  confirmation.number = 2;
  confirmation.kind = TrialKind::confirmation;
  confirmation.verdict = Verdict::rejected;
  confirmation.rejection = RejectionReason::undecided_in_time;
  storage::RunRow run = sample_run();
  EXPECT_THAT(summary_text(run, {own_sample_trial(), confirmation}),
              testing::ContainsRegex("\nopen     the confirmation of .* \\(trial 2\\) was not "
                                     "decided: the next run tries it again\n"));
  confirmation.rejection = RejectionReason::no_gain;
  EXPECT_THAT(summary_text(run, {own_sample_trial(), confirmation}),
              testing::Not(testing::HasSubstr("\nopen ")));
}

TEST(Report, NamesWhatWasVerifiedOnlyInPart) {
  TrialRecord verification = own_sample_trial();
  verification.kind = TrialKind::verification;
  verification.verdict = Verdict::rejected;
  verification.rejection = RejectionReason::undecided_in_time;
  verification.estimate = {.ratio = 1.21, .low = 0.9, .high = 1.6, .pairs = 9};
  verification.proposal_reason =
      "the best configuration of run r-1, measured before as 1.40 x (1.28 to 1.58)";
  storage::RunRow run = sample_run();
  const std::string open = "\nopen     the verification of ";
  EXPECT_THAT(summary_text(run, {verification}), testing::Not(testing::HasSubstr(open)))
      << "the search found something";
  confirm_nothing(run);
  EXPECT_THAT(
      summary_text(run, {verification}),
      testing::HasSubstr(
          open + "optimizer.set_to_none off → on (trial 1) was not decided in its time: 1.21 x "
                 "(0.90 to 1.60)\n"
                 "         it is the best configuration of run r-1, measured before as 1.40 x "
                 "(1.28 to 1.58)\n"
                 "         it stays stored, and the next run verifies it again; --budget gives it "
                 "more time\n"));
  verification.rejection = RejectionReason::slower;
  EXPECT_THAT(summary_text(run, {verification}), testing::Not(testing::HasSubstr(open)));
}

TEST(Report, LadderOfOneRungIsTheCeiling) {
  storage::RunRow run = sample_run();
  run.ceiling_ladder.erase(std::size_t{0});
  EXPECT_EQ(json_of(run, {}).at("ceiling").at("ladder").size(), 1U);
  EXPECT_EQ(ladder_text(Json()), "");
  EXPECT_EQ(ladder_text(Json::parse(R"([1, {"rung": 2, "reached_ratio": "x"}])")), "");
  EXPECT_EQ(ladder_text(Json::parse(R"([{"rung": "raw_bytes"}, {"rung": "made_samples"}])")),
            "at least 0 samples/s with its files in memory (0.0 % reached), 0 samples/s with ready "
            "samples in memory (0.0 % reached)");
}

TEST(Report, TellsOfWhatWentWrongAfterTheTraining) {
  const std::string usual = run_text(sample_run(), {});
  storage::RunRow run = sample_run();
  run.training["damaged_files"] = 0;
  EXPECT_EQ(run_text(run, {}), usual);
  run.training["check"] = {{"passed", true}, {"detail", "8 of 8 updates compared"}};
  EXPECT_EQ(run_text(run, {}), usual);
  EXPECT_EQ(trained_check_text(sample_run()), "");
  run.training["check"]["passed"] = nullptr;
  EXPECT_FALSE(has_failed_check(run));
  fail_the_check(run);
  EXPECT_TRUE(has_failed_check(run));
  EXPECT_EQ(json_of(run).at("training").at("check").at("passed"), false);
}

TEST(Report, SaysThatTheMachineWasBusierWhileItTrained) {
  storage::RunRow run = sample_run();
  hold_up(run);
  EXPECT_EQ(json_of(run).at("training").at("samples_per_second"), 500.0);
  EXPECT_EQ(busier_text(run), "");
  run.training["other_work_ratio"] = 0.43;
  EXPECT_EQ(busier_text(run), "") << "of the tuning nothing is known";
  run.training["tuning_other_work_ratio"] = 0.4;
  EXPECT_EQ(busier_text(run), "") << "as busy as that";
}

TEST(Report, TheRatioIsNoQuotientWhereTheTwoDiffer) {
  storage::RunRow run = sample_run();
  run.best_samples_per_second = 1304;  // the quotient is shown as 1.30 all the same
  EXPECT_EQ(quotient_note(run), "");
  run.best_samples_per_second = 1400;
  run.speedup.pairs = 0;
  EXPECT_EQ(quotient_note(run), "");
}

// Not among what was tried: the fields of the contract stay what they are.
TEST(Report, AblationStandsAlone) {
  const Json json = json_of(sample_run(), {own_sample_trial(), sample_ablation()});
  EXPECT_EQ(json.at("trials").size(), 1U);
  ASSERT_EQ(json.at("ablation").size(), 1U);
  EXPECT_EQ(json.at("ablation").at(0).at("ratio"), 1.004);
  EXPECT_TRUE(json_of(sample_run(), {own_sample_trial()}).at("ablation").empty());
  EXPECT_EQ(ablation_text({own_sample_trial()}), "");
}

TEST(Report, RunAsJson) {
  const Json run = json_of(sample_run(), {own_sample_trial()});
  EXPECT_EQ(run.at("run"), "r-20261121-7f3a9c");
  EXPECT_EQ(run.at("baseline").at("samples_per_second"), 1000.0);
  EXPECT_EQ(run.at("best").at("speedup_low"), 1.25);
  EXPECT_EQ(run.at("best").at("configuration").at("optimizer.set_to_none"), true);
  EXPECT_EQ(run.at("tuning_seconds"), 2.5);
  EXPECT_EQ(run.at("trials").at(0).at("id"), "r-20261121-7f3a9c.1");
}

TEST(Report, TellsWhatTheBestConfigurationCostsOnce) {
  const std::vector<TrialRecord> trials = trials_that_cost_once();
  EXPECT_EQ(json_of(sample_run(), {trials[0]}).at("best").at("one_time_ns"), 0) << "not confirmed";
  const Json run = json_of(sample_run(), trials);
  EXPECT_EQ(run.at("best").at("one_time_ns"), 4'000'000'000);
  EXPECT_EQ(run.at("trials").at(0).at("one_time_ns"), 5'000'000'000);
}

TEST(Report, FindingsAreThoseOfTheLastProfileOfStartAndBest) {
  const auto profile = [](const Configuration& of, const char* id) {
    return Json{{"configuration", of.to_json()}, {"findings", Json::array({id})}};
  };
  storage::RunRow run = sample_run();
  const Json json = json_of(run, {},
                            {profile(run.starting, "earlier"), profile(run.starting, "later"),
                             profile(configuration(true, 2), "other"), profile(run.best, "best")});
  EXPECT_EQ(json.at("starting").at("findings"), Json({"later"}));
  EXPECT_EQ(json.at("best").at("findings"), Json({"best"}));
  // A session that goes on takes another profile, and may have no time for a trace of it.
  Json traced = profile(run.starting, "of a trace");
  traced["metrics"] = {{"steps_count", 10}};
  EXPECT_EQ(
      json_of(run, {}, {traced, profile(run.starting, "later")}).at("starting").at("findings"),
      Json({"of a trace"}));
  EXPECT_EQ(json_of(run, {}).at("starting").at("findings"), Json::array());
  run.best = {};
  EXPECT_EQ(json_of(run, {}).at("best").at("findings"), Json::array());
}

TEST(Report, ModelThatStandsInForAnAcceleratorIsNamed) {
  storage::RunRow run = sample_run();
  EXPECT_EQ(json_of(run, {}).at("note"), "");
  run.recipe = {{"model", {{"type", "paced"}, {"step_ms", 25}}}};
  EXPECT_NE(json_of(run, {}).at("note"), "");
}

// A ratio that says 1.00 beside an interval above 1, or beside a change that was kept, would contradict itself.
TEST(Report, RoundingContradictsNoInterval) {
  constexpr double kNone = tuner::kNoUpperEnd;
  tests::Cases cases;
  for (const Estimate& estimate :
       {Estimate{1.1, 0.0, kNone, 2}, Estimate{1.1, 1.05, kNone, 9}, Estimate{0.9, 0.0, 0.95, 1},
        Estimate{0.9, 0.8, 1.1, 7}, Estimate{1.005, 1.002, 1.008, 300},
        Estimate{1.0052, 1.0003, 1.0104, 900}, Estimate{1.003, 0.97, 1.03, 30},
        Estimate{1.03, 1.004, kNone, 9}}) {
    cases.add(estimate_text(estimate), gain_text(estimate) + "; in a table " +
                                           ratio_text(estimate, 3) + ", " +
                                           interval_text(estimate, 3));
  }
  cases.add("nothing", gain_text({}));
  tests::expect_golden("daemon/report/golden/estimates.txt", cases.text());
  EXPECT_FALSE(has_interval({1.1, 0.0, kNone, 2}));
  EXPECT_TRUE(has_interval({0.9, 0.0, 0.95, 1}));
}

TEST(Report, ATrialThatWasGivenUpIsNotSaidToHaveNoGain) {
  TrialRecord ablation = own_sample_trial();
  ablation.kind = TrialKind::ablation;
  ablation.verdict = Verdict::rejected;
  ablation.rejection = RejectionReason::no_gain;
  EXPECT_EQ(no_gain_text(ablation), "no gain");
  ablation.is_given_up = true;
  EXPECT_EQ(no_gain_text(ablation), "gain unlikely");
}

TEST(Report, SaysWhatTheTimeOfATrialIsOf) {
  TrialRecord trial;
  trial.duration_ns = 26'000'000'000;
  EXPECT_EQ(time_of_trial_text(trial, {}, true), "26.0 s");
  TrialBlock block{.pair = 1, .is_candidate = true, .is_first = true, .block = {}};
  block.block.duration_ns = 4'000'000'000;
  EXPECT_THAT(time_of_trial_text(trial, {block, block}, true),
              testing::StartsWith("26.0 s: 8.0 s in 2 blocks; the rest is what lies between "
                                  "blocks, which may be checks, steps"));
  EXPECT_THAT(time_of_trial_text(trial, {block, block}, false),
              testing::HasSubstr("starting and warming processes"));
  trial.duration_ns = 0;  // it was interrupted
  EXPECT_EQ(time_of_trial_text(trial, {block, block}, true), "8.0 s in 2 blocks");
  EXPECT_EQ(time_of_trial_text(trial, {block}, false), "4.0 s in 1 block");
  EXPECT_EQ(time_of_trial_text(trial, {}, false), "not known");
}

TEST(Report, ChangeOfNothingAndOfAKnobThatWasUnset) {
  EXPECT_EQ(change_text({}, {}), "nothing");
  Configuration change;
  change.set("env.MALLOC_ARENA_MAX", std::string("1"));
  EXPECT_EQ(change_text({}, change), "env.MALLOC_ARENA_MAX unset → 1");
  Configuration without;  // as an ablation has it
  without.set("env.MALLOC_ARENA_MAX", std::string());
  EXPECT_EQ(change_text(without, change), "env.MALLOC_ARENA_MAX unset → 1");
  EXPECT_EQ(change_text(change, without), "env.MALLOC_ARENA_MAX 1 → unset");
}

TEST(Report, ATableGivesUpNoMoreThanItTakes) {
  const std::vector<std::vector<std::string>> rows = {{"job", "when", "rate"},
                                                      {"→→→→→→", "2026-11-21 10:15", "1,234"}};
  const std::vector<TableCut> cuts = {
      {.column = 1, .least = 10, .is_part = true}, {.column = 2}, {.column = 0, .least = 3}};
  const std::string whole = "job     when              rate\n→→→→→→  2026-11-21 10:15  1,234\n";
  EXPECT_EQ(table_columns(rows), 31U);
  EXPECT_EQ(fitted_table_text(rows, 0, cuts), whole) << "no terminal";
  EXPECT_EQ(fitted_table_text(rows, 31, cuts), whole);
  EXPECT_EQ(fitted_table_text(rows, 30, cuts),
            "job     when        rate\n→→→→→→  2026-11-21  1,234\n");
  EXPECT_EQ(fitted_table_text(rows, 24, cuts), "job     when\n→→→→→→  2026-11-21\n");
  EXPECT_EQ(fitted_table_text(rows, 17, cuts), "job    when\n→→→→…  2026-11-21\n");
  EXPECT_EQ(fitted_table_text(rows, 1, cuts), "job  when\n→→…  2026-11-21\n");
}

TEST(Report, ColumnsCountCharactersNotBytes) {
  EXPECT_EQ(table_text({{"a", "b"}, {"→→", "c"}, {"x"}}), "a   b\n→→  c\nx\n");
  EXPECT_EQ(table_text({{"a\x1b[2J", "b\n"}, {"\xC2\x9B", "c"}}), "a?[2J  b?\n?      c\n");
}

}  // namespace
}  // namespace autotuned::daemon
