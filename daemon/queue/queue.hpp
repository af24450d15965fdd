// SPDX-License-Identifier: Apache-2.0
// The queue of a daemon as values: waiting, running and ended jobs. No I/O, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"

namespace autotuned::daemon {

enum class JobState { queued, running, finished, failed, cancelled };
[[nodiscard]] std::string_view to_string(JobState state);
[[nodiscard]] std::optional<JobState> job_state_from(std::string_view name);

// A run in the queue.
struct QueuedRun {
  std::int64_t id = 0;  // from 1, in the order of submission
  std::string token;    // of the submission: the same token is the same job
  JobState state = JobState::queued;
  std::string device;  // jobs of one device take turns
  std::string recipe_name;
  std::string recipe_file;
  std::string folder;             // in which it was submitted
  bool cancel_requested = false;  // by a client, which was told so; kept on disk
  std::string run_id;             // in the history; empty until there is one
  int exit_code = 0;              // of the command; when it has ended
  std::string error;              // why it failed
  int restarts = 0;               // sessions started again, by this daemon or the one before
  int failed_starts = 0;          // in a row; not kept on disk
  std::map<std::string, std::int64_t> trials;  // finished ones by verdict
  std::int64_t submitted_unix_ns = 0;
  std::int64_t started_unix_ns = 0;
  std::int64_t ended_unix_ns = 0;

  [[nodiscard]] bool has_ended() const {
    return state != JobState::queued && state != JobState::running;
  }
  [[nodiscard]] Json to_json() const;
  [[nodiscard]] static Result<QueuedRun> from_json(const Json& value);
};

// The jobs of the queue as a client gets them.
struct ToldJobs {
  Json jobs =
      Json::array();  // by number; long texts are cut, and fields that no client needs are left out
  std::size_t left_out = 0;  // jobs that did not fit
};

struct QueueLimits {
  std::size_t waiting = 1000;  // more submissions are refused
  std::size_t ended = 200;     // older ones are forgotten
  int starts_in_turn =
      12;  // after so many failed starts in a row, other jobs of its device go first
};

class Queue {
 public:
  explicit Queue(QueueLimits limits = {}) : limits_(limits) {}

  // Adds a job that an earlier daemon had.
  void restore(QueuedRun job);
  // Tells that ids up to `highest` were given before.
  void skip_ids(std::int64_t highest) { highest_before_ = highest; }

  // The job with its id. If the token is known, returns its job and adds none.
  // ErrorKind::busy when too many wait.
  [[nodiscard]] Result<QueuedRun> submit(QueuedRun job);
  // Takes back the newest job, which could not be stored.
  void withdraw(std::int64_t id);

  [[nodiscard]] const QueuedRun* find(std::int64_t id) const;
  [[nodiscard]] QueuedRun* find(std::int64_t id);
  // `text` is a number, a run of the history, or "last".
  [[nodiscard]] const QueuedRun* find(std::string_view text) const;

  // For each free device the run that has waited longest. Runs with too many failed starts come after all others.
  [[nodiscard]] std::vector<std::int64_t> startable() const;
  // Whether the job failed to start so often that other jobs go first.
  [[nodiscard]] bool lets_others_past(const QueuedRun& job) const {
    return job.failed_starts >= limits_.starts_in_turn;
  }
  // Removes the ended jobs beyond the limit and returns their ids, the one that ended first first. Keeps the newest
  // job, so that no id is given twice, and the jobs in `kept`.
  [[nodiscard]] std::vector<std::int64_t> forget_old(const std::set<std::int64_t>& kept = {});

  // As many runs as fit into about `max_bytes` of JSON: first the running ones, then the waiting ones, oldest first, then
  // the ended ones, newest first.
  [[nodiscard]] ToldJobs tell(std::size_t max_bytes) const;

  [[nodiscard]] std::size_t count(JobState state) const;
  [[nodiscard]] const std::map<std::int64_t, QueuedRun>& jobs() const { return jobs_; }

 private:
  QueueLimits limits_;
  std::int64_t highest_before_ = 0;
  std::map<std::int64_t, QueuedRun> jobs_;
};

}  // namespace autotuned::daemon
