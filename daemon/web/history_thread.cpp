// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/history_thread.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <string>
#include <utility>
#include <variant>

#include "daemon/web/page_data.hpp"
#include "daemon/web/trace_page.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

namespace {

// Somebody waits at a browser, and the daemon promises to end within five seconds.
constexpr std::chrono::milliseconds kLockLimit{500};
constexpr int kNiceness = 10;

WebAnswer json_or_error(const Result<Json>& value) {
  return value ? json_answer(*value) : error_web_answer(value.error());
}

class Answering {
 public:
  Answering(const storage::History& history, const IsStopped& is_stopped)
      : history_(history), is_stopped_(is_stopped) {}

  WebAnswer operator()(const RunsQuery& /*query*/) const {
    return json_or_error(runs_page_json(history_));
  }
  WebAnswer operator()(const RunQuery& query) const {
    return json_or_error(run_page_json(history_, query.run));
  }
  WebAnswer operator()(const CompareQuery& query) const {
    return json_or_error(comparison_page_json(history_, query.a, query.b));
  }
  WebAnswer operator()(const ProfileQuery& query) const {
    const auto run = history_.run(query.run);
    if (!run) return error_web_answer(run.error());
    return trace_page(*run, query.which, is_stopped_);
  }

 private:
  const storage::History& history_;
  const IsStopped& is_stopped_;
};

}  // namespace

WebAnswer answer_from_history(const HistoryQuery& query, const std::filesystem::path& history,
                              const IsStopped& is_stopped) {
  const auto opened =
      storage::History::open(history.empty() ? storage::History::default_path() : history,
                             storage::Access::read_only, kLockLimit);
  if (opened) return std::visit(Answering(*opened, is_stopped), query);
  // A daemon that has run nothing yet has no history.
  if (opened.error().kind == ErrorKind::not_found && std::holds_alternative<RunsQuery>(query)) {
    return json_answer(
        {{"runs", Json::array()}, {"has_more", false}, {"machines", Json::object()}});
  }
  return error_web_answer(opened.error());
}

HistoryThread::HistoryThread(Answer answer, std::size_t most_waiting)
    : answer_(std::move(answer)), most_waiting_(most_waiting), thread_([this] { work(); }) {}

HistoryThread::~HistoryThread() {
  {
    const std::scoped_lock lock(mutex_);
    is_stopped_ = true;
    questions_.clear();
  }
  is_asked_.notify_one();
  thread_.join();
}

bool HistoryThread::ask(HistoryQuery query, OnAnswer on_answer) {
  {
    const std::scoped_lock lock(mutex_);
    if (questions_.size() >= most_waiting_) return false;
    questions_.push_back({std::move(query), std::move(on_answer)});
  }
  is_asked_.notify_one();
  return true;
}

void HistoryThread::work() {
  // On Linux, this sets the priority of the thread alone.
  static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNiceness));
  for (;;) {
    Question question;
    {
      std::unique_lock lock(mutex_);
      is_asked_.wait(lock, [this] { return is_stopped_ || !questions_.empty(); });
      if (is_stopped_) return;
      question = std::move(questions_.front());
      questions_.pop_front();
    }
    WebAnswer answer;
    try {
      answer = answer_(question.query, [this] { return is_stopped_.load(); });
    } catch (const std::exception& error) {
      // A history may be large and memory short: that ends the question, not the daemon.
      answer = error_web_answer({ErrorKind::internal,
                                 std::string("it could not be read: ") + error.what(),
                                 "the history", ""});
    }
    question.on_answer(std::move(answer));
  }
}

}  // namespace autotuned::daemon
