// SPDX-License-Identifier: Apache-2.0
// The running queue of a daemon: ties the queue, its files and the sessions together.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/clock.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "daemon/queue/events.hpp"
#include "daemon/queue/limits.hpp"
#include "daemon/queue/protocol.hpp"
#include "daemon/queue/queue.hpp"
#include "daemon/queue/store.hpp"
#include "daemon/supervisor/supervised_session.hpp"

namespace autotuned::daemon {

// One thread. Everything that it acknowledges is on disk: clients are told the end of a job after it is stored.
class QueueRunner {
 public:
  // Called when a job has new events, or when its end can be reported.
  using OnChange = std::function<void(std::int64_t job)>;

  QueueRunner(boost::asio::io_context& context, JobStore store, const JobLimits& limits,
              OnChange on_change);

  // Takes over from an earlier daemon: ends the processes that it left, and puts its running jobs back to their place
  // in the queue.
  Result<void> recover();
  // Starts every job that can start. The other functions call it when that may have changed.
  void schedule();

  // Returns the number of the job. A submission that was acknowledged before gives the same number.
  Result<std::int64_t> submit(const Submission& submission);
  // Removes a waiting job. Asks a running job to stop; the second time ends it at once.
  Result<std::int64_t> cancel(const std::string& name);
  // No job starts any more; sessions stop, within `grace` or by force. Their jobs stay in the queue.
  void stop(std::chrono::nanoseconds grace);
  // Kills the sessions that still run, without waiting for them.
  void leave_sessions();
  [[nodiscard]] bool has_sessions() const { return !sessions_.empty(); }

  [[nodiscard]] const Queue& queue() const { return queue_; }
  [[nodiscard]] Result<EventReader> events(std::int64_t id) const {
    return EventReader::open(store_.events(id));
  }
  // How the job ended; nothing until that is on disk.
  [[nodiscard]] std::optional<Json> end_of(const QueuedRun& job) const;
  // Whether its state is on disk.
  [[nodiscard]] bool is_saved(std::int64_t id) const { return !unsaved_.contains(id); }
  // Counters since the start of this daemon, and the memory of what runs.
  [[nodiscard]] Json counters() const;
  [[nodiscard]] Json memory() const;

 private:
  struct Output;
  struct Running {
    std::shared_ptr<SupervisedSession> session;
    EventLog log;
    std::shared_ptr<Output> output;
    Descriptor output_end;  // which sessions inherit
    std::string
        trial_outcome;  // of the trainer in the trial that is going on; empty: nothing was said
  };

  void start(QueuedRun& job);
  Result<void> start_session(QueuedRun& job);
  void take_event(std::int64_t id, const Json& event);
  void take_end(std::int64_t id, const Result<int>& outcome);
  void end(QueuedRun& job, JobState state, int exit_code, const std::string& error);
  // Puts a job that could not start for lack of a resource back, to be tried again later.
  void put_back(QueuedRun& job, const Error& shortage);
  // Records the cancel in the history; tries again later while another process writes to it.
  void tell_history(const QueuedRun& cancelled);
  void note(std::int64_t id, const Json& event);
  // Stores the job. If the disk is full, returns false and tries again later.
  bool save(const QueuedRun& job);
  void save_unsaved();
  void save_later();
  void forget_old();

  boost::asio::io_context* context_;
  JobStore store_;
  JobLimits limits_;
  OnChange on_change_;
  SystemClock clock_;
  Queue queue_;
  std::map<std::int64_t, Running> sessions_;
  std::set<std::int64_t> unsaved_;
  std::set<std::int64_t> untold_;  // cancelled jobs that the history does not know of yet
  boost::asio::steady_timer save_timer_;
  bool is_save_due_ = false;
  boost::asio::steady_timer start_timer_;
  bool is_stopping_ = false;
  std::map<std::string, std::int64_t> runs_;            // by what became of them
  std::map<std::string, std::int64_t> trials_;          // by verdict
  std::map<std::string, std::int64_t> trial_failures_;  // by what they failed of
  std::map<std::string, std::int64_t> trial_outcomes_;  // by how their trainer ended
  std::map<std::string, std::int64_t> trainer_ends_;    // by outcome, in a trial or not
  std::int64_t started_unix_ns_ = clock_.unix_time_ns();
  std::int64_t sessions_started_ = 0;
  std::int64_t sessions_restarted_ = 0;
  std::int64_t orphans_ended_ = 0;
};

}  // namespace autotuned::daemon
