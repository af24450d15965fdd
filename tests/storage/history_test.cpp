// SPDX-License-Identifier: Apache-2.0
// What is written is read back, and found again.
#include "storage/history.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/base/temporary_folder.hpp"
#include "tests/storage/sample.hpp"

namespace autotuned::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class HistoryTest : public ::testing::Test {
 protected:
  // A run of its own job, state and start.
  void add_run(const std::string& id, RunState state, std::int64_t started_unix_ns,
               const std::string& recipe_hash = "h1", const std::string& environment_key = "e1") {
    put_sample_run(history_, id, state, started_unix_ns, recipe_hash, environment_key);
  }

  void add_trial(const std::string& run, int number, const std::string& plugin, Verdict verdict) {
    TrialRecord trial = sample_trial(number);
    trial.plugin = plugin;
    trial.verdict = verdict;
    ASSERT_TRUE(history_.put_trial(RunId{run}, trial));
  }

  std::vector<std::string> ids(const RunFilter& filter) {
    std::vector<std::string> found;
    const auto runs = history_.runs(filter);
    EXPECT_TRUE(runs) << runs.error().message();
    for (const RunRow& run : *runs)
      found.push_back(run.id.text);
    return found;
  }

  TemporaryFolder folder_;
  History history_ = open_with_run(folder_ / "history.db");
  const RunId run_ = sample_run().id;
};

TEST_F(HistoryTest, RunComesBack) {
  EXPECT_EQ(text_of(history_.run(run_.text).value()), text_of(sample_run()));
}

TEST_F(HistoryTest, RunIsUpdatedButKeepsItsCeiling) {
  RunRow run = sample_run();
  run.state = RunState::finished;
  run.best = {};
  run.error = "";
  run.speedup.pairs = 99;
  run.ceiling_samples_per_second = 1.0;
  run.ceiling_ladder = Json::array();
  ASSERT_TRUE(history_.update_run(run));
  run.ceiling_samples_per_second = sample_run().ceiling_samples_per_second;
  run.ceiling_ladder = sample_run().ceiling_ladder;
  EXPECT_EQ(text_of(history_.run(run_.text).value()), text_of(run));

  const Json ladder = {{{"rung", "device_batch"}, {"reached_ratio", 0.25}}};
  ASSERT_TRUE(history_.put_ceiling(run_, 77.5, "memory", ladder));
  run.ceiling_samples_per_second = 77.5;
  run.ceiling_bound_by = "memory";
  run.ceiling_ladder = ladder;
  EXPECT_EQ(text_of(history_.run(run_.text).value()), text_of(run));
}

TEST_F(HistoryTest, SurvivesReopening) {
  history_ = History::open(folder_ / "history.db", Access::read_write).value();
  EXPECT_EQ(text_of(history_.run(run_.text).value()), text_of(sample_run()));
}

TEST_F(HistoryTest, UpdatesOfUnknownRunsAreNotFound) {
  EXPECT_EQ(history_.update_run(sample_run("r-other")).error().kind, ErrorKind::not_found);
  EXPECT_EQ(history_.put_ceiling(RunId{"r-other"}, 1, "x", {}).error().kind, ErrorKind::not_found);
}

TEST_F(HistoryTest, SameRunTwiceIsInvalid) {
  const auto again = history_.put_run(sample_run());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().kind, ErrorKind::invalid);
  EXPECT_EQ(again.error().where, folder_ / "history.db");
}

TEST_F(HistoryTest, RowsOfUnknownRunsAreNotFound) {
  EXPECT_EQ(history_.put_trial(RunId{"r-other"}, sample_trial()).error().kind,
            ErrorKind::not_found);
  EXPECT_EQ(history_.put_block({run_, 5}, sample_block()).error().kind, ErrorKind::not_found);
  EXPECT_EQ(history_.put_check({run_, 5}, {}).error().kind, ErrorKind::not_found);
  RunRow run = sample_run("r-other");
  run.environment_key = "unknown";
  EXPECT_EQ(history_.put_run(run).error().kind, ErrorKind::not_found);
}

TEST_F(HistoryTest, TrialComesBack) {
  ASSERT_TRUE(history_.put_trial(run_, sample_trial(2)));
  TrialRecord without = sample_trial(1);
  without.failure.reset();
  without.kind = TrialKind::confirmation;
  ASSERT_TRUE(history_.put_trial(run_, without));

  const auto trials = history_.trials(run_).value();
  ASSERT_EQ(trials.size(), 2U);
  EXPECT_EQ(trials[0].to_json("r").dump(1), without.to_json("r").dump(1));
  EXPECT_EQ(trials[1].to_json("r").dump(1), sample_trial(2).to_json("r").dump(1));
}

// A run has an owner as long as the process that claimed it lives, whichever process asks.
TEST_F(HistoryTest, OnlyTrialsThatNobodyIsAtAreInterrupted) {
  for (const char* id : {"r-at-work", "r-left", "r-trained"}) {
    add_run(id, id == std::string("r-trained") ? RunState::finished : RunState::tuning, 5);
    add_trial(id, 1, "p", Verdict::accepted);
    add_trial(id, 2, "p", Verdict::running);
  }
  const auto verdict = [&](const char* id, std::size_t trial) {
    return history_.trials(RunId{id}).value().at(trial).verdict;
  };
  const auto is_interrupted = [&](const char* id) {
    const auto reader = History::open(folder_ / "history.db", Access::read_only).value();
    const bool is_marked = reader.run(id).value().is_interrupted;
    const auto runs = reader.runs({}).value();
    for (const RunRow& run : runs)
      EXPECT_TRUE(run.id.text != id || run.is_interrupted == is_marked);
    return is_marked;
  };
  EXPECT_TRUE(is_interrupted("r-at-work")) << "nobody has said otherwise yet";
  auto claim = history_.claim({"r-at-work"}).value();
  EXPECT_TRUE(claim.is_open());
  EXPECT_FALSE(is_interrupted("r-at-work"));
  EXPECT_TRUE(is_interrupted("r-left"));
  EXPECT_FALSE(is_interrupted("r-trained"));

  auto other = History::open(folder_ / "history.db", Access::read_write).value();
  EXPECT_EQ(other.interrupt_abandoned_trials().value(), 1);
  EXPECT_EQ(verdict("r-at-work", 1), Verdict::running);
  EXPECT_EQ(verdict("r-left", 0), Verdict::accepted);
  EXPECT_EQ(verdict("r-left", 1), Verdict::interrupted);
  claim.reset();
  EXPECT_EQ(other.interrupt_abandoned_trials().value(), 1);
  EXPECT_EQ(verdict("r-at-work", 1), Verdict::interrupted);
  EXPECT_EQ(history_.claim({"r-other"}).error().kind, ErrorKind::not_found);
}

TEST_F(HistoryTest, EndsOfTrainersComeBack) {
  const TrainerEnd end{.outcome = TrainerOutcome::crashed,
                       .request = "run",
                       .signal = 11,
                       .resident_bytes = 5,
                       .ended_unix_ns = 77};
  ASSERT_TRUE(history_.put_trainer_end({run_, 3}, end));
  ASSERT_TRUE(history_.put_trainer_end({run_, 0}, {.outcome = TrainerOutcome::hung}));
  EXPECT_EQ(history_.put_trainer_end({RunId{"r-other"}, 1}, end).error().kind,
            ErrorKind::not_found);
  const auto ends = history_.trainer_ends(run_).value();
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(ends[0].trial, 3);
  EXPECT_EQ(ends[0].end.outcome, TrainerOutcome::crashed);
  EXPECT_EQ(ends[0].end.evidence(), end.evidence());
  EXPECT_EQ(ends[0].end.ended_unix_ns, 77);
  EXPECT_EQ(ends[1].trial, 0);
  EXPECT_EQ(ends[1].end.outcome, TrainerOutcome::hung);
}

TEST_F(HistoryTest, TrialIsReplacedAndKeepsItsBlocks) {
  TrialRecord trial = sample_trial();
  trial.verdict = Verdict::running;
  ASSERT_TRUE(history_.put_trial(run_, trial));
  ASSERT_TRUE(history_.put_block({run_, 1}, sample_block()));
  trial.verdict = Verdict::rejected;
  trial.reason = "slower";
  ASSERT_TRUE(history_.put_trial(run_, trial));

  const auto trials = history_.trials(run_).value();
  ASSERT_EQ(trials.size(), 1U);
  EXPECT_EQ(trials[0].verdict, Verdict::rejected);
  EXPECT_EQ(trials[0].reason, "slower");
  EXPECT_EQ(history_.blocks({run_, 1}).value().size(), 1U);
}

TEST_F(HistoryTest, NumbersThatAreNoNumbersComeBack) {
  TrialRecord trial = sample_trial();
  trial.estimate = {.ratio = kNan, .low = 0.0, .high = std::numeric_limits<double>::infinity()};
  ASSERT_TRUE(history_.put_trial(run_, trial));
  const TrialRecord stored = history_.trials(run_).value().at(0);
  EXPECT_TRUE(std::isnan(stored.estimate.ratio));
  EXPECT_EQ(stored.estimate.low, 0.0);
  EXPECT_EQ(stored.estimate.high, std::numeric_limits<double>::infinity());

  TrialBlock block = sample_block();
  block.block.last_loss = kNan;
  block.block.losses = {2.0, kNan};
  ASSERT_TRUE(history_.put_block({run_, 1}, block));
  EXPECT_EQ(text_of(history_.blocks({run_, 1}).value().at(0)), text_of(block));
}

TEST_F(HistoryTest, BlocksComeBackInTheOrderInWhichTheyRan) {
  ASSERT_TRUE(history_.put_trial(run_, sample_trial()));
  TrialBlock candidate_first = sample_block(1);
  TrialBlock reference_second = sample_block(1);
  reference_second.is_candidate = false;
  reference_second.is_first = false;
  TrialBlock candidate_second = sample_block(2);
  candidate_second.is_first = false;
  TrialBlock reference_first = sample_block(2);
  reference_first.is_candidate = false;
  for (const TrialBlock& block :
       {reference_first, candidate_second, reference_second, candidate_first}) {
    ASSERT_TRUE(history_.put_block({run_, 1}, block));
  }
  std::vector<std::string> stored;
  const auto blocks = history_.blocks({run_, 1}).value();
  for (const TrialBlock& block : blocks)
    stored.push_back(text_of(block));
  EXPECT_THAT(stored, ElementsAre(text_of(candidate_first), text_of(reference_second),
                                  text_of(reference_first), text_of(candidate_second)));
  EXPECT_EQ(history_.put_block({run_, 1}, candidate_first).error().kind, ErrorKind::invalid);
}

TEST_F(HistoryTest, ChecksComeBack) {
  ASSERT_TRUE(history_.put_trial(run_, sample_trial()));
  ASSERT_TRUE(history_.put_check(
      {run_, 1}, {"numerics", false, 1, "cosine 0.3", {"fc.weight", "fc.bias"}, 2, 62}));
  ASSERT_TRUE(history_.put_check({run_, 1}, {"exact", true, 12, "equal", {}, 0, 0}));
  const auto checks = history_.checks({run_, 1}).value();
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_EQ(checks[0].risk, "numerics");
  EXPECT_FALSE(checks[0].passed);
  EXPECT_EQ(checks[0].steps, 1);
  EXPECT_EQ(checks[0].detail, "cosine 0.3");
  EXPECT_THAT(checks[0].parameters, ElementsAre("fc.weight", "fc.bias"));
  EXPECT_EQ(checks[0].failed, 2);
  EXPECT_EQ(checks[0].compared, 62);
  EXPECT_TRUE(checks[1].passed);
  EXPECT_TRUE(checks[1].parameters.empty());
}

TEST_F(HistoryTest, ProfilesComeBackInTheirOrder) {
  EXPECT_TRUE(history_.profiles(run_).value().empty());
  const Configuration incumbent = sample_run().best;
  ASSERT_TRUE(history_.put_profile(run_, {}, {{"a", 1}}, Json::array(), Json::array(), 1));
  ASSERT_TRUE(history_.put_profile(run_, incumbent, {{"step.duration_ns", 8.1}},
                                   Json::array({"span"}), Json::array({"operator"}), 2));
  const Json expected = {{"configuration", incumbent.to_json()},
                         {"metrics", {{"step.duration_ns", 8.1}}},
                         {"spans", {"span"}},
                         {"operators", {"operator"}},
                         {"taken_unix_ns", 2},
                         {"findings", Json::array()}};
  const auto profiles = history_.profiles(run_).value();
  ASSERT_EQ(profiles.size(), 2U);
  EXPECT_EQ(profiles[0].at("metrics"), Json({{"a", 1}}));
  EXPECT_EQ(profiles[1], expected);
}

TEST_F(HistoryTest, FindingsBelongToTheirProfile) {
  FindingRecord advice = sample_finding("low_utilization");
  advice.is_below = true;
  advice.plugin.clear();
  advice.knob.clear();
  const std::vector<FindingRecord> found = {sample_finding(), advice};
  ASSERT_TRUE(history_.put_profile(run_, {}, {}, Json::array(), Json::array(), 1, found));
  ASSERT_TRUE(history_.put_profile(run_, {}, {}, Json::array(), Json::array(), 2));
  const auto profiles = history_.profiles(run_).value();
  ASSERT_EQ(profiles.size(), 2U);
  const Json findings = profiles[0].at("findings");
  EXPECT_EQ(findings, Json({found[0].to_json(), found[1].to_json()}));
  EXPECT_EQ(findings[0].at("value"), 0.31);
  EXPECT_EQ(findings[0].at("fires"), "over");
  EXPECT_EQ(findings[0].at("plugin"), "num_workers");
  EXPECT_EQ(findings[0].at("severity"), "high");
  EXPECT_EQ(findings[0].at("gain"), "at most 31.0 % of the step");
  EXPECT_EQ(findings[0].at("code"), "loader = DataLoader(data, num_workers=4)");
  EXPECT_EQ(findings[1].at("fires"), "under");
  EXPECT_EQ(findings[1].at("knob"), nullptr);
  EXPECT_TRUE(profiles[1].at("findings").empty());
}

TEST_F(HistoryTest, AnswerClosesTheLastOpenQuestion) {
  const PluginAnswerRow amp{.plugin = "amp", .version = "1", .sha256 = "aa", .asked_unix_ns = 1};
  PluginAnswerRow other = amp;
  other.plugin = "num_workers";
  other.asked_unix_ns = 2;
  ASSERT_TRUE(history_.put_plugin_asked(run_, amp));
  ASSERT_TRUE(history_.put_plugin_answered(run_, "amp", "no bf16", false));
  ASSERT_TRUE(history_.put_plugin_asked(run_, amp));
  ASSERT_TRUE(history_.put_plugin_asked(run_, other));
  ASSERT_TRUE(history_.put_plugin_answered(run_, "amp", "threw", true));

  const auto answers = history_.plugin_answers(run_).value();
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[0].outcome, "no bf16");
  EXPECT_FALSE(answers[0].is_failure);
  EXPECT_EQ(answers[1].plugin, "amp");
  EXPECT_EQ(answers[1].version, "1");
  EXPECT_EQ(answers[1].sha256, "aa");
  EXPECT_EQ(answers[1].outcome, "threw");
  EXPECT_TRUE(answers[1].is_failure);
  EXPECT_TRUE(answers[1].is_answered);
  EXPECT_EQ(answers[2].plugin, "num_workers");
  EXPECT_EQ(answers[2].asked_unix_ns, 2);
  EXPECT_FALSE(answers[2].is_answered);
  EXPECT_EQ(history_.put_plugin_answered(run_, "amp", "", false).error().kind,
            ErrorKind::not_found);
}

TEST_F(HistoryTest, AnAnswerKeepsItsKindAndItsSubject) {
  ASSERT_TRUE(history_.put_plugin_asked(run_, {.plugin = "amp"}));
  ASSERT_TRUE(history_.put_plugin_asked(run_, {.plugin = "old", .kind = AnswerKind::refused}));
  ASSERT_TRUE(history_.put_plugin_answered(run_, "old", "of another version", true));
  ASSERT_TRUE(history_.put_plugin_asked(run_, {.plugin = "tf32", .kind = AnswerKind::unsupported}));
  ASSERT_TRUE(history_.put_plugin_asked(
      run_, {.plugin = kMachineName, .kind = AnswerKind::machine, .subject = "load"}));
  const auto answers = history_.plugin_answers(run_).value();
  ASSERT_EQ(answers.size(), 4U);
  EXPECT_EQ(answers[0].kind, AnswerKind::asked);
  EXPECT_EQ(answers[0].subject, "");
  EXPECT_EQ(answers[1].kind, AnswerKind::refused);
  EXPECT_EQ(answers[1].outcome, "of another version");
  EXPECT_EQ(answers[2].kind, AnswerKind::unsupported);
  EXPECT_EQ(answers[3].kind, AnswerKind::machine);
  EXPECT_EQ(answers[3].subject, "load");
}

TEST_F(HistoryTest, PluginsOfAnotherVersionAreToldApart) {
  PluginAnswerRow question{.plugin = "amp", .version = "1", .sha256 = "aa"};
  ASSERT_TRUE(history_.put_plugin_asked(run_, question));
  question.version = "2";
  ASSERT_TRUE(history_.put_plugin_asked(run_, question));
  const auto answers = history_.plugin_answers(run_).value();
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].version, "1");
  EXPECT_EQ(answers[1].version, "2");
}

TEST_F(HistoryTest, BestIsKeptReplacedAndForgotten) {
  EXPECT_FALSE(history_.best("h1", "e1").value());
  BestRow best{.recipe_hash = "h1",
               .environment_key = "e1",
               .run = run_,
               .best = sample_run().best,
               .speedup = {.ratio = 2.0, .low = 1.5, .high = 2.5, .pairs = 9},
               .updated_unix_ns = 5};
  ASSERT_TRUE(history_.put_best(best));
  best.speedup.ratio = 3.0;
  best.best.set("loader.workers", std::int64_t{7});
  ASSERT_TRUE(history_.put_best(best));

  const auto stored = history_.best("h1", "e1").value();
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->run, run_);
  EXPECT_EQ(stored->best, best.best);
  EXPECT_EQ(stored->speedup, best.speedup);
  EXPECT_EQ(stored->updated_unix_ns, 5);
  EXPECT_FALSE(history_.best("h1", "e2").value());
  EXPECT_FALSE(history_.best("h2", "e1").value());

  EXPECT_FALSE(history_.forget_best("h2", "e1").value());
  EXPECT_TRUE(history_.forget_best("h1", "e1").value());
  EXPECT_FALSE(history_.forget_best("h1", "e1").value());
  EXPECT_FALSE(history_.best("h1", "e1").value());
}

TEST_F(HistoryTest, EnvironmentsAndRecipesAreReplaced) {
  ASSERT_TRUE(history_.put_environment(sample_environment()));
  ASSERT_TRUE(history_.put_recipe(sample_recipe()));
  EXPECT_EQ(history_.check_integrity().value().text(), "ok");
}

TEST_F(HistoryTest, RunsAreListedNewestFirst) {
  add_run("r-old", RunState::finished, 10);
  add_run("r-new", RunState::finished, 30);
  add_run("r-same", RunState::finished, 30);
  // In the order in which they were begun: the first one's clock was ahead.
  EXPECT_THAT(ids({}), ElementsAre("r-same", "r-new", "r-old", run_.text));
  EXPECT_THAT(ids({.limit = 2}), ElementsAre("r-same", "r-new"));
  EXPECT_EQ(ids({.limit = -1}).size(), 4U);
}

TEST_F(HistoryTest, RunsAreFiltered) {
  add_run("r-1", RunState::finished, 10, "h2", "e1");
  add_run("r-2", RunState::finished, 20, "h2", "e2");
  add_run("r-3", RunState::finished, 30, "h3", "e2");
  add_trial("r-1", 1, "amp", Verdict::accepted);
  add_trial("r-2", 1, "amp", Verdict::rejected);
  add_trial("r-2", 2, "num_workers", Verdict::accepted);
  EXPECT_THAT(ids({.recipe = "h2"}), ElementsAre("r-2", "r-1"));
  EXPECT_THAT(ids({.recipe = "name-h3"}), ElementsAre("r-3"));
  EXPECT_THAT(ids({.recipe = "h"}), IsEmpty());
  EXPECT_THAT(ids({.environment = "e2"}), ElementsAre("r-3", "r-2"));
  EXPECT_THAT(ids({.recipe = "h2", .environment = "e2"}), ElementsAre("r-2"));
  EXPECT_THAT(ids({.plugin = "amp"}), ElementsAre("r-2", "r-1"));
  EXPECT_THAT(ids({.plugin = "amp", .verdict = Verdict::accepted}), ElementsAre("r-1"));
  EXPECT_THAT(ids({.verdict = Verdict::accepted}), ElementsAre("r-2", "r-1"));
  EXPECT_THAT(ids({.recipe = "h2", .since_unix_ns = 20}), ElementsAre("r-2"));
  EXPECT_THAT(ids({.recipe = "' OR 1=1 --"}), IsEmpty());
}

TEST_F(HistoryTest, RunIsFoundByPrefix) {
  add_run("r-20261121-aa0001", RunState::finished, 1);
  add_run("r-20261121-aa0002", RunState::finished, 2);
  EXPECT_EQ(history_.run("r-20261121-7").value().id, run_);
  EXPECT_EQ(history_.run("last").value().id.text, "r-20261121-aa0002");
  EXPECT_EQ(history_.run("r-20261121-aa0002").value().id.text, "r-20261121-aa0002");
  for (const char* unknown : {"", "r-2026112_", "r-%", "r-20261121-7f3a9c0", "x"}) {
    EXPECT_EQ(history_.run(unknown).error().kind, ErrorKind::not_found) << unknown;
  }
  const auto ambiguous = history_.run("r-20261121-a");
  ASSERT_FALSE(ambiguous);
  EXPECT_EQ(ambiguous.error().kind, ErrorKind::invalid);
  EXPECT_EQ(ambiguous.error().what,
            "'r-20261121-a' begins the ids of several runs: r-20261121-aa0001, r-20261121-aa0002");
}

TEST_F(HistoryTest, IdThatIsAPrefixOfAnotherIsItself) {
  add_run("r-20261121-7f3a9c-more", RunState::finished, 1);
  EXPECT_EQ(history_.run(run_.text).value().id, run_);
}

TEST_F(HistoryTest, LastOfAnEmptyHistoryIsNotFound) {
  const TemporaryFolder empty;
  const auto history = History::open(empty / "history.db", Access::read_write);
  ASSERT_TRUE(history);
  EXPECT_EQ(history->run("last").error().kind, ErrorKind::not_found);
}

TEST_F(HistoryTest, RunningTrialsBecomeInterrupted) {
  add_run("r-other", RunState::tuning, 1);
  add_trial("r-other", 1, "amp", Verdict::running);
  add_trial(run_.text, 1, "amp", Verdict::accepted);
  add_trial(run_.text, 2, "amp", Verdict::running);
  ASSERT_TRUE(history_.put_block({run_, 2}, sample_block()));
  EXPECT_EQ(history_.interrupt_running_trials(run_).value(), 1);
  EXPECT_EQ(history_.interrupt_running_trials(run_).value(), 0);
  const auto trials = history_.trials(run_).value();
  EXPECT_EQ(trials.at(0).verdict, Verdict::accepted);
  EXPECT_EQ(trials.at(1).verdict, Verdict::interrupted);
  EXPECT_NE(trials.at(1).reason, sample_trial().reason);
  EXPECT_EQ(history_.blocks({run_, 2}).value().size(), 1U);
  EXPECT_EQ(history_.trials(RunId{"r-other"}).value().at(0).verdict, Verdict::running);
}

TEST_F(HistoryTest, EarlierTrialsOfThisEnvironment) {
  add_run("r-here", RunState::finished, 10, "h2", "e2");
  add_run("r-job", RunState::finished, 20, "h3", "e2");
  add_run("r-now", RunState::tuning, 30, "h3", "e2");
  add_trial("r-here", 1, "here", Verdict::accepted);
  add_trial("r-here", 4, "here-later", Verdict::failed);
  add_trial("r-here", 2, "running", Verdict::running);
  add_trial("r-here", 6, "interrupted", Verdict::interrupted);
  add_trial("r-job", 3, "job", Verdict::rejected);
  add_trial("r-now", 5, "now", Verdict::accepted);
  add_trial(run_.text, 1, "elsewhere", Verdict::accepted);
  TrialRecord confirmation = sample_trial(7);
  confirmation.kind = TrialKind::confirmation;
  ASSERT_TRUE(history_.put_trial(RunId{"r-here"}, confirmation));

  const auto plugins = [&](std::int64_t limit) {
    std::vector<std::string> names;
    const auto trials = history_.earlier_trials("e2", "h3", limit, RunId{"r-now"}).value();
    for (const TrialRecord& trial : trials)
      names.push_back(trial.plugin);
    return names;
  };
  EXPECT_THAT(plugins(10), ElementsAre("here", "here-later", "job"));
  EXPECT_THAT(plugins(2), ElementsAre("here-later", "job"));
  EXPECT_THAT(plugins(1), ElementsAre("job"));
  EXPECT_EQ(history_.earlier_trials("e2", "h3", 10).value().size(), 4U);
}

// What SQLite would go on writing has no name any more.
TEST_F(HistoryTest, OneThatWasDeletedOrMovedIsNotWrittenTo) {
  EXPECT_FALSE(history_.is_gone());
  const auto elsewhere = folder_ / "elsewhere.db";
  std::filesystem::rename(history_.path(), elsewhere);
  EXPECT_TRUE(history_.is_gone());
  const auto stored = history_.put_trial(run_, sample_trial());
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().kind, ErrorKind::io);
  EXPECT_EQ(
      stored.error().message(),
      history_.path().string() +
          ": the history was deleted or moved while this program used it: nothing more can be "
          "stored; put it back and give the same command again; without it the command begins "
          "anew");
  std::filesystem::rename(elsewhere, history_.path());
  EXPECT_FALSE(history_.is_gone());
  EXPECT_TRUE(history_.put_trial(run_, sample_trial()));
}

}  // namespace
}  // namespace autotuned::storage
