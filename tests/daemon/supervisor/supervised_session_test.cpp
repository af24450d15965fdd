// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/supervised_session.hpp"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>

#include "daemon/common/exit_codes.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/queue/submission_sample.hpp"
#include "tests/daemon/supervisor/supervision.hpp"

namespace autotuned::daemon {
namespace {

using namespace std::chrono_literals;

// More than a socket takes while nobody reads.
SessionRequest large_request() {
  SessionRequest request = sample_submission().session;
  request.without.assign(50'000, "a plugin that is not there");
  return request;
}

bool is_stopped(pid_t process) {
  std::ifstream input("/proc/" + std::to_string(process) + "/stat");
  const std::string stat{std::istreambuf_iterator<char>(input), {}};
  const std::size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.substr(name_end + 2, 1) == "T";
}

class SupervisedSessionTest : public testing::Test {
 protected:
  void start(const SessionRequest& request, const std::string& part) {
    SpawnOptions spawn_options;
    spawn_options.environment = std::vector<std::string>{"AUTOTUNED_TRAINER=" + part};
    spawn_options.folder = folder_.path();
    session_ = std::make_shared<SupervisedSession>(
        context_, request, SupervisorLimits{}, spawn_options,
        [this](const Json& event) { events_.push_back(event); },
        [this](const Result<int>& end) { end_ = end; });
    session_->start();
  }
  bool waits_until_stopped() {
    return run_until(context_,
                     [this] { return session_->pid() > 0 && is_stopped(session_->pid()); });
  }
  bool waits_for_the_end() {
    return run_until(context_, [this] { return end_.has_value(); });
  }

  TemporaryFolder folder_;
  boost::asio::io_context context_{1};
  std::shared_ptr<SupervisedSession> session_;
  std::vector<Json> events_;
  std::optional<Result<int>> end_;
};

TEST_F(SupervisedSessionTest, OneThatReadsNothingHoldsNobodyUp) {
  const SessionRequest request = large_request();
  start(request, kDeaf);
  ASSERT_TRUE(waits_until_stopped());
  ::kill(session_->pid(), SIGCONT);
  ASSERT_TRUE(waits_for_the_end());
  ASSERT_TRUE(*end_) << end_->error().message();
  EXPECT_EQ(**end_, kDone);
  // All of it arrived.
  EXPECT_EQ(events_.back().at("request_bytes"), to_line(request.to_json()).size());
  EXPECT_EQ(session_->restarts(), 0);
}

TEST_F(SupervisedSessionTest, OneThatReadsNothingIsCancelled) {
  start(large_request(), kDeaf);
  ASSERT_TRUE(waits_until_stopped());
  session_->cancel(10ms);
  ASSERT_TRUE(waits_for_the_end());
  EXPECT_EQ(end_->value_or(-1), kCancelled);
  EXPECT_EQ(session_->pid(), -1);
}

TEST_F(SupervisedSessionTest, IsToldOfAPluginsFaultUntilItIsOnRecord) {
  start(sample_submission().session, kFaulty);
  ASSERT_TRUE(waits_for_the_end());
  EXPECT_EQ(end_->value_or(-1), kDone);
  const auto recorded = std::ranges::find_if(events_, [](const Json& event) {
    return event.at("event") == "answered" && event.at("plugin") == "crashes";
  });
  ASSERT_NE(recorded, events_.end());
  EXPECT_EQ(recorded->at("is_loading"), true);
  EXPECT_EQ(session_->restarts(), 3);
  EXPECT_EQ(events_.back().at("faults"), Json::array());
}

TEST_F(SupervisedSessionTest, IsEndedBeforeUsWhenMemoryRunsOut) {
  const auto score_of = [](const std::string& process) {
    std::ifstream input("/proc/" + process + "/oom_score_adj");
    int score = -1;
    input >> score;
    return score;
  };
  start(sample_submission().session, kDeaf);
  ASSERT_TRUE(waits_until_stopped());
  EXPECT_EQ(score_of(std::to_string(session_->pid())), std::max(500, score_of("self")));
}

TEST_F(SupervisedSessionTest, IsLeftWithoutWaiting) {
  start(sample_submission().session, kDeaf);
  EXPECT_FALSE(session_->leave());
  ASSERT_TRUE(waits_until_stopped());
  EXPECT_TRUE(session_->leave());
  EXPECT_FALSE(session_->leave());
}

// The session waits for a cancel, and only a tick asks for one.
TEST(Supervise, TicksWhileTheSessionSaysNothing) {
  ASSERT_EQ(::setenv("AUTOTUNED_TRAINER", kHeld, 1), 0);
  int ticks = 0;
  const auto outcome = supervise(
      sample_submission().session, SupervisorLimits{}, [](const Json&) {},
      [&ticks] {
        if (++ticks == 2) ::kill(::getpid(), SIGTERM);
      });
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(*outcome, kCancelled);
  EXPECT_GE(ticks, 2);
}

}  // namespace
}  // namespace autotuned::daemon
