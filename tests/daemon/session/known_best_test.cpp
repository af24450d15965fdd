// SPDX-License-Identifier: Apache-2.0
// What is taken over from earlier runs of a job whose training had another length.
#include "daemon/session/known_best.hpp"

#include <gmock/gmock.h>

#include <map>
#include <optional>

#include "base/machine/machine.hpp"
#include "daemon/report/script_report.hpp"
#include "daemon/report/training_fallback.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/queue/submission_sample.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

using testing::IsEmpty;

constexpr const char* kBuilt = "5b0f";  // the SHA-256 of a plugin
constexpr int kLong = 400;              // epochs, of 1,000 samples that take 1 ms each at the start

class KnownBest : public testing::Test {
 protected:
  KnownBest() {
    EXPECT_TRUE(history_->put_environment({"e", Json::object(), "2.11.0", ""}));
    EXPECT_TRUE(history_->put_recipe({"h", "small", "", Json::object()}));
    cache_.set("input.cache", std::string("prefix"));
    workers_.set("loader.workers", std::int64_t{1});
  }

  storage::RunRow run_of(const std::string& id, int epochs) {
    storage::RunRow run;
    run.id = {id};
    run.recipe_hash = "h";
    run.environment_key = "e";
    recipe_.train.epochs = epochs;
    run.recipe = recipe_.to_json();
    run.starting = start_;
    return run;
  }
  // A run that found `best`, with what it decided of a cache that costs 20 s and halves a step.
  void add_run(const std::string& id, int epochs, const Configuration& best,
               std::optional<RejectionReason> cache, bool is_complete = true) {
    EXPECT_TRUE(history_->put_run(run_of(id, epochs)));
    TrialRecord trial;
    trial.number = 1;
    trial.plugin = "input_cache";
    trial.risk = "exact";
    trial.reference = start_;
    trial.change = cache_;
    trial.verdict = cache ? Verdict::rejected : Verdict::accepted;
    trial.rejection = cache;
    trial.estimate = {.ratio = 2.0, .low = 1.9, .high = 2.1, .pairs = 10};
    trial.reference_samples_per_second = 1000.0;
    trial.candidate_samples_per_second = 2000.0;
    trial.one_time_ns = 20'000'000'000;
    EXPECT_TRUE(history_->put_trial({id}, trial));
    storage::BestRow row;
    row.recipe_hash = "h";
    row.environment_key = "e";
    row.run = {id};
    row.best = best;
    row.is_complete = is_complete;
    EXPECT_TRUE(history_->put_best(row));
  }
  // What a run was told by a plugin.
  void add_answer(const std::string& run, const std::string& plugin, const std::string& version,
                  bool is_failure = false, const std::string& outcome = "",
                  storage::AnswerKind kind = storage::AnswerKind::asked) {
    storage::PluginAnswerRow question;
    question.kind = kind;
    question.plugin = plugin;
    question.version = version;
    question.sha256 = kBuilt;
    EXPECT_TRUE(history_->put_plugin_asked({run}, question));
    EXPECT_TRUE(history_->put_plugin_answered({run}, plugin, outcome, is_failure));
  }
  // What a new run of that length is told.
  // `plugins`: with their versions, `sha256` of each file.
  std::string take_over(int epochs, const std::map<std::string, std::string>& plugins = {},
                        const std::string& sha256 = kBuilt) {
    std::map<std::string, PluginIdentity> identities;
    for (const auto& [name, version] : plugins)
      identities[name] = {.version = version, .sha256 = sha256};
    const storage::RunRow run = run_of("r-20261123-ffffff", epochs);
    input_ = tuner::SessionInput();
    input_.recipe = recipe_;
    input_.knobs = knobs_;
    input_.extension_knobs = extension_knobs_;
    input_.starting = start_;
    input_.job_facts = {{"train_samples", 1000}};
    const auto note = add_known_best(*history_, run, identities, input_);
    EXPECT_TRUE(note) << note.error().message();
    return note.value_or("");
  }

  TemporaryFolder folder_;
  Result<storage::History> history_ =
      storage::History::open(folder_ / "history.db", storage::Access::read_write);
  std::vector<recipes::Knob> knobs_ = recipes::knobs_of(Machine{});
  recipes::Recipe recipe_ = sample_submission().session.recipe;
  Configuration start_ = recipe_.starting_configuration(knobs_);
  Configuration cache_;
  Configuration workers_;
  std::vector<std::string> extension_knobs_;
  tuner::SessionInput input_;
};

TEST_F(KnownBest, IsTakenOverByATrainingOfTheSameLength) {
  const Configuration best = start_.with(cache_).with(workers_);
  add_run("r-20261121-000001", kLong, best, std::nullopt);
  EXPECT_THAT(take_over(kLong), IsEmpty());
  EXPECT_EQ(input_.known_best, best);
  EXPECT_TRUE(input_.is_known_best_complete);
  EXPECT_THAT(input_.decided, IsEmpty());
}

TEST_F(KnownBest, BringsWhatWasMeasuredOfIt) {
  add_run("r-20261121-000001", kLong, start_.with(workers_), std::nullopt);
  storage::BestRow row = **history_->best("h", "e");
  row.speedup = {.ratio = 1.4, .low = 1.28, .high = 1.58, .pairs = 20};
  EXPECT_TRUE(history_->put_best(row));
  take_over(kLong);
  EXPECT_EQ(input_.known_best_speedup, row.speedup);
}

// However many runs have taken it over since.
TEST_F(KnownBest, NamesTheRunThatSearched) {
  add_run("r-20261121-000001", kLong, start_, RejectionReason::no_gain);
  take_over(kLong);
  EXPECT_EQ(input_.known_best_run, "r-20261121-000001");
  add_run("r-20261121-000002", kLong, start_, std::nullopt);
  storage::RunRow taken = *history_->run("r-20261121-000002");
  taken.training[kSearchedBy] = "r-20261121-000001";
  EXPECT_TRUE(history_->update_run(taken));
  take_over(kLong);
  EXPECT_EQ(input_.known_best_run, "r-20261121-000001");
}

TEST_F(KnownBest, LosesWhatAShorterTrainingDoesNotRepay) {
  add_run("r-20261121-000001", kLong, start_.with(cache_).with(workers_), std::nullopt);
  EXPECT_NE(take_over(1), "");
  EXPECT_EQ(input_.known_best, start_.with(workers_));
  EXPECT_FALSE(input_.is_known_best_complete) << "without it, others may pay";
}

TEST_F(KnownBest, OfAShorterTrainingIsSearchedFurther) {
  add_run("r-20261121-000001", 1, start_.with(workers_), RejectionReason::not_repaid);
  EXPECT_NE(take_over(kLong), "");
  EXPECT_EQ(input_.known_best, start_.with(workers_));
  EXPECT_FALSE(input_.is_known_best_complete);
  EXPECT_THAT(input_.decided, IsEmpty()) << "the cache is tried again";
  EXPECT_THAT(take_over(1), IsEmpty());
  EXPECT_TRUE(input_.is_known_best_complete);
}

// What a long training has found stays known when a short one has come between.
TEST_F(KnownBest, OfAShorterTrainingIsSearchedFurtherForWhatALongerOneHasKept) {
  add_run("r-20261121-000001", kLong, start_.with(cache_), std::nullopt);
  add_run("r-20261121-000002", 1, start_, RejectionReason::no_gain);
  EXPECT_NE(take_over(kLong), "");
  EXPECT_FALSE(input_.is_known_best_complete);
}

TEST_F(KnownBest, IsNotSearchedAgainForWhatItsOwnTrainingDecided) {
  add_run("r-20261121-000001", 1, start_, RejectionReason::not_repaid);
  add_run("r-20261121-000002", kLong, start_.with(workers_), RejectionReason::not_same_model);
  EXPECT_THAT(take_over(kLong), IsEmpty());
  EXPECT_TRUE(input_.is_known_best_complete);
}

TEST_F(KnownBest, OfASearchThatWasCutIsSearchedFurther) {
  add_run("r-20261121-000001", kLong, start_, RejectionReason::no_gain, /*is_complete=*/false);
  EXPECT_NE(take_over(kLong), "");
  EXPECT_EQ(input_.decided.size(), 1U);
}

TEST_F(KnownBest, IsSearchedFurtherByAPluginThatTheSearchDidNotHave) {
  add_run("r-20261121-000001", kLong, start_.with(workers_), RejectionReason::no_gain);
  add_answer("r-20261121-000001", "amp", "1");
  add_answer("r-20261121-000001", "odd", "1", /*is_failure=*/true, "it threw");
  add_answer("r-20261121-000001", "gpu", "1", false, "no GPU", storage::AnswerKind::unsupported);
  add_answer("r-20261121-000001", "said", "1", false, "is refused: by nobody but itself");
  EXPECT_THAT(take_over(kLong, {{"amp", "1"}}), IsEmpty());
  EXPECT_TRUE(input_.is_known_best_complete);
  EXPECT_THAT(take_over(kLong, {}), IsEmpty()) << "one that was there then may be gone";

  EXPECT_NE(take_over(kLong, {{"amp", "1"}, {"new", "1"}}), "");
  EXPECT_FALSE(input_.is_known_best_complete);
  EXPECT_EQ(input_.known_best, start_.with(workers_));
  EXPECT_EQ(input_.decided.size(), 1U) << "what was decided is not tried again";
  EXPECT_NE(take_over(kLong, {{"amp", "2"}}), "");
  EXPECT_NE(take_over(kLong, {{"amp", "1"}, {"odd", "1"}}), "");
  EXPECT_NE(take_over(kLong, {{"gpu", "1"}}), "");
  EXPECT_EQ(take_over(kLong, {{"said", "1"}}), "") << "its words do not say what it is";
}

// As while it is being written: nobody raises its version with each build.
TEST_F(KnownBest, IsSearchedFurtherByAPluginThatWasBuiltAgainWithOtherContent) {
  add_run("r-20261121-000001", kLong, start_, RejectionReason::no_gain);
  add_answer("r-20261121-000001", "amp", "1");
  take_over(kLong, {{"amp", "1"}});
  EXPECT_TRUE(input_.is_known_best_complete);
  EXPECT_THAT(take_over(kLong, {{"amp", "1"}}, "77c2"),
              testing::HasSubstr("had no answer of these plugins as they are now: amp"));
  EXPECT_FALSE(input_.is_known_best_complete);
}

// What the earlier build of an extension lost with, the present one may do otherwise. The code of other knobs is as it
// was.
TEST_F(KnownBest, TriesAgainWhatAnExtensionLostWithThatWasBuiltAgain) {
  add_run("r-20261121-000001", kLong, start_, RejectionReason::no_gain);
  TrialRecord trial;
  trial.number = 2;
  trial.plugin = "mine";
  trial.risk = "exact";
  trial.reference = start_;
  trial.change.set("mine.skip", true);
  trial.verdict = Verdict::failed;
  trial.failure = ErrorKind::crashed;
  EXPECT_TRUE(history_->put_trial({"r-20261121-000001"}, trial));
  trial.number = 3;
  trial.change = workers_;
  EXPECT_TRUE(history_->put_trial({"r-20261121-000001"}, trial));
  add_answer("r-20261121-000001", "mine", "1");
  extension_knobs_ = {"mine.skip"};
  EXPECT_NE(take_over(kLong, {{"mine", "1"}, {"new", "1"}}), "");
  EXPECT_EQ(input_.decided.size(), 3U);
  EXPECT_NE(take_over(kLong, {{"mine", "1"}}, "77c2"), "");
  ASSERT_EQ(input_.decided.size(), 2U);
  EXPECT_EQ(input_.decided.back().number, 3);
}

// A run that only verified what is known has asked nobody.
TEST_F(KnownBest, IsOfTheSearchBeforeTheRunsThatVerifiedIt) {
  const Configuration best = start_.with(workers_);
  add_run("r-20261121-000001", kLong, best, RejectionReason::no_gain);
  add_answer("r-20261121-000001", "amp", "1");
  storage::RunRow searched = *history_->run("r-20261121-000001");
  searched.best = best;
  EXPECT_TRUE(history_->update_run(searched));
  // Its search was killed.
  EXPECT_TRUE(history_->put_run(run_of("r-20261121-000002", kLong)));
  add_answer("r-20261121-000002", "new", "1");
  add_run("r-20261121-000003", kLong, best, RejectionReason::no_gain);
  add_answer("r-20261121-000003", storage::kMachineName, "", false, "CPU: it is hot",
             storage::AnswerKind::machine);
  EXPECT_THAT(take_over(kLong, {{"amp", "1"}}), IsEmpty());
  EXPECT_TRUE(input_.is_known_best_complete);
  EXPECT_NE(take_over(kLong, {{"amp", "1"}, {"new", "1"}}), "");
}

// What a run with little time leaves of what another has found.
class KeptBest : public KnownBest {
 protected:
  tuner::SessionOutcome outcome_with(const Configuration& best,
                                     std::optional<RejectionReason> verification) {
    tuner::SessionOutcome outcome;
    outcome.best = best;
    outcome.speedup = {.ratio = 1.0, .low = 1.0, .high = 1.0, .pairs = 0};
    TrialRecord trial;
    trial.kind = TrialKind::verification;
    trial.reference = start_;
    trial.change = workers_;
    trial.verdict = verification ? Verdict::rejected : Verdict::accepted;
    trial.rejection = verification;
    outcome.trials.push_back(trial);
    return outcome;
  }
  std::string keep(const tuner::SessionOutcome& outcome) {
    const storage::RunRow run = run_of("r-20261122-000009", kLong);
    if (!history_->run(run.id.text)) {
      EXPECT_TRUE(history_->put_run(run));
    }
    const auto note = keep_best(*history_, run, outcome, 7);
    EXPECT_TRUE(note) << note.error().message();
    return note.value_or("");
  }
  storage::BestRow stored() { return **history_->best("h", "e"); }
};

TEST_F(KeptBest, StaysWhereTheVerificationWasCutShort) {
  add_run("r-20261121-000001", kLong, start_.with(workers_), std::nullopt);
  EXPECT_NE(keep(outcome_with(start_, RejectionReason::undecided_in_time)), "");
  EXPECT_EQ(stored().best, start_.with(workers_));
  EXPECT_EQ(stored().run.text, "r-20261121-000001");
}

TEST_F(KeptBest, StaysWhereTheVerificationWasDisturbed) {
  add_run("r-20261121-000001", kLong, start_.with(workers_), std::nullopt);
  auto outcome = outcome_with(start_, RejectionReason::undecided_in_time);
  outcome.trials[0].failure = ErrorKind::unsupported;
  outcome.trials[0].reason = "undecided, because it was disturbed: a priority was changed";
  EXPECT_EQ(keep(outcome),
            "something disturbed this run when it measured whether the configuration that run "
            "r-20261121-000001 found is still faster here: it stays stored, and the next run "
            "verifies it again (undecided, because it was disturbed: a priority was changed)");
  EXPECT_EQ(stored().best, start_.with(workers_));
}

TEST_F(KeptBest, GoesWhereItIsNoLongerFaster) {
  add_run("r-20261121-000001", kLong, start_.with(workers_), std::nullopt);
  EXPECT_THAT(keep(outcome_with(start_, RejectionReason::slower)), IsEmpty());
  EXPECT_EQ(stored().best, start_);
}

TEST_F(KeptBest, IsReplacedByWhatASearchFoundInstead) {
  add_run("r-20261121-000001", kLong, start_.with(workers_), std::nullopt);
  EXPECT_THAT(keep(outcome_with(start_.with(cache_), RejectionReason::undecided_in_time)),
              IsEmpty());
  EXPECT_EQ(stored().best, start_.with(cache_));
}

TEST_F(KeptBest, StaysWhereNothingWasSearched) {
  add_run("r-20261121-000001", kLong, start_.with(workers_), std::nullopt);
  tuner::SessionOutcome outcome = outcome_with(start_, std::nullopt);
  outcome.trials.clear();
  outcome.is_searched = false;
  EXPECT_NE(keep(outcome), "");
  EXPECT_EQ(stored().best, start_.with(workers_));
}

TEST_F(KeptBest, StaysWhereNoTrialFittedIntoTheBudget) {
  add_run("r-20261121-000001", kLong, start_.with(workers_), std::nullopt);
  tuner::SessionOutcome outcome = outcome_with(start_, std::nullopt);
  outcome.trials.clear();
  outcome.shortage = "tune.budget 20.0 s is too small for one trial here";
  EXPECT_NE(keep(outcome), "");
  EXPECT_EQ(stored().best, start_.with(workers_));
  // One that was verified all the same, and is slower now.
  outcome = outcome_with(start_, RejectionReason::slower);
  outcome.shortage = "tune.budget 20.0 s is too small for one trial here";
  EXPECT_THAT(keep(outcome), IsEmpty());
  EXPECT_EQ(stored().best, start_);
}

// A run of the same job whose training was checked.
class RefusedBest : public KeptBest {
 protected:
  void add_checked_run(const std::string& id, const Configuration& best, const Json& check,
                       const Json& fallbacks = {}) {
    add_run(id, kLong, best, std::nullopt);
    storage::RunRow run = *history_->run(id);
    run.state = storage::RunState::finished;
    run.best = best;
    run.training["check"] = check;
    if (!fallbacks.is_null()) run.training[kFallbacks] = fallbacks;
    EXPECT_TRUE(history_->update_run(run));
  }
  static Json failed_with(const Configuration& refused) {
    return {{"passed", false}, {"detail", "it stands still"}, {"refused", refused.to_json()}};
  }
};

TEST_F(RefusedBest, IsNotOfferedToLaterRuns) {
  const Configuration best = start_.with(cache_).with(workers_);
  add_checked_run("r-20261121-000001", best, failed_with(workers_));
  EXPECT_NE(take_over(kLong), "");
  EXPECT_EQ(input_.known_best, std::nullopt);
  EXPECT_THAT(input_.refused, testing::ElementsAre(workers_));
  // Another one that lacks it stays known.
  add_run("r-20261121-000002", kLong, start_.with(cache_), std::nullopt);
  EXPECT_NE(take_over(kLong), "");
  EXPECT_EQ(input_.known_best, start_.with(cache_));
}

TEST_F(RefusedBest, IsForgottenWhereItHasWhatIsToBlame) {
  add_checked_run("r-20261121-000001", start_.with(workers_), failed_with(workers_));
  const storage::RunRow failed = *history_->run("r-20261121-000001");
  ASSERT_TRUE(refuse_best(*history_, failed));
  EXPECT_FALSE(history_->best("h", "e")->has_value());
  add_run("r-20261121-000002", kLong, start_.with(cache_), std::nullopt);
  ASSERT_TRUE(refuse_best(*history_, failed));
  EXPECT_TRUE(history_->best("h", "e")->has_value()) << "found by another run, without it";
}

TEST_F(RefusedBest, CountsByTheNewestCheckOfIt) {
  add_checked_run("r-20261121-000001", start_.with(workers_), failed_with(workers_));
  add_checked_run("r-20261121-000002", start_.with(cache_), Json{{"passed", true}});
  add_checked_run("r-20261121-000003", start_.with(workers_), Json{{"passed", nullptr}});
  take_over(kLong);
  EXPECT_THAT(input_.refused, testing::ElementsAre(workers_)) << "it was not checked since";
  add_checked_run("r-20261121-000004", start_.with(workers_), Json{{"passed", true}});
  EXPECT_THAT(take_over(kLong), IsEmpty());
  EXPECT_THAT(input_.refused, IsEmpty());
  EXPECT_EQ(input_.known_best, start_.with(workers_));
}

// What was checked is what was trained: after a shortage of memory that is not what was kept.
TEST_F(RefusedBest, IsNotExcusedByATrainingWithoutIt) {
  add_checked_run("r-20261121-000001", start_.with(workers_), failed_with(workers_));
  storage::RunRow fell_back = run_of("r-20261121-000002", kLong);
  fell_back.best = start_.with(workers_);
  add_fallback(start_, {ErrorKind::out_of_memory, "full", "", ""}, 7, fell_back);
  add_checked_run(fell_back.id.text, fell_back.best, Json{{"passed", true}},
                  fell_back.training.at(kFallbacks));
  take_over(kLong);
  EXPECT_THAT(input_.refused, testing::ElementsAre(workers_));
}

// An extension that was found out in the training.
TEST_F(RefusedBest, IsWhatATrainingWentOnWithout) {
  const Configuration best = start_.with(cache_).with(workers_);
  storage::RunRow went_on = run_of("r-20261121-000001", kLong);
  went_on.best = best;
  Error error{ErrorKind::internal, "it cheats", "", ""};
  error.extensions = {"cheats"};
  Configuration next = best;
  for (const auto& [name, value] : workers_.values())
    next.set(name, *start_.find(name));
  add_fallback(next, error, 7, went_on, 5);
  add_checked_run(went_on.id.text, best, Json{{"passed", true}}, went_on.training.at(kFallbacks));
  EXPECT_THAT(take_over(kLong), testing::HasSubstr("the training of run r-20261121-000001 had to "
                                                   "go on without an extension: "));
  EXPECT_THAT(input_.refused, testing::ElementsAre(workers_));
  EXPECT_EQ(input_.known_best, std::nullopt);
  ASSERT_TRUE(refuse_best(*history_, *history_->run(went_on.id.text)));
  EXPECT_FALSE(history_->best("h", "e")->has_value());
}

// One search after the other.
TEST_F(RefusedBest, IsToldLikeEverythingThatIsKnown) {
  tests::Cases cases;
  add_run("r-20261121-000001", kLong, start_.with(cache_).with(workers_), std::nullopt);
  cases.add("a training that is too short for it", take_over(1));
  add_run("r-20261121-000002", 1, start_.with(workers_), RejectionReason::not_repaid);
  cases.add("a longer training", take_over(kLong));
  add_run("r-20261121-000003", kLong, start_, RejectionReason::no_gain, /*is_complete=*/false);
  cases.add("a search that was cut", take_over(kLong));
  add_run("r-20261121-000004", kLong, start_.with(workers_), RejectionReason::no_gain);
  add_answer("r-20261121-000004", "amp", "1");
  cases.add("plugins that the search did not have", take_over(kLong, {{"amp", "2"}, {"new", "1"}}));
  cases.add("a verification that was cut short",
            keep(outcome_with(start_, RejectionReason::undecided_in_time)));
  tuner::SessionOutcome outcome = outcome_with(start_, std::nullopt);
  outcome.trials.clear();
  outcome.is_searched = false;
  cases.add("a run without a budget", keep(outcome));
  add_checked_run("r-20261121-000005", start_.with(workers_), failed_with(workers_));
  cases.add("a training whose check failed", take_over(kLong));
  tests::expect_golden("daemon/session/golden/known_best.txt", cases.text());
}

}  // namespace
}  // namespace autotuned::daemon
