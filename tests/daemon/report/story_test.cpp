// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/story.hpp"

#include <gtest/gtest.h>
#include <time.h>

#include <map>

#include "daemon/report/report.hpp"
#include "tests/base/environment_variable.hpp"
#include "tests/daemon/report/record_sample.hpp"
#include "tests/golden.hpp"
#include "tuner/ceiling.hpp"
#include "tuner/comparison.hpp"

namespace autotuned::daemon {
namespace {

Outcome outcome_of(const TrialRecord& trial, std::vector<CheckRecord> checks = {}) {
  RunRecord record;
  record.trials = {trial};
  record.checks[trial.number] = std::move(checks);
  return outcomes_of(record).at(trial.number);
}

TrialRecord rejected(int number, Estimate estimate, RejectionReason rejection,
                     const std::string& reason = "") {
  TrialRecord trial = sample_trial(number, "a", Verdict::rejected, estimate);
  trial.rejection = rejection;
  trial.reason = reason;
  return trial;
}

// One finding is there at the start and at the end, the other one at the start only.
void add_findings(RunRecord& record) {
  record.profiles[0]["findings"] = {sample_finding("data_loading", "num_workers"),
                                    sample_finding("long\x1b_gap", nullptr)};
  record.profiles[1]["findings"] = {sample_finding("data_loading", "num_workers")};
}

void add_disturbances(RunRecord& record) {
  for (const char* text :
       {"clock: clocks are slow", "load: others compute", "clock: clocks are slow"})
    record.answers.push_back({.plugin = storage::kMachineName,
                              .outcome = text,
                              .is_answered = true,
                              .kind = storage::AnswerKind::machine});
}

// A confirmation refuses two changes, and another one accepts the first of them.
void refuse_the_last_change(RunRecord& record) {
  TrialRecord later = sample_trial(2, "num_workers", Verdict::accepted, {1.1, 1.01, 1.2, 9});
  later.change = {};
  later.change.set("loader.workers", std::int64_t{2});
  TrialRecord refused = sample_trial(3, "autotuned", Verdict::rejected, {1.0, 0.9, 1.01, 30});
  refused.kind = TrialKind::confirmation;
  refused.reason = "no gain worth having";
  TrialRecord held = refused;
  held.number = 4;
  held.verdict = Verdict::accepted;
  held.estimate = {1.25, 1.2, 1.5, 20};
  record.trials = {record.trials[0], later, refused, held};
}

// The same, but the time of the first confirmation ended before it was decided.
void leave_the_last_change_undecided(RunRecord& record) {
  refuse_the_last_change(record);
  TrialRecord& undecided = record.trials[2];
  undecided.rejection = RejectionReason::undecided_in_time;
  undecided.reason = "undecided in its time";
}

void add_answers(RunRecord& record) {
  record.answers = {
      {.plugin = "set_to_none", .is_answered = true},
      {.plugin = "set_to_none", .outcome = "it is on", .is_answered = true},
      {.plugin = "amp", .outcome = "no bf16", .is_answered = true},
      {.plugin = "amp", .outcome = "still no bf16", .is_answered = true},
      {.plugin = "threads", .outcome = "no signal", .is_answered = true},
      {.plugin = "threads", .is_answered = true},
      {.plugin = "broken", .outcome = "hung", .is_failure = true, .is_answered = true},
      {.plugin = storage::kMachineName,
       .outcome = "load: much",
       .is_answered = true,
       .kind = storage::AnswerKind::machine,
       .subject = "load"}};
}

void add_many_answers(RunRecord& record) {
  for (const char* plugin : {"amp", "crop_first", "input_cache", "tf32"})
    record.answers.push_back({.plugin = plugin, .outcome = std::string("no ") + plugin});
  record.answers.push_back({.plugin = "broken", .outcome = "did not answer", .is_failure = true});
}

void add_ablation(RunRecord& record) {
  record.trials.push_back(
      sample_trial(50, "set_to_none", Verdict::accepted, {1.04, 1.02, 1.06, 20}));
  record.trials.push_back(sample_trial(51, "loading", Verdict::rejected, {1.0, 0.99, 1.01, 20}));
  for (std::size_t i = record.trials.size() - 2; i < record.trials.size(); ++i)
    record.trials[i].kind = TrialKind::ablation;
}

void find_nothing(RunRecord& record) {
  record.run.best = record.run.starting;
  record.run.speedup = {.ratio = 1.0, .low = 1.0, .high = 1.0, .pairs = 0};
  record.trials.clear();
}

// What was accepted at first, and what the time did not suffice to confirm.
void confirm_nothing(RunRecord& record) {
  const TrialRecord accepted = record.trials[0];
  find_nothing(record);
  TrialRecord undecided = sample_trial(2, "autotuned", Verdict::rejected, {1.0, 0.9, 1.01, 30});
  undecided.kind = TrialKind::confirmation;
  undecided.rejection = RejectionReason::undecided_in_time;
  undecided.reason = "undecided in its time";
  record.trials = {accepted, undecided};
}

// The time did not suffice to verify what an earlier run had kept.
void verify_nothing(RunRecord& record) {
  find_nothing(record);
  TrialRecord undecided = sample_trial(1, "autotuned", Verdict::rejected, {1.48, 0.71, 2.16, 4});
  undecided.kind = TrialKind::verification;
  undecided.rejection = RejectionReason::undecided_in_time;
  undecided.reason = "undecided in its time";
  record.trials = {undecided};
}

void search_nothing(RunRecord& record) {
  find_nothing(record);
  record.run.baseline_samples_per_second = 0.0;
  record.run.best_samples_per_second = 0.0;
  record.run.tuning_duration_ns = 0;
}

void train_beside_a_load(RunRecord& record) {
  record.run.training["duration_ns"] = 700'000'000'000;
  record.run.training["other_work_ratio"] = 0.72;
  record.run.training["tuning_other_work_ratio"] = 0.39;
}

void fail_at_once(RunRecord& record) {
  record = {};
  record.run.id = {"r-1"};
  record.run.state = storage::RunState::failed;
  record.run.error = "no such file";
}

const Variant kStoryVariants[] = {
    {"two findings, one of them is still there", add_findings},
    {"a finding that is severe at the end",
     [](RunRecord& record) {
       add_findings(record);
       record.profiles[1]["findings"][0]["severity"] = "high";
     }},
    {"a trial that was given up: that is not the same as no gain",
     [](RunRecord& record) {
       record.trials.push_back(rejected(3, {0.95, 0.62, 1.18, 10}, RejectionReason::no_gain));
       record.trials.back().is_given_up = true;
     }},
    {"the best configuration costs 4 s once",
     [](RunRecord& record) { record.trials[1].one_time_ns = 4'000'000'000; }},
    {"two things disturbed the measurements, one of them twice", add_disturbances},
    {"a model that stands in for an accelerator",
     [](RunRecord& record) { record.run.recipe["model"]["type"] = "paced"; }},
    {"each kind of rejection",
     [](RunRecord& record) {
       record.trials = {rejected(1, {0.9, 0.85, 0.95, 9}, RejectionReason::slower),
                        rejected(2, {1.0, 0.9, 1.01, 9}, RejectionReason::no_gain),
                        rejected(3, {1.2, 1.1, 1.3, 9}, RejectionReason::memory_limit,
                                 "it uses 3.0 GiB of memory, the limit is 2.0 GiB"),
                        sample_trial(4, "a", Verdict::rejected, {1.5, 1.4, 1.6, 9})};
       record.checks = {
           {4, {{.risk = "exact", .passed = false, .steps = 8, .detail = "not equal"}}}};
     }},
    {"a failure and an interruption",
     [](RunRecord& record) {
       TrialRecord failed = sample_trial(1, "a", Verdict::failed, {});
       failed.failure = ErrorKind::out_of_memory;
       failed.reason = "the trainer ran out of memory";
       record.trials = {failed, sample_trial(2, "a", Verdict::interrupted, {})};
     }},
    {"a confirmation that does not hold", refuse_the_last_change},
    {"a confirmation that was not decided", leave_the_last_change_undecided},
    {"a plugin counts by its last word, unless it was tried", add_answers},
    {"a plugin whose last word was a proposal, and one that never answered",
     [](RunRecord& record) {
       record.answers = {{.plugin = "amp", .outcome = "no bf16", .is_answered = true},
                         {.plugin = "amp", .outcome = "", .is_answered = true},
                         {.plugin = "tf32", .outcome = "no GPU", .is_answered = true},
                         {.plugin = "tf32", .outcome = "", .is_answered = false}};
     }},
    {"many plugins that proposed nothing", add_many_answers},
    {"what each change gives at the end", add_ablation},
    {"nothing faster was found", find_nothing},
    {"the only confirmation was not decided", confirm_nothing},
    {"the verification was not decided, and nothing else was tried", verify_nothing},
    {"the verification was not decided, and the search found something",
     [](RunRecord& record) {
       RunRecord undecided = record;
       verify_nothing(undecided);
       record.trials.push_back(undecided.trials[0]);
       record.trials.back().number = 3;
     }},
    {"a budget that was too small for a trial, which was known once the start was measured",
     [](RunRecord& record) {
       find_nothing(record);
       record.run.training["shortage"] = "tune.budget 20.0 s is too small for one trial here";
     }},
    {"a budget of 0", search_nothing},
    {"a budget that is too small from the beginning",
     [](RunRecord& record) {
       search_nothing(record);
       record.run.training["shortage"] = "tune.budget 1.0 s is too small for one trial here";
     }},
    {"an older version left no ladder of the ceiling",
     [](RunRecord& record) { record.run.ceiling_ladder = Json::array(); }},
    {"a ladder that nobody wrote",
     [](RunRecord& record) { record.run.ceiling_ladder = Json::parse(R"([1, {"rung": 2}])"); }},
    {"a training that passed the ceiling: it is a lower limit, measured before",
     [](RunRecord& record) { record.run.training["duration_ns"] = 200'000'000'000; }},
    {"a job at its ceiling, as the tuner takes it",
     [](RunRecord& record) {
       record.run.best_samples_per_second =
           1.0001 * record.run.ceiling_samples_per_second / tuner::kAtCeiling;
     }},
    {"a job a little below its ceiling",
     [](RunRecord& record) {
       record.run.best_samples_per_second =
           0.9999 * record.run.ceiling_samples_per_second / tuner::kAtCeiling;
     }},
    {"a ratio that is not the quotient of the rates",
     [](RunRecord& record) { record.run.best_samples_per_second = 1300; }},
    {"a training slower than the confirmation",
     [](RunRecord& record) { record.run.training["duration_ns"] = 590'000'000'000; }},
    {"a training slower than the start",
     [](RunRecord& record) { record.run.training["duration_ns"] = 700'000'000'000; }},
    {"a training beside a load: the rates do not compare", train_beside_a_load},
    {"a run that failed at once promises nothing", fail_at_once},
};

RunRecord record_with(void (*change)(RunRecord& record)) {
  RunRecord record = sample_record();
  change(record);
  return record;
}

TEST(Story, TellsItInPlainSentences) {
  const EnvironmentVariable zone("TZ", "UTC");
  ::tzset();
  const RunRecord record = sample_record();
  const std::string story = story_text(record);
  tests::expect_golden("daemon/report/golden/story.txt", story);

  tests::Cases cases;
  for (const Variant& variant : kStoryVariants)
    cases.add_difference(variant.given, story, story_text(record_with(variant.change)));
  cases.add_difference("many plugins that proposed nothing, with --verbose", story,
                       story_text(record_with(add_many_answers), /*is_whole=*/true));
  RunRecord passed = record;
  passed.run.training["duration_ns"] = 200'000'000'000;
  cases.add_difference("the card of a training that passed the ceiling",
                       run_text(record.run, record.trials), run_text(passed.run, passed.trials));
  tests::expect_golden("daemon/report/golden/story_variants.txt", cases.text());
}

TEST(Story, NamesTheRunWhoseSearchWasTaken) {
  RunRecord record = record_with(find_nothing);
  record.run.training["searched_by"] = "r-20261120-0a1b2c";
  const std::string told = "the search of run r-20261120-0a1b2c is taken; --retune searches again";
  const std::string story = story_text(record);
  EXPECT_NE(story.find("  No change was tried.\n  Nothing was searched: " + told + ".\n"),
            std::string::npos)
      << story;
  EXPECT_NE(run_text(record.run, {}).find("\nsearch   " + told + "\n"), std::string::npos);
}

TEST(Story, HoldsWhatTheSentencesSayAsJson) {
  RunRecord record = record_with(add_findings);
  Json story = story_json(record);
  EXPECT_EQ(story.at("start").at("profile").at("findings"), record.profiles[0].at("findings"));
  EXPECT_EQ(story.at("best").at("profile").at("findings"), record.profiles[1].at("findings"));
  EXPECT_EQ(story_json(record_with(add_disturbances)).at("machine_findings").size(), 2U);
  record = record_with([](RunRecord& paced) { paced.run.recipe["model"]["type"] = "paced"; });
  EXPECT_NE(story_json(record).at("note"), "");
  EXPECT_EQ(story_json(record_with(refuse_the_last_change)).at("trials").at(2).at("dropped"), 2);
  EXPECT_EQ(story_json(record_with(add_answers)).at("silent_plugins").size(), 2U);
  story = story_json(record_with(add_ablation));
  EXPECT_EQ(story.at("trials").size(), sample_record().trials.size());
  EXPECT_EQ(story.at("ablation").size(), 2U);
  EXPECT_TRUE(story_json(record_with(fail_at_once)).at("break_even").is_null());
  record = sample_record();
  record.trials[1].one_time_ns = 4'000'000'000;
  EXPECT_EQ(story_json(record).at("best").at("one_time_ns"), 4'000'000'000);
  for (const Json& ladder : {Json::array(), Json("odd"), Json::parse(R"([1, {"rung": 2}])")}) {
    record.run.ceiling_ladder = ladder;
    EXPECT_EQ(story_json(record).at("ceiling").at("ladder"), ladder);
  }
}

TEST(Story, TellsRejectionsApart) {
  TrialRecord slower = sample_trial(1, "a", Verdict::rejected, {0.9, 0.85, 0.95, 9});
  slower.reason = "slower: 0.900 times the rate";
  EXPECT_EQ(outcome_of(slower), Outcome::slower);
  TrialRecord no_gain = sample_trial(1, "a", Verdict::rejected, {1.0, 0.9, 1.01, 9});
  no_gain.reason = "no gain worth having: 1.000 times the rate";
  EXPECT_EQ(outcome_of(no_gain), Outcome::rejected) << "a sentence alone decides nothing";
  no_gain.rejection = RejectionReason::no_gain;
  EXPECT_EQ(outcome_of(no_gain), Outcome::no_gain);
  TrialRecord memory = sample_trial(1, "a", Verdict::rejected, {1.2, 1.1, 1.3, 9});
  memory.reason = "it uses 3.0 GiB of memory, the limit is 2.0 GiB";
  EXPECT_EQ(outcome_of(memory), Outcome::rejected);
  TrialRecord wrong = sample_trial(1, "a", Verdict::rejected, {1.5, 1.4, 1.6, 9});
  EXPECT_EQ(outcome_of(wrong, {{.risk = "exact", .passed = false, .steps = 8, .detail = "no"}}),
            Outcome::wrong_result);
  // The value decides, whatever the sentence says.
  TrialRecord told = no_gain;
  told.reason = "in other words";
  for (const auto& [rejection, outcome] :
       {std::pair{RejectionReason::slower, Outcome::slower},
        std::pair{RejectionReason::no_gain, Outcome::no_gain},
        std::pair{RejectionReason::undecided_in_time, Outcome::no_gain},
        std::pair{RejectionReason::totals, Outcome::rejected},
        std::pair{RejectionReason::memory_limit, Outcome::rejected},
        std::pair{RejectionReason::not_repaid, Outcome::rejected},
        std::pair{RejectionReason::not_same_model, Outcome::wrong_result}}) {
    told.rejection = rejection;
    EXPECT_EQ(outcome_of(told), outcome) << to_string(rejection);
  }
  // Repeated as numerics, which the recipe permits: the last check decides.
  EXPECT_EQ(outcome_of(sample_trial(1, "a", Verdict::accepted, {1.5, 1.4, 1.6, 9}),
                       {{.risk = "exact", .passed = false, .steps = 8, .detail = "no"},
                        {.risk = "numerics", .passed = true, .steps = 8, .detail = "yes"}}),
            Outcome::kept);
}

TEST(Story, AnAblationBeforeTheConfirmationDropsItsChange) {
  RunRecord record;
  TrialRecord large = sample_trial(1, "amp", Verdict::accepted, {1.5, 1.4, 1.6, 9});
  large.change = {};
  large.change.set("precision.autocast", std::string("bf16"));
  TrialRecord small = sample_trial(2, "workers", Verdict::accepted, {1.03, 1.001, 1.05, 50});
  small.change = {};
  small.change.set("loader.workers", std::int64_t{2});
  TrialRecord ablation = sample_trial(3, "workers", Verdict::rejected, {1.0, 0.98, 1.01, 50});
  ablation.kind = TrialKind::ablation;
  ablation.change = small.change;
  TrialRecord held = sample_trial(4, "autotuned", Verdict::accepted, {1.5, 1.4, 1.6, 9});
  held.kind = TrialKind::confirmation;
  record.trials = {large, small, ablation, held};
  const auto outcomes = outcomes_of(record);
  EXPECT_EQ(outcomes.at(1), Outcome::kept);
  EXPECT_EQ(outcomes.at(2), Outcome::dropped);
  EXPECT_EQ(outcomes.at(4), Outcome::held);
  ASSERT_NE(dropper_of(record, record.trials[1]), nullptr);
  EXPECT_EQ(dropper_of(record, record.trials[1])->number, 3);
  EXPECT_EQ(dropper_of(record, record.trials[0]), nullptr);

  record.trials[2].rejection = RejectionReason::undecided_in_time;
  record.trials[2].estimate = {1.04, 0.98, 1.1, 12};
  EXPECT_EQ(outcomes_of(record).at(2), Outcome::kept);
}

TEST(Story, ConfirmationThatDoesNotHoldDropsTheLastChange) {
  RunRecord record = record_with(refuse_the_last_change);
  const auto outcomes = outcomes_of(record);
  EXPECT_EQ(outcomes.at(1), Outcome::kept);
  EXPECT_EQ(outcomes.at(2), Outcome::dropped);
  EXPECT_EQ(outcomes.at(3), Outcome::did_not_hold);
  EXPECT_EQ(outcomes.at(4), Outcome::held);
  EXPECT_EQ(dropped_by(record, record.trials[2])->number, 2);
  EXPECT_EQ(dropped_by(record, record.trials[3]), nullptr);
  // An interrupted confirmation decided nothing.
  record.trials[2].verdict = Verdict::interrupted;
  EXPECT_EQ(outcomes_of(record).at(2), Outcome::kept);
}

// Nothing was refuted: as the text says.
TEST(Story, AConfirmationOrVerificationWhoseTimeEndedIsUndecided) {
  for (const TrialKind kind : {TrialKind::confirmation, TrialKind::verification}) {
    TrialRecord whole = sample_trial(1, "autotuned", Verdict::rejected, {1.48, 0.71, 2.16, 4});
    whole.kind = kind;
    whole.rejection = RejectionReason::undecided_in_time;
    EXPECT_EQ(outcome_of(whole), Outcome::undecided) << to_string(kind);
    whole.rejection = RejectionReason::no_gain;
    EXPECT_EQ(outcome_of(whole), Outcome::did_not_hold) << to_string(kind);
    whole.verdict = Verdict::failed;
    EXPECT_EQ(outcome_of(whole), Outcome::did_not_hold) << to_string(kind);
  }
  const Json trials = story_json(record_with(verify_nothing)).at("trials");
  EXPECT_EQ(trials.at(0).at("outcome"), "undecided");
}

TEST(Story, CountsOfPluginsAddUp) {
  RunRecord record = record_with(add_answers);
  EXPECT_EQ(story_json(record).at("plugins"),
            Json({{"asked", 4}, {"tried", 1}, {"untried", 1}, {"inapplicable", 1}, {"failed", 1}}));
  // The tuner itself joined two changes; two plugins could not be loaded, so that nobody asked them.
  record.trials.push_back(sample_trial(9, "autotuned", Verdict::rejected, {1.0, 0.9, 1.1, 9}));
  record.answers.push_back({.plugin = "old",
                            .outcome = "of another version",
                            .is_failure = true,
                            .is_answered = true,
                            .kind = storage::AnswerKind::refused});
  record.answers.push_back({.plugin = "tf32",
                            .outcome = "no GPU",
                            .is_answered = true,
                            .kind = storage::AnswerKind::unsupported});
  // The last word of "threads" was a proposal, and none of its trials was decided.
  record.trials.push_back(sample_trial(10, "threads", Verdict::interrupted, {}));
  EXPECT_EQ(plugin_counts(record).asked, 4);
  EXPECT_EQ(plugin_counts(record).tried, 1);
  EXPECT_EQ(plugin_counts(record).untried, 1);
  EXPECT_EQ(silent_plugins(record).size(), 4U) << "they are told all the same";
  std::map<std::string, Json> kinds;
  const Json story = story_json(record);
  for (const Json& silence : story.at("silent_plugins"))
    kinds[silence.at("plugin")] = silence.at("kind");
  EXPECT_EQ(kinds.at("amp"), "asked");
  EXPECT_EQ(kinds.at("old"), "refused");
  EXPECT_EQ(kinds.at("tf32"), "unsupported");
}

TEST(BreakEven, FollowsTheInterval) {
  storage::RunRow run = sample_record().run;
  auto pays = break_even(run);
  ASSERT_TRUE(pays);
  // 500,000 samples at 1,000/s take 500 s; at 1,250/s 400 s: the 100 s are paid.
  EXPECT_DOUBLE_EQ(pays->samples, 500'000);
  EXPECT_DOUBLE_EQ(pays->seconds, 400);
  EXPECT_DOUBLE_EQ(pays->samples_low, 300'000);
  EXPECT_NEAR(pays->samples_high.value(), 600'000, 1e-6);
  run.speedup.low = 1.0;
  EXPECT_FALSE(break_even(run)->samples_high);
  run.speedup.ratio = 1.0;
  EXPECT_FALSE(break_even(run));
  EXPECT_FALSE(break_even(record_with(find_nothing).run));
}

// What counts is the rate at which it trained, not that of the confirmation.
TEST(Story, SlowTrainingHasNotRepaidItself) {
  RunRecord record = sample_record();
  record.run.training["duration_ns"] = 590'000'000'000;
  const auto savings = savings_of(record.run);
  ASSERT_TRUE(savings);
  EXPECT_NEAR(savings->saved_s, 10.0, 1e-6);
  EXPECT_FALSE(savings->is_repaid);
  const Json pays = story_json(record).at("break_even");
  EXPECT_EQ(pays.at("is_reached"), false);
  EXPECT_NEAR(pays.at("saved_seconds").get<double>(), 10.0, 1e-6);

  train_beside_a_load(record);
  EXPECT_TRUE(story_json(record).at("break_even").at("is_reached").is_null());
  EXPECT_TRUE(story_json(record).at("break_even").at("saved_seconds").is_null());
  record.run.training = Json::object();
  EXPECT_FALSE(savings_of(record.run));
  EXPECT_TRUE(story_json(record).at("break_even").at("is_reached").is_null());
}

TEST(Story, AsJson) {
  const Json story = story_json(sample_record());
  EXPECT_EQ(story.at("run"), "r-20261121-7f3a9c");
  EXPECT_EQ(story.at("start").at("profile").at("shares").at(0).at("metric"),
            "step.data_wait_ratio");
  EXPECT_EQ(story.at("start").at("profile").at("operators").at(0).at("ratio"), 0.2);
  EXPECT_EQ(story.at("trials").at(0).at("outcome"), "kept");
  EXPECT_EQ(story.at("trials").at(0).at("checks").at(0).at("passed"), true);
  EXPECT_EQ(story.at("trials").at(1).at("outcome"), "held");
  EXPECT_EQ(story.at("best").at("change").at("optimizer.set_to_none"), true);
  EXPECT_EQ(story.at("ceiling").at("reached_ratio"), 0.5);
  EXPECT_EQ(story.at("break_even").at("samples"), 500'000);
  EXPECT_EQ(story.at("break_even").at("is_reached"), true);
  EXPECT_EQ(story.at("note"), "");
  EXPECT_EQ(story.at("start").at("profile").at("findings"), Json::array());
  EXPECT_EQ(story.at("machine_findings"), Json::array());
  EXPECT_EQ(story.at("ceiling").at("ladder").size(), 3U);
}

// The card, the story and both answers in JSON take it from one function.
TEST(Story, HasTheCeilingOfEveryOtherView) {
  RunRecord record = sample_record();
  const auto of_run = [&record] {
    return run_json(record.run, record.trials, {}, record.profiles).at("ceiling");
  };
  EXPECT_EQ(story_json(record).at("ceiling"), of_run());
  EXPECT_EQ(of_run().at("is_passed"), false);
  record.run.training["duration_ns"] = 239'000'000'000;  // 0.4 % more
  EXPECT_EQ(of_run().at("is_passed"), false);
  record.run.training["duration_ns"] = 238'000'000'000;  // 0.8 % more
  EXPECT_EQ(of_run().at("is_passed"), true);
  record.run.training["duration_ns"] = 200'000'000'000;
  EXPECT_EQ(story_json(record).at("ceiling"), of_run());
  EXPECT_EQ(of_run().at("is_passed"), true);
  record.run.best_samples_per_second = 0.0;
  EXPECT_EQ(of_run().at("reached_ratio"), Json());
}

}  // namespace
}  // namespace autotuned::daemon
