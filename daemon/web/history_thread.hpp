// SPDX-License-Identifier: Apache-2.0
// The thread on which the history and traces are read for the page: the daemon's own never waits for a disk.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

#include "daemon/web/routes.hpp"
#include "daemon/web/web_message.hpp"

namespace autotuned::daemon {

// Returns true to end long work; asked between two steps of it.
using IsStopped = std::function<bool()>;

// Opens `history` (empty: the default place) for this question alone. Any thread.
[[nodiscard]] WebAnswer answer_from_history(const HistoryQuery& query,
                                            const std::filesystem::path& history,
                                            const IsStopped& is_stopped);

// Answers one question after the other, at a low priority: runs may be measuring.
class HistoryThread {
 public:
  using Answer = std::function<WebAnswer(const HistoryQuery&, const IsStopped&)>;
  using OnAnswer = std::function<void(WebAnswer)>;

  // Refuses questions while `most_waiting` are waiting.
  HistoryThread(Answer answer, std::size_t most_waiting);
  // Waits for the question that is being answered; the others are dropped.
  ~HistoryThread();
  HistoryThread(const HistoryThread&) = delete;
  HistoryThread& operator=(const HistoryThread&) = delete;

  // Adds a question. `on_answer` is called on the thread. Returns false, and never calls it, if too many questions
  // wait.
  [[nodiscard]] bool ask(HistoryQuery query, OnAnswer on_answer);

 private:
  struct Question {
    HistoryQuery query;
    OnAnswer on_answer;
  };
  void work();

  Answer answer_;
  std::size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable is_asked_;
  std::deque<Question> questions_;
  std::atomic<bool> is_stopped_ = false;
  std::thread thread_;  // the last: it uses the others
};

}  // namespace autotuned::daemon
