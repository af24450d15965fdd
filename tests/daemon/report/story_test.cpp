// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/story.hpp"

#include <gmock/gmock.h>
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

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Outcome outcome_of(const TrialRecord& trial, std::vector<CheckRecord> checks = {}) {
  RunRecord record;
  record.trials = {trial};
  record.checks[trial.number] = std::move(checks);
  return outcomes_of(record).at(trial.number);
}

TEST(Story, TellsItInPlainSentences) {
  const EnvironmentVariable zone("TZ", "UTC");
  ::tzset();
  tests::expect_golden("daemon/report/golden/story.txt", story_text(sample_record()));
}

TEST(Story, TellsWhatWasFoundAtTheStartAndIsStillThere) {
  RunRecord record = sample_record();
  EXPECT_THAT(story_text(record), Not(HasSubstr("ound:")));
  EXPECT_EQ(story_json(record).at("start").at("profile").at("findings"), Json::array());
  record.profiles[0]["findings"] = {sample_finding("data_loading", "num_workers"),
                                    sample_finding("long\x1b_gap", nullptr)};
  record.profiles[1]["findings"] = {sample_finding("data_loading", "num_workers")};
  const std::string story = story_text(record);
  EXPECT_THAT(story, HasSubstr("\n  Found: data_loading: 41.0 % of the step is spent waiting; the "
                               "plugin num_workers acts on it.\n"
                               "  Found: long?_gap: 41.0 % of the step is spent waiting; do "
                               "something about it.\n"));
  EXPECT_THAT(story, HasSubstr("\n  Still found: data_loading: "));
  record.profiles[1]["findings"][0]["severity"] = "high";
  EXPECT_THAT(story_text(record), HasSubstr("\n  Still found: data_loading (high): "));
  const Json json = story_json(record);
  EXPECT_EQ(json.at("start").at("profile").at("findings"), record.profiles[0].at("findings"));
  EXPECT_EQ(json.at("best").at("profile").at("findings"), record.profiles[1].at("findings"));
}

TEST(Story, OneThatWasGivenUpIsNotSaidToHaveNoGain) {
  RunRecord record = sample_record();
  TrialRecord trial = sample_trial(3, "malloc", Verdict::rejected, {0.95, 0.62, 1.18, 10});
  trial.rejection = RejectionReason::no_gain;
  trial.is_given_up = true;
  record.trials.push_back(trial);
  EXPECT_THAT(
      story_text(record),
      AllOf(HasSubstr("Rejected, gain unlikely: -5.0 % (between -38.0 % and +18.0 %, 10 pairs "
                      "of blocks); the interval does not exclude a gain"),
            Not(HasSubstr("no gain"))));
}

TEST(Story, TellsWhatTheBestConfigurationCostsOnce) {
  RunRecord record = sample_record();
  EXPECT_THAT(story_text(record), Not(HasSubstr("needs once")));
  record.trials[1].one_time_ns = 4'000'000'000;
  EXPECT_THAT(story_text(record), HasSubstr("filling a cache, takes 4.0 s of a training"));
  EXPECT_EQ(story_json(record).at("best").at("one_time_ns"), 4'000'000'000);
}

TEST(Story, TellsWhatDisturbedTheMeasurements) {
  RunRecord record = sample_record();
  EXPECT_THAT(story_text(record), Not(HasSubstr("disturbed")));
  EXPECT_EQ(story_json(record).at("machine_findings"), Json::array());
  for (const char* text :
       {"clock: clocks are slow", "load: others compute", "clock: clocks are slow"}) {
    storage::PluginAnswerRow row;
    row.plugin = storage::kMachineName;
    row.kind = storage::AnswerKind::machine;
    row.outcome = text;
    row.is_answered = true;
    record.answers.push_back(row);
  }
  EXPECT_THAT(story_text(record),
              HasSubstr("What disturbed the measurements\n  clock: clocks are slow.\n"
                        "  load: others compute.\n"));
  EXPECT_THAT(story_text(record), Not(HasSubstr(storage::kMachineName)));
  EXPECT_EQ(story_json(record).at("machine_findings").size(), 2U);
}

TEST(Story, SaysThatAModelStandsInForAnAccelerator) {
  RunRecord record = sample_record();
  record.run.recipe["model"]["type"] = "paced";
  EXPECT_THAT(story_text(record), HasSubstr("the model `paced` stands in for an accelerator"));
  EXPECT_THAT(story_json(record).at("note").get<std::string>(), HasSubstr("`paced`"));
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

  RunRecord record = sample_record();
  record.trials = {slower, no_gain, memory, wrong};
  for (int i = 0; i < 4; ++i)
    record.trials[static_cast<std::size_t>(i)].number = i + 1;
  record.checks = {{4, {{.risk = "exact", .passed = false, .steps = 8, .detail = "not equal"}}}};
  const std::string story = story_text(record);
  EXPECT_THAT(story, HasSubstr("Rejected, slower: -10.0 % (between -15.0 % and -5.0 %, 9 pairs"));
  EXPECT_THAT(story, HasSubstr("Rejected, no gain: +0.0 % (between -10.0 % and +1.0 %, 9 pairs"));
  EXPECT_THAT(story, HasSubstr("Rejected: it uses 3.0 GiB of memory, the limit is 2.0 GiB."));
  EXPECT_THAT(story, HasSubstr("Rejected, wrong result: it does not train the same model; exact "
                               "check failed: not equal. It would have been worth +50.0 %"));
}

TEST(Story, TellsFailuresAndInterruptions) {
  RunRecord record = sample_record();
  TrialRecord failed = sample_trial(1, "a", Verdict::failed, {});
  failed.failure = ErrorKind::out_of_memory;
  failed.reason = "the trainer ran out of memory";
  record.trials = {failed, sample_trial(2, "a", Verdict::interrupted, {})};
  const std::string story = story_text(record);
  EXPECT_THAT(story, HasSubstr("Failed (out_of_memory): the trainer ran out of memory."));
  EXPECT_THAT(story, HasSubstr("Interrupted before it was decided."));
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

  record.trials[2].rejection = RejectionReason::undecided_in_time;
  record.trials[2].estimate = {1.04, 0.98, 1.1, 12};
  EXPECT_EQ(outcomes_of(record).at(2), Outcome::kept);
}

TEST(Story, ConfirmationThatDoesNotHoldDropsTheLastChange) {
  RunRecord record = sample_record();
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

  const auto outcomes = outcomes_of(record);
  EXPECT_EQ(outcomes.at(1), Outcome::kept);
  EXPECT_EQ(outcomes.at(2), Outcome::dropped);
  EXPECT_EQ(outcomes.at(3), Outcome::did_not_hold);
  EXPECT_EQ(outcomes.at(4), Outcome::held);
  EXPECT_EQ(dropped_by(record, record.trials[2])->number, 2);
  EXPECT_EQ(dropped_by(record, record.trials[3]), nullptr);
  EXPECT_THAT(story_text(record),
              HasSubstr("So the last change was dropped: loader.workers 0 → 2 (trial 2)."));
  EXPECT_EQ(story_json(record).at("trials").at(2).at("dropped"), 2);

  // An interrupted confirmation decided nothing.
  record.trials[2].verdict = Verdict::interrupted;
  EXPECT_EQ(outcomes_of(record).at(2), Outcome::kept);
}

TEST(Story, PluginsThatTriedNothingSayWhy) {
  RunRecord record = sample_record();
  record.answers = {{.plugin = "amp", .outcome = "no bf16"},
                    {.plugin = "amp", .outcome = "still no bf16"},
                    {.plugin = "set_to_none", .outcome = "was tried"},
                    {.plugin = "broken", .outcome = "did not answer", .is_failure = true}};
  const std::string story = story_text(record);
  EXPECT_THAT(story, HasSubstr("amp proposed nothing: still no bf16."));
  EXPECT_THAT(story, HasSubstr("broken was left out: did not answer."));
  EXPECT_THAT(story, Not(HasSubstr("set_to_none proposed nothing")));
  EXPECT_EQ(story_json(record).at("silent_plugins").size(), 2U);
}

TEST(Story, ManyPluginsThatProposedNothingAreANumber) {
  RunRecord record = sample_record();
  for (const char* plugin : {"amp", "crop_first", "input_cache", "tf32"})
    record.answers.push_back({.plugin = plugin, .outcome = std::string("no ") + plugin});
  record.answers.push_back({.plugin = "broken", .outcome = "did not answer", .is_failure = true});
  const std::string story = story_text(record);
  EXPECT_THAT(story, HasSubstr("  4 plugins proposed nothing; --verbose says why.\n"
                               "  broken was left out: did not answer.\n"));
  EXPECT_THAT(story, Not(HasSubstr("no tf32")));
  EXPECT_THAT(story_text(record, /*is_whole=*/true), HasSubstr("tf32 proposed nothing: no tf32."));
}

// Of each plugin the last word counts, unless it was tried.
TEST(Story, CountsOfPluginsAddUp) {
  RunRecord record = sample_record();
  record.answers = {
      {.plugin = "set_to_none", .is_answered = true},
      {.plugin = "set_to_none", .outcome = "it is on", .is_answered = true},
      {.plugin = "amp", .outcome = "no bf16", .is_answered = true},
      {.plugin = "threads", .outcome = "no signal", .is_answered = true},
      {.plugin = "threads", .is_answered = true},
      {.plugin = "broken", .outcome = "hung", .is_failure = true, .is_answered = true},
      {.plugin = storage::kMachineName,
       .outcome = "load: much",
       .is_answered = true,
       .kind = storage::AnswerKind::machine,
       .subject = "load"}};
  EXPECT_THAT(
      story_text(record),
      HasSubstr("4 plugins were asked: 1 tried, 1 not tried, 1 not applicable, 1 left out."));
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
  EXPECT_EQ(plugin_counts(record).asked, 4);
  EXPECT_EQ(plugin_counts(record).tried, 1);
  EXPECT_EQ(silent_plugins(record).size(), 4U) << "they are told all the same";
  std::map<std::string, Json> kinds;
  for (const Json& silence : story_json(record).at("silent_plugins"))
    kinds[silence.at("plugin")] = silence.at("kind");
  EXPECT_EQ(kinds.at("amp"), "asked");
  EXPECT_EQ(kinds.at("old"), "refused");
  EXPECT_EQ(kinds.at("tf32"), "unsupported");
  record.answers.clear();
  EXPECT_THAT(story_text(record), Not(HasSubstr("plugins were asked")));
}

TEST(Story, APluginWhoseLastWordWasAProposalWasNotSilent) {
  RunRecord record = sample_record();
  record.answers = {{.plugin = "amp", .outcome = "no bf16", .is_answered = true},
                    {.plugin = "amp", .outcome = "", .is_answered = true},
                    {.plugin = "tf32", .outcome = "no GPU", .is_answered = true},
                    {.plugin = "tf32", .outcome = "", .is_answered = false}};
  const std::string story = story_text(record);
  EXPECT_THAT(story, Not(HasSubstr("amp proposed nothing")));
  EXPECT_THAT(story, HasSubstr("tf32 proposed nothing: no GPU.")) << "asked, and never answered";
}

TEST(Story, TellsWhatEachChangeGivesAtTheEnd) {
  RunRecord record = sample_record();
  EXPECT_THAT(story_text(record), Not(HasSubstr("gives at the end")));
  const std::size_t tried = story_json(record).at("trials").size();
  TrialRecord helps = sample_trial(50, "set_to_none", Verdict::accepted, {1.04, 1.02, 1.06, 20});
  helps.kind = TrialKind::ablation;
  TrialRecord useless = sample_trial(51, "loading", Verdict::rejected, {1.0, 0.99, 1.01, 20});
  useless.kind = TrialKind::ablation;
  record.trials.push_back(helps);
  record.trials.push_back(useless);
  EXPECT_THAT(
      story_text(record),
      AllOf(HasSubstr("What each change gives at the end"),
            HasSubstr("Without set_to_none (optimizer.set_to_none off → on): it gives +4.0 %"),
            HasSubstr("Without loading (optimizer.set_to_none off → on): no gain, +0.0 %")));
  const Json story = story_json(record);
  EXPECT_EQ(story.at("trials").size(), tried);
  EXPECT_EQ(story.at("ablation").size(), 2U);
}

TEST(Story, NothingFasterDoesNotRepayItself) {
  RunRecord record = sample_record();
  record.run.best = record.run.starting;
  record.run.speedup = {.ratio = 1.0, .low = 1.0, .high = 1.0, .pairs = 0};
  record.trials.clear();
  EXPECT_FALSE(break_even(record.run));
  const std::string story = story_text(record);
  EXPECT_THAT(story, HasSubstr("No change was tried."));
  EXPECT_THAT(story, HasSubstr("The starting configuration: nothing faster was found."));
  EXPECT_THAT(story, HasSubstr("does not repay itself"));

  // That was known only once the start was measured.
  record.run.training["shortage"] = "tune.budget 20.0 s is too small for one trial here";
  const std::string unsearched = story_text(record);
  EXPECT_THAT(unsearched,
              AllOf(HasSubstr("The starting configuration: its budget was too small for a trial."),
                    HasSubstr("Its budget was too small for a trial; the next run"),
                    Not(HasSubstr("othing faster was found"))));
}

TEST(Story, TellsWhatEachPartOfTheInputCosts) {
  RunRecord record = sample_record();
  EXPECT_THAT(
      story_text(record),
      HasSubstr("What bounds it then is compute.\n"
                "  It would train at least 1,250 samples/s with its files in memory (100 % "
                "reached) and 2,000 samples/s with ready samples in memory (62 % reached).\n"));
  EXPECT_EQ(story_json(record).at("ceiling").at("ladder").size(), 3U);
  // As an older version left it, and as nobody wrote it.
  for (const Json& ladder : {Json::array(), Json("odd"), Json::parse(R"([1, {"rung": 2}])")}) {
    record.run.ceiling_ladder = ladder;
    EXPECT_THAT(story_text(record), Not(HasSubstr("It would train")));
    EXPECT_EQ(story_json(record).at("ceiling").at("ladder"), ladder);
  }
}

TEST(Story, UnfinishedRunPromisesNothing) {
  RunRecord record;
  record.run.id = {"r-1"};
  record.run.state = storage::RunState::failed;
  record.run.error = "no such file";
  const std::string story = story_text(record);
  EXPECT_THAT(story, HasSubstr("It ended with an error: no such file."));
  EXPECT_THAT(story, HasSubstr("The starting configuration was not measured."));
  EXPECT_THAT(story, HasSubstr("Nothing: the run failed before its tuning was done."));
  EXPECT_THAT(story, HasSubstr("Its ceiling was not measured."));
  EXPECT_TRUE(story_json(record).at("break_even").is_null());
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
}

// What counts is the rate at which it trained, not that of the confirmation.
TEST(Story, SlowTrainingHasNotRepaidItself) {
  RunRecord record = sample_record();
  record.run.training["duration_ns"] = 590'000'000'000;
  auto savings = savings_of(record.run);
  ASSERT_TRUE(savings);
  EXPECT_NEAR(savings->saved_s, 10.0, 1e-6);
  EXPECT_FALSE(savings->is_repaid);
  std::string story = story_text(record);
  EXPECT_THAT(story, AllOf(HasSubstr("more: it has not repaid the tuning yet"),
                           HasSubstr("slower than in the confirmation, which measured 1,250 "
                                     "samples/s.")));
  const Json pays = story_json(record).at("break_even");
  EXPECT_EQ(pays.at("is_reached"), false);
  EXPECT_NEAR(pays.at("saved_seconds").get<double>(), 10.0, 1e-6);

  record.run.training["duration_ns"] = 700'000'000'000;
  story = story_text(record);
  EXPECT_THAT(story, HasSubstr("less: it has not repaid the tuning yet"));

  // Rates of the two do not compare then.
  record.run.training["other_work_ratio"] = 0.72;
  record.run.training["tuning_other_work_ratio"] = 0.39;
  story = story_text(record);
  EXPECT_THAT(story,
              AllOf(HasSubstr("Other work took 72 % of the CPU time while it trained, and 39 % "
                              "while it was tuned: whether it has repaid the tuning cannot be told "
                              "under such a load."),
                    Not(HasSubstr("This training had")), Not(HasSubstr("it has not repaid"))));
  EXPECT_TRUE(story_json(record).at("break_even").at("is_reached").is_null());
  EXPECT_TRUE(story_json(record).at("break_even").at("saved_seconds").is_null());

  record.run.training = Json::object();
  EXPECT_FALSE(savings_of(record.run));
  EXPECT_TRUE(story_json(record).at("break_even").at("is_reached").is_null());
}

TEST(Story, TellsThatWithoutABudgetNothingWasSearched) {
  RunRecord record = sample_record();
  record.run.best = record.run.starting;
  record.run.speedup = {.ratio = 1.0, .low = 1.0, .high = 1.0, .pairs = 0};
  record.run.baseline_samples_per_second = 0.0;
  record.run.best_samples_per_second = 0.0;
  record.run.tuning_duration_ns = 0;
  record.trials.clear();
  const std::string story = story_text(record);
  EXPECT_THAT(story, AllOf(HasSubstr("with a budget of 0 nothing was searched."),
                           HasSubstr("Nothing: its budget was 0."), HasSubstr("Training took")));
  EXPECT_THAT(story, Not(HasSubstr("nothing faster was found")));
  EXPECT_THAT(story, Not(HasSubstr("Nothing faster was found")));

  record.run.training["shortage"] = "tune.budget 1.0 s is too small for one trial here";
  EXPECT_THAT(story_text(record),
              AllOf(HasSubstr("nothing new was tried: tune.budget 1.0 s is too small"),
                    HasSubstr("its budget was too small for a trial"),
                    HasSubstr("Nothing: no trial was begun."), Not(HasSubstr("budget of 0"))));
}

TEST(Story, SaysThatTheRatioIsNoQuotient) {
  RunRecord record = sample_record();
  record.run.best_samples_per_second = 1300;
  EXPECT_THAT(story_text(record), HasSubstr("1,300 samples/s instead of 1,000 samples/s (the ratio "
                                            "is the median over pairs; the two rates are medians "
                                            "over blocks)."));
}

// It is a lower limit, measured before: a training that is faster shows that it was too low.
TEST(Story, ClaimsNoCeilingThatTheTrainingHasPassed) {
  RunRecord record = sample_record();
  EXPECT_THAT(run_text(record.run, record.trials), HasSubstr("ceiling  at least 2,500 samples/s"));
  record.run.training["duration_ns"] = 200'000'000'000;
  EXPECT_THAT(run_text(record.run, record.trials),
              AllOf(HasSubstr("ceiling  not known: the training passed the 2,500 samples/s"),
                    Not(HasSubstr("reached "))));
  EXPECT_THAT(
      story_text(record),
      AllOf(HasSubstr("Its ceiling is not known: the training reached 3,000 samples/s, more "
                      "than the 2,500 samples/s"),
            Not(HasSubstr("for free it would train"))));
}

// A job that the tuner takes for one at its ceiling is told of as one, and no other.
TEST(Story, ReachesTheCeilingWhereTheTunerDoes) {
  RunRecord record = sample_record();
  const double at_ceiling = record.run.ceiling_samples_per_second / tuner::kAtCeiling;
  record.run.best_samples_per_second = 1.0001 * at_ceiling;
  EXPECT_THAT(story_text(record), HasSubstr("so nothing more was shown to be gained there"));
  record.run.best_samples_per_second = 0.9999 * at_ceiling;
  EXPECT_THAT(story_text(record), AllOf(HasSubstr("; it reaches 98 % of that. What bounds it"),
                                        Not(HasSubstr("so nothing more was shown"))));
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
}

}  // namespace
}  // namespace autotuned::daemon
