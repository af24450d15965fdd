// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/continued_run.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <thread>
#include <utility>

#include "daemon/session/run_row.hpp"
#include "tests/base/temporary_folder.hpp"

namespace autotuned::daemon {
namespace {

using storage::Access;
using storage::History;
using storage::RunRow;
using storage::RunState;

const std::string kRecipe = "0123456789abcdef";
const std::string kEnvironment = "fedcba9876543210";
const storage::RunKey kKey{.recipe_hash = kRecipe, .environment_key = kEnvironment, .plan = "{}"};

class ContinuedRunTest : public testing::Test {
 protected:
  ContinuedRunTest() {
    EXPECT_TRUE(history_->put_environment({kEnvironment, Json::object(), "2.11.0", ""}));
    EXPECT_TRUE(history_->put_recipe({kRecipe, "small", "", Json::object()}));
  }
  RunRow put_run(const std::string& id, std::int64_t started_unix_ns = 1) {
    RunRow run;
    run.id = {id};
    run.recipe_hash = kRecipe;
    run.recipe_name = "small";
    run.environment_key = kEnvironment;
    run.plan = kKey.plan;
    run.recipe = Json::object();
    run.started_unix_ns = started_unix_ns;
    EXPECT_TRUE(history_->put_run(run));
    return run;
  }
  // As another session would, in a thread.
  [[nodiscard]] std::future<Result<ClaimedRun>> start_claiming(
      const SessionRequest& request = {}) const {
    return std::async(std::launch::async, [file = file_, request]() -> Result<ClaimedRun> {
      const auto history = History::open(file, Access::read_write);
      if (!history) return tl::unexpected(history.error());
      return claim_run(*history, request, kKey);
    });
  }
  // Until a file other than ours is open that holds the claims: it has been read which run is to be claimed.
  static bool waits_until_it_claims() {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (open_claims() < 2) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "history.db";
  Result<History> history_ = History::open(file_, Access::read_write);

 private:
  static int open_claims() {
    int count = 0;
    for (const auto& descriptor : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code closed;
      const auto target = std::filesystem::read_symlink(descriptor.path(), closed);
      if (target.filename() == "history.db-owners") ++count;
    }
    return count;
  }
};

TEST_F(ContinuedRunTest, IsClaimed) {
  put_run("r-1");
  const auto claimed = claim_run(*history_, {}, kKey);
  ASSERT_TRUE(claimed) << claimed.error().message();
  ASSERT_TRUE(claimed->run);
  EXPECT_EQ(claimed->run->id.text, "r-1");
  EXPECT_TRUE(claimed->claim.is_open());
  EXPECT_FALSE(history_->run("r-1")->is_interrupted);
}

TEST_F(ContinuedRunTest, IsNoneWhereNoneFits) {
  EXPECT_FALSE(claim_run(*history_, {}, kKey)->run);
  put_run("r-1");
  SessionRequest anew;
  anew.retune = true;
  EXPECT_FALSE(claim_run(*history_, anew, kKey)->run);
  EXPECT_TRUE(history_->run("r-1")->is_interrupted);  // nobody claimed it
}

TEST_F(ContinuedRunTest, IsReadAgainOnceItsOwnerLetsGo) {
  RunRow run = put_run("r-1");
  auto owner = history_->claim(run.id).value();
  auto claiming = start_claiming();
  ASSERT_TRUE(waits_until_it_claims());
  run.state = RunState::training;
  run.best.set("batch_size", std::int64_t{8});
  ASSERT_TRUE(history_->update_run(run));
  owner.reset();
  const auto claimed = claiming.get();
  ASSERT_TRUE(claimed) << claimed.error().message();
  ASSERT_TRUE(claimed->run);
  EXPECT_EQ(claimed->run->state, RunState::training);
  EXPECT_EQ(claimed->run->best, run.best);
}

TEST_F(ContinuedRunTest, IsNotOneThatItsOwnerHasEndedMeanwhile) {
  RunRow run = put_run("r-1");
  auto owner = history_->claim(run.id).value();
  auto claiming = start_claiming();
  ASSERT_TRUE(waits_until_it_claims());
  run.state = RunState::finished;
  ASSERT_TRUE(history_->update_run(run));
  owner.reset();
  const auto claimed = claiming.get();
  ASSERT_TRUE(claimed) << claimed.error().message();
  EXPECT_FALSE(claimed->run);
  EXPECT_FALSE(claimed->claim.is_open());
}

// It was tuned by a session that was killed; by the time the next one looks, a command that trains has taken it over.
TEST_F(ContinuedRunTest, IsNotOneThatATrainingHasTakenOver) {
  RunRow run = put_run("r-1");
  run.state = RunState::training;
  ASSERT_TRUE(history_->update_run(run));
  SessionRequest again;
  again.continue_run = "r-1";
  again.tune_only = true;
  storage::RunKey tuning = kKey;
  tuning.is_tune_only = true;
  const auto claimed = claim_run(*history_, again, tuning);
  ASSERT_TRUE(claimed) << claimed.error().message();
  EXPECT_FALSE(claimed->run);
  again.tune_only = false;
  EXPECT_TRUE(claim_run(*history_, again, kKey)->run);
}

// From each state, what an error makes of a run, and whether the same command continues it as it is.
TEST(TakeEnd, LeavesARunThatHasTrainedAndOneThatFoundNoRoom) {
  const auto ended = [](RunState from, ErrorKind kind) {
    RunRow run;
    run.state = from;
    const bool is_left = take_end({.kind = kind, .what = "no"}, 7, run);
    EXPECT_EQ(run.error, kind == ErrorKind::cancelled ? "" : "no");
    EXPECT_EQ(run.ended_unix_ns, run.state == RunState::failed ? 7 : 0);
    return std::pair(run.state, is_left);
  };
  EXPECT_EQ(ended(RunState::tuning, ErrorKind::crashed), std::pair(RunState::failed, false));
  EXPECT_EQ(ended(RunState::tuning, ErrorKind::busy), std::pair(RunState::tuning, true));
  EXPECT_EQ(ended(RunState::tuning, ErrorKind::disk_full), std::pair(RunState::tuning, true));
  EXPECT_EQ(ended(RunState::training, ErrorKind::crashed), std::pair(RunState::training, true));
  EXPECT_EQ(ended(RunState::finished, ErrorKind::io), std::pair(RunState::training, true));
  for (const RunState from : {RunState::tuning, RunState::training})
    EXPECT_EQ(ended(from, ErrorKind::cancelled), std::pair(RunState::cancelled, false));
}

// What the same command must have in common with a run to go on with it.
TEST(PlanTest, IsSeedLengthAndOutput) {
  recipes::Recipe recipe;
  recipe.seed = 3;
  recipe.train.epochs = 400;
  recipe.output_dir = "/srv/ada/out";
  const std::string plan = plan_of(recipe);
  // Migration 10 writes the same text for runs of before.
  EXPECT_EQ(plan, R"({"epochs":400,"output":"/srv/ada/out","seed":3,"steps":null})");
  const auto changed = [&](const std::function<void(recipes::Recipe&)>& change) {
    recipes::Recipe other = recipe;
    change(other);
    return plan_of(other);
  };
  EXPECT_NE(changed([](auto& other) { other.seed = 4; }), plan);
  EXPECT_NE(changed([](auto& other) { other.train.epochs = 1; }), plan);
  EXPECT_NE(changed([](auto& other) { other.output_dir = "/srv/ada/other"; }), plan);
  EXPECT_NE(changed([](auto& other) {
              other.train.epochs.reset();
              other.train.steps = 400;
            }),
            plan);
  EXPECT_EQ(plan_of(recipe, "r-1", "restart"),
            R"({"epochs":400,"extends":"r-1","output":"/srv/ada/out","schedule":"restart",)"
            R"("seed":3,"steps":null})");
  EXPECT_EQ(changed([](auto& other) { other.name = "another"; }), plan);
  EXPECT_EQ(changed([](auto& other) { other.tune.budget = std::chrono::seconds(1); }), plan);
}

TEST(PlanTest, OtherRunIsToldWithTheCommandThatContinuesIt) {
  RunRow run;
  run.id = {"r-1"};
  run.plan = R"({"epochs":400,"output":"/srv/ada/out","seed":3,"steps":null})";
  run.output_dir = "/srv/ada/out";
  run.recipe = {{"file", "/srv/ada/small.yaml"}};
  EXPECT_EQ(other_run_text(run),
            "run r-1 of the same job is unfinished and stays as it is (seed 3, epochs 400, output "
            "/srv/ada/out); with these, `autotuned run /srv/ada/small.yaml --output "
            "/srv/ada/out` and its other options, such as --budget, continue it");
  run.recipe = {{"file", "/srv/ada/my jobs/small.yaml"}};
  EXPECT_THAT(other_run_text(run),
              testing::HasSubstr("`autotuned run '/srv/ada/my jobs/small.yaml' --output "));
  run.plan =
      R"({"epochs":400,"extends":"r-0","output":"/srv/ada/out","schedule":"stretch","seed":3})";
  EXPECT_THAT(other_run_text(run),
              testing::HasSubstr("/srv/ada/out --extend --schedule stretch` and "));
}

TEST_F(ContinuedRunTest, IsNoneOfAnotherPlan) {
  put_run("r-1");
  storage::RunKey other = kKey;
  other.plan = "[]";
  EXPECT_FALSE(claim_run(*history_, {}, other)->run);
}

// Killed between the end of a training and what becomes of its checkpoint.
TEST_F(ContinuedRunTest, CheckpointsOfTrainingsThatHaveEndedAreSettled) {
  const auto put = [&](const std::string& id, RunState state, bool is_tune_only = false) {
    RunRow run = put_run(id);
    run.state = state;
    run.is_tune_only = is_tune_only;
    run.output_dir = folder_.path().string();
    ASSERT_TRUE(history_->update_run(run));
    folder_.write("checkpoint-" + id + ".pt", "state");
  };
  put("r-finished", RunState::finished);
  put("r-training", RunState::training);
  put("r-cancelled", RunState::cancelled);
  put("r-tuned", RunState::finished, true);
  folder_.write("checkpoint-of-somebody.pt", "state");
  const auto is_there = [&](const std::string& id) {
    return std::filesystem::exists(folder_ / ("checkpoint-" + id + ".pt"));
  };
  remove_spent_checkpoints(*history_, folder_.path());
  EXPECT_TRUE(is_there("r-finished")) << "there is no model";
  folder_.write("model.pt", "weights");
  remove_spent_checkpoints(*history_, folder_.path());
  EXPECT_FALSE(is_there("r-finished"));
  EXPECT_EQ(folder_.read("training_state.pt"), "state");
  for (const char* kept : {"r-training", "r-cancelled", "r-tuned", "of-somebody"})
    EXPECT_TRUE(is_there(kept)) << kept;
}

// The same recipe and the same sizes of files: only the trainer knows.
TEST_F(ContinuedRunTest, ModelOfOtherDataIsTold) {
  const Json data = {{"train", {{"samples", 8}, {"labels", "a"}, {"content", "b"}}}};
  RunRow owner = put_run("r-1");
  owner.state = RunState::finished;
  owner.output_dir = folder_.path().string();
  owner.training[kTrainedData] = data;
  ASSERT_TRUE(history_->update_run(owner));
  RunRow run = put_run("r-2");
  run.output_dir = owner.output_dir;
  const auto told = [&](const Json& found) { return other_data_text(*history_, run, found); };
  Json other = data;
  other["train"]["labels"] = "c";
  EXPECT_EQ(told(other), "") << "there is no model";
  folder_.write("model.pt", "weights");
  folder_.write("summary.json", R"({"run":"r-1"})");
  EXPECT_EQ(told(other),
            folder_.path().string() +
                " has the model of run r-1, which was trained on other data (files of the same "
                "names and sizes with other contents): this one replaces it; --output names "
                "another folder");
  EXPECT_EQ(told(data), "");
  // Another seed draws another validation split of the same data.
  RunRow seeded = run;
  seeded.plan = R"({"epochs":null,"output":"","seed":7,"steps":null})";
  EXPECT_EQ(other_data_text(*history_, seeded, other), "");
  // It was killed after it had saved its model, and before its summary.
  RunRow killed = run;
  killed.state = RunState::training;
  const auto later =
      std::filesystem::last_write_time(folder_ / "summary.json") + std::chrono::seconds(1);
  std::filesystem::last_write_time(folder_ / "model.pt", later);
  EXPECT_EQ(other_data_text(*history_, killed, other), "");
  // What is not known of both says nothing.
  other = data;
  other["train"].erase("labels");
  other["test"] = {{"samples", 2}};
  EXPECT_EQ(told(other), "");
  EXPECT_EQ(told(Json::object()), "");
}

TEST_F(ContinuedRunTest, FilesThatChangedSinceTheLastRunAreTold) {
  RunRow last = put_run("r-1");
  last.state = RunState::cancelled;
  last.output_dir = "/srv/ada/out";
  ASSERT_TRUE(history_->update_run(last));
  RunRow run = last;
  run.id = {"r-2"};
  EXPECT_EQ(changed_files_text(*history_, run), "") << "it is the same job";
  run.recipe_hash = "another";
  EXPECT_THAT(changed_files_text(*history_, run),
              testing::AllOf(testing::HasSubstr("names or sizes than in run r-1 of this recipe"),
                             testing::HasSubstr("begins at step 0")));
  RunRow elsewhere = run;
  elsewhere.output_dir = "/srv/ada/other";
  EXPECT_EQ(changed_files_text(*history_, elsewhere), "");
  RunRow changed = run;
  changed.recipe = {{"model", "another"}};
  EXPECT_EQ(changed_files_text(*history_, changed), "") << "who changed the recipe knows";
  last.state = RunState::finished;
  ASSERT_TRUE(history_->update_run(last));
  EXPECT_THAT(changed_files_text(*history_, run),
              testing::HasSubstr("without what was measured there"));
}

TEST_F(ContinuedRunTest, TrialsInWhichSessionsEndedAreFailed) {
  const RunRow run = put_run("r-1");
  for (const int number : {1, 2, 3}) {
    TrialRecord trial;
    trial.number = number;
    trial.plugin = "amp";
    trial.verdict = number == 2 ? Verdict::accepted : Verdict::interrupted;
    ASSERT_TRUE(history_->put_trial(run.id, trial));
  }
  ASSERT_TRUE(fail_lost_trials(*history_, run.id, {1, 2}));
  const auto trials = history_->trials(run.id).value();
  ASSERT_EQ(trials.size(), 3);
  EXPECT_EQ(trials[0].verdict, Verdict::failed);
  EXPECT_EQ(trials[0].failure, ErrorKind::crashed);
  EXPECT_EQ(trials[0].reason, "the session ended twice in this trial");
  EXPECT_EQ(trials[1].verdict, Verdict::accepted) << "it had been decided";
  EXPECT_EQ(trials[2].verdict, Verdict::interrupted) << "it is tried again";
}

TEST_F(ContinuedRunTest, KnowsTheTimeThatWasSpent) {
  RunRow run;
  TrialRecord trial;
  trial.duration_ns = 5;
  TrialRecord ablation = trial;
  ablation.kind = TrialKind::ablation;
  const std::vector<TrialRecord> trials = {trial, trial, ablation};
  using std::chrono::nanoseconds;
  EXPECT_EQ(earlier_tuning_time(run, {}), nanoseconds(0));
  EXPECT_EQ(earlier_tuning_time(run, trials), nanoseconds(10));  // it was killed
  run.tuning_duration_ns = 24;
  EXPECT_EQ(earlier_tuning_time(run, trials), nanoseconds(24));
}

TEST_F(ContinuedRunTest, HasEachFaultOnRecordOnce) {
  const RunRow run = put_run("r-1");
  storage::PluginAnswerRow question;
  question.plugin = "crashes";
  ASSERT_TRUE(history_->put_plugin_asked(run.id, question));
  const std::vector<PluginFault> faults = {{"crashes", "ended the process", false},
                                           {"hangs", "did not answer", true}};
  for (int told = 0; told < 2; ++told) {
    const auto stored = put_faults(*history_, run.id, faults, 7);
    ASSERT_TRUE(stored) << stored.error().message();
  }
  const auto answers = history_->plugin_answers(run.id).value();
  ASSERT_EQ(answers.size(), 2);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].plugin, faults[i].plugin);
    EXPECT_EQ(answers[i].outcome, faults[i].outcome);
    EXPECT_TRUE(answers[i].is_failure);
  }
  EXPECT_EQ(answers[1].asked_unix_ns, 7);
}

}  // namespace
}  // namespace autotuned::daemon
