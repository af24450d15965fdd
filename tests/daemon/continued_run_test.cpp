// SPDX-License-Identifier: Apache-2.0
#include "daemon/continued_run.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <thread>

#include "tests/base/temporary_folder.hpp"

namespace autotuned::daemon {
namespace {

using storage::Access;
using storage::History;
using storage::RunRow;
using storage::RunState;

const std::string kRecipe = "0123456789abcdef";
const std::string kEnvironment = "fedcba9876543210";

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
      return claim_run(*history, request, kRecipe, kEnvironment);
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
  const auto claimed = claim_run(*history_, {}, kRecipe, kEnvironment);
  ASSERT_TRUE(claimed) << claimed.error().message();
  ASSERT_TRUE(claimed->run);
  EXPECT_EQ(claimed->run->id.text, "r-1");
  EXPECT_TRUE(claimed->claim.is_open());
  EXPECT_FALSE(history_->run("r-1")->is_interrupted);
}

TEST_F(ContinuedRunTest, IsNoneWhereNoneFits) {
  EXPECT_FALSE(claim_run(*history_, {}, kRecipe, kEnvironment)->run);
  put_run("r-1");
  SessionRequest anew;
  anew.retune = true;
  EXPECT_FALSE(claim_run(*history_, anew, kRecipe, kEnvironment)->run);
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
