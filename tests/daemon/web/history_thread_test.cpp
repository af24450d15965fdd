// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/history_thread.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/web/stored_run.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

bool never() {
  return false;
}

// Asks, and waits for the answer.
WebAnswer answer_of(HistoryThread& thread, HistoryQuery query) {
  auto promise = std::make_shared<std::promise<WebAnswer>>();
  auto answer = promise->get_future();
  if (!thread.ask(std::move(query),
                  [promise](WebAnswer given) { promise->set_value(std::move(given)); })) {
    return {.status = 0, .body = "refused", .headers = {}};
  }
  return answer.get();
}

TEST(HistoryThread, AnswersInTurn) {
  HistoryThread thread(
      [](const HistoryQuery& query, const IsStopped& is_stopped) {
        EXPECT_FALSE(is_stopped());
        return WebAnswer{.body = std::get<RunQuery>(query).run, .headers = {}};
      },
      4);
  EXPECT_EQ(answer_of(thread, RunQuery{"one"}).body, "one");
  EXPECT_EQ(answer_of(thread, RunQuery{"two"}).body, "two");
}

TEST(HistoryThread, RefusesMoreThanItHolds) {
  std::promise<void> begun;
  std::promise<void> go_on;
  auto may_go_on = go_on.get_future().share();
  std::atomic<int> answered = 0;
  {
    bool is_first = true;
    HistoryThread thread(
        [&, may_go_on](const HistoryQuery&, const IsStopped&) {
          if (std::exchange(is_first, false)) begun.set_value();
          may_go_on.wait();
          return WebAnswer{};
        },
        2);
    const auto ask = [&] { return thread.ask(RunsQuery{}, [&](const WebAnswer&) { ++answered; }); };
    EXPECT_TRUE(ask());
    begun.get_future().wait();
    EXPECT_TRUE(ask());
    EXPECT_TRUE(ask());
    EXPECT_FALSE(ask());
    go_on.set_value();
  }
  // What it did not come to is dropped.
  EXPECT_GE(answered, 1);
}

TEST(HistoryThread, TellsALongQuestionToStop) {
  std::promise<void> begun;
  std::atomic<bool> was_told = false;
  {
    HistoryThread thread(
        [&](const HistoryQuery&, const IsStopped& is_stopped) {
          begun.set_value();
          while (!is_stopped())
            std::this_thread::yield();
          was_told = true;
          return WebAnswer{};
        },
        1);
    ASSERT_TRUE(thread.ask(RunsQuery{}, [](const WebAnswer&) {}));
    begun.get_future().wait();
  }
  EXPECT_TRUE(was_told);
}

TEST(HistoryThread, OutlivesAQuestionThatFails) {
  HistoryThread thread(
      [](const HistoryQuery& query, const IsStopped&) -> WebAnswer {
        if (std::holds_alternative<RunsQuery>(query)) throw std::runtime_error("no memory");
        return {.body = "fine", .headers = {}};
      },
      1);
  EXPECT_EQ(answer_of(thread, RunsQuery{}).status, 500U);
  EXPECT_EQ(answer_of(thread, RunQuery{"r"}).body, "fine");
}

TEST(HistoryAnswers, AHistoryThatIsNotThereIsEmpty) {
  const TemporaryFolder folder;
  const WebAnswer runs = answer_from_history(RunsQuery{}, folder / "history.db", never);
  EXPECT_EQ(runs.status, 200U);
  EXPECT_EQ(Json::parse(runs.body).at("runs"), Json::array());
  EXPECT_EQ(answer_from_history(RunQuery{"last"}, folder / "history.db", never).status, 404U);
  EXPECT_FALSE(std::filesystem::exists(folder / "history.db"));
}

TEST(HistoryAnswers, AFileThatIsNoHistoryIsAnError) {
  const TemporaryFolder folder;
  const auto file = folder.write("history.db", std::string(4096, 'x'));
  const WebAnswer runs = answer_from_history(RunsQuery{}, file, never);
  EXPECT_EQ(runs.status, 500U);
  EXPECT_EQ(Json::parse(runs.body).at("error").at("kind"), "corrupt");
}

TEST(HistoryAnswers, TellRunsComparisonsAndWhatIsMissing) {
  const TemporaryFolder folder;
  RunRecord record = sample_record();
  record.run.output_dir = (folder / "out").string();
  record.run.started_unix_ns = 1;  // long ago
  record.run.ended_unix_ns = 2;
  store(record, folder / "history.db");
  const auto ask = [&](const HistoryQuery& query) {
    return answer_from_history(query, folder / "history.db", never);
  };
  const Json run = Json::parse(ask(RunQuery{"last"}).body);
  EXPECT_TRUE(run.at("trials").at(0).contains("pair_ratios"));
  EXPECT_TRUE(Json::parse(ask(CompareQuery{"last", "last"}).body).contains("is_side_by_side"));
  EXPECT_EQ(ask(RunQuery{"r-1999"}).status, 404U);
  EXPECT_EQ(ask(ProfileQuery{"r-1999", "start"}).status, 404U);
  // No trace was recorded, or it is another run's.
  EXPECT_EQ(ask(ProfileQuery{"last", "start"}).status, 404U);
  folder.write("out/log/start.pt.trace.json.gz", "not of this time");
  const WebAnswer other = ask(ProfileQuery{"last", "start"});
  EXPECT_EQ(other.status, 404U);
  tests::expect_golden("daemon/web/golden/no_trace.txt",
                       tests::with_here(other.body, folder.path()) + "\n");
}

// Nothing that lies in the folder of the daemon is theirs.
TEST(HistoryAnswers, KnowNoTraceOfAScript) {
  const TemporaryFolder folder;
  RunRecord record = sample_record();
  record.run.output_dir.clear();
  store(record, folder / "history.db");
  const WebAnswer answer =
      answer_from_history(ProfileQuery{"last", "start"}, folder / "history.db", never);
  EXPECT_EQ(answer.status, 404U);
  tests::expect_golden("daemon/web/golden/no_trace_of_script.txt", answer.body + "\n");
}

}  // namespace
}  // namespace autotuned::daemon
