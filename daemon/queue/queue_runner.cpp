// SPDX-License-Identifier: Apache-2.0
#include "daemon/queue/queue_runner.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/process/resident_memory.hpp"
#include "base/utf8.hpp"
#include "daemon/common/bounded_log.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/orphans.hpp"
#include "daemon/queue/log.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// How long a killed process may take to be gone before its device is used again. The lock of the device guards it
// in any case.
constexpr std::chrono::seconds kOrphanLimit{2};
// Everything else waits meanwhile.
constexpr std::chrono::milliseconds kHistoryLimit{100};

// Descriptors, processes, memory or space that others use now: no fault of the run.
bool is_shortage(const Error& error) {
  return error.kind == ErrorKind::busy || error.kind == ErrorKind::io ||
         error.kind == ErrorKind::disk_full || error.kind == ErrorKind::out_of_memory;
}

// Records the cancelling of a run whose session ended before it could do so.
Result<void> record_cancelled(const Submission& submission, const std::string& run_id) {
  if (run_id.empty()) return {};
  auto history = storage::History::open_to_write(submission.session.history,
                                                 storage::Missing::refuse, kHistoryLimit);
  if (!history) return tl::unexpected(history.error());
  auto row = history->run(run_id);
  if (!row) return tl::unexpected(row.error());
  // The run has ended, or a command outside of the queue continues it: then it must stay as it is.
  if (!row->is_interrupted) return {};
  row->state = storage::RunState::cancelled;
  if (auto count = history->interrupt_running_trials(row->id); !count) {
    return tl::unexpected(count.error());
  }
  return history->update_run(*row);
}

}  // namespace

// Copies what the session prints to the log. Lives until the last writer has closed its end.
struct QueueRunner::Output : std::enable_shared_from_this<Output> {
  Output(asio::io_context& context, std::filesystem::path file)
      : pipe(context), log(std::move(file)) {}

  void read() {
    pipe.async_read_some(asio::buffer(chunk),
                         [self = shared_from_this()](const error_code& error, std::size_t count) {
                           self->log.append({self->chunk.data(), count});
                           if (!error) self->read();
                         });
  }

  asio::posix::stream_descriptor pipe;
  BoundedLog log;
  std::array<char, 4096> chunk{};
};

QueueRunner::QueueRunner(asio::io_context& context, JobStore store, const JobLimits& limits,
                         OnChange on_change)
    : context_(&context),
      store_(std::move(store)),
      limits_(limits),
      on_change_(std::move(on_change)),
      save_timer_(context),
      start_timer_(context) {}

Result<void> QueueRunner::recover() {
  auto loaded = store_.load();
  if (!loaded) return tl::unexpected(loaded.error());
  for (const Error& problem : loaded->problems)
    log_line(LogLevel::error, "job_unreadable", {{"error", problem.message()}});
  queue_.skip_ids(loaded->highest_id);
  std::set<std::string> tokens;
  for (const QueuedRun& job : loaded->jobs)
    tokens.insert(job.token);
  orphans_ended_ = static_cast<std::int64_t>(end_processes_of(tokens, kOrphanLimit));
  if (orphans_ended_ > 0) {
    log_line(LogLevel::warning, "orphans_ended", {{"processes", std::to_string(orphans_ended_)}});
  }
  for (QueuedRun& job : loaded->jobs) {
    const std::int64_t id = job.id;
    const bool was_running = job.state == JobState::running;
    const bool has_ended = job.has_ended();
    queue_.restore(std::move(job));
    if (has_ended) continue;
    QueuedRun& restored = *queue_.find(id);
    // Also one that waited: the daemon may have died between the acknowledgement and the end.
    if (restored.cancel_requested) {
      tell_history(restored);
      end(restored, JobState::cancelled, kCancelled, "");
      continue;
    }
    if (!was_running) continue;
    restored.state = JobState::queued;
    ++restored.restarts;
    note(id, {{"event", "warning"},
              {"text", "the daemon that ran this has ended; the next one goes on with it"}});
    log_line(LogLevel::info, "job_recovered",
             {{"job", std::to_string(id)}, {"run", restored.run_id}});
    save(restored);
  }
  return {};
}

void QueueRunner::tell_history(const QueuedRun& job) {
  if (job.run_id.empty()) return;
  const auto submission = store_.submission(job.id);
  const Result<void> recorded =
      submission ? record_cancelled(*submission, job.run_id) : tl::unexpected(submission.error());
  untold_.erase(job.id);
  if (recorded) return;
  if (recorded.error().kind == ErrorKind::busy) {
    untold_.insert(job.id);
    return save_later();
  }
  log_line(LogLevel::warning, "history_not_told",
           {{"job", std::to_string(job.id)}, {"error", recorded.error().message()}});
  note(job.id, {{"event", "warning"},
                {"text", "the history does not know that the run was cancelled: " +
                             recorded.error().message()}});
}

void QueueRunner::schedule() {
  if (is_stopping_) return;
  for (const std::int64_t id : queue_.startable())
    start(*queue_.find(id));
}

void QueueRunner::start(QueuedRun& job) {
  job.state = JobState::running;
  if (job.started_unix_ns == 0) job.started_unix_ns = clock_.unix_time_ns();
  save(job);
  const auto started = start_session(job);
  if (started) return;
  if (is_shortage(started.error())) return put_back(job, started.error());
  log_line(LogLevel::error, "job_not_started",
           {{"job", std::to_string(job.id)}, {"error", started.error().message()}});
  note(job.id, {{"event", "error"}, {"text", started.error().message()}});
  end(job, JobState::failed, 1, started.error().message());
  asio::post(*context_, [this] { schedule(); });
}

void QueueRunner::put_back(QueuedRun& job, const Error& shortage) {
  job.state = JobState::queued;
  save(job);
  const bool lets_past = queue_.lets_others_past(job);
  ++job.failed_starts;
  if (job.failed_starts == 1) {
    log_line(LogLevel::warning, "job_put_back",
             {{"job", std::to_string(job.id)}, {"error", shortage.message()}});
    note(job.id,
         {{"event", "warning"}, {"text", "the run cannot start and waits: " + shortage.message()}});
  } else if (!lets_past && queue_.lets_others_past(job)) {
    log_line(LogLevel::warning, "job_lets_others_past",
             {{"job", std::to_string(job.id)}, {"error", shortage.message()}});
    note(job.id, {{"event", "warning"},
                  {"text", "the run still cannot start: other runs for " + job.device +
                               " go first, and it is tried again after them; 'autotuned cancel " +
                               std::to_string(job.id) + "' removes it"}});
  }
  on_change_(job.id);
  start_timer_.expires_after(limits_.start_again);
  start_timer_.async_wait([this](const error_code& error) {
    if (!error) schedule();
  });
}

Result<void> QueueRunner::start_session(QueuedRun& job) {
  auto submission = store_.submission(job.id);
  if (!submission) return tl::unexpected(submission.error());
  auto log = EventLog::open(store_.events(job.id));
  if (!log) return tl::unexpected(log.error());
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return tl::unexpected(system_error(errno, "cannot make a pipe"));
  }
  Descriptor writing(ends[1]);
  Descriptor reading(ends[0]);
  auto output = std::make_shared<Output>(*context_, store_.output(job.id));
  error_code failed;
  output->pipe.assign(reading.get(), failed);
  if (failed) return tl::unexpected(system_error(failed.value(), "cannot watch a pipe"));
  static_cast<void>(reading.release());
  output->read();

  SessionRequest request = std::move(submission->session);
  if (!job.run_id.empty()) request.continue_run = job.run_id;
  SpawnOptions spawn_options;
  spawn_options.output = writing.get();
  spawn_options.folder = submission->folder;
  spawn_options.environment =
      std::vector<std::string>{std::string(kMarkVariable) + "=" + job.token};
  for (const std::string& variable : environment_of({"AUTOTUNED_LOCKS"}))
    spawn_options.environment->push_back(variable);
  for (std::string& variable : submission->environment)
    spawn_options.environment->push_back(std::move(variable));
  const std::int64_t id = job.id;
  Running running{nullptr, *std::move(log), std::move(output), std::move(writing)};
  running.session = std::make_shared<SupervisedSession>(
      *context_, std::move(request), limits_.supervisor, std::move(spawn_options),
      [this, id](const Json& event) { take_event(id, event); },
      [this, id](const Result<int>& outcome) { take_end(id, outcome); });
  running.session->start();
  sessions_.insert_or_assign(id, std::move(running));
  ++sessions_started_;
  log_line(LogLevel::info, "job_started",
           {{"job", std::to_string(id)}, {"recipe", job.recipe_name}, {"device", job.device}});
  return {};
}

void QueueRunner::take_event(std::int64_t id, const Json& event) {
  QueuedRun& job = *queue_.find(id);
  Running& running = sessions_.at(id);
  job.failed_starts = 0;
  const std::string name = get_string(event, "event").value_or("");
  if (name == "run") {
    job.run_id = get_string(event, "run").value_or("");
    save(job);
  } else if (name == "trial_finished") {
    const Json& trial = member(event, "trial");
    const std::string verdict = get_string(trial, "verdict").value_or("?").substr(0, 32);
    ++job.trials[verdict];
    ++trials_[verdict];
    if (const auto failure = get_string(trial, "failure"); failure && verdict == "failed") {
      ++trial_failures_[failure->substr(0, 32)];
    }
    const std::string outcome = std::exchange(running.trial_outcome, {});
    ++trial_outcomes_[outcome.empty() ? "ok" : outcome];
    save(job);
  } else if (name == "trial_started") {
    running.trial_outcome.clear();  // of one that a session did not come to the end of
  } else if (name == "trainer_ended") {
    const std::string outcome = get_string(event, "outcome").value_or("?").substr(0, 32);
    ++trainer_ends_[outcome];
    if (get_integer(event, "trial").value_or(0) > 0) running.trial_outcome = outcome;
  } else if (name == "error") {
    job.error = get_string(event, "text").value_or("").substr(0, 4096);
  }
  if (running.log.append(event, clock_.now())) on_change_(id);
}

void QueueRunner::take_end(std::int64_t id, const Result<int>& outcome) {
  QueuedRun& job = *queue_.find(id);
  const auto running = sessions_.extract(id);
  job.restarts += running.mapped().session->restarts();
  sessions_restarted_ += running.mapped().session->restarts();
  // Nothing of it may be left when its device is used again.
  orphans_ended_ +=
      static_cast<std::int64_t>(end_processes_of({job.token}, std::chrono::nanoseconds(0)));
  if (!outcome && is_shortage(outcome.error()) && !job.cancel_requested) {
    return put_back(job, outcome.error());
  }
  if (!outcome) note(id, {{"event", "error"}, {"text", outcome.error().message()}});
  const int code = outcome.value_or(1);
  if (code == kCancelled && is_stopping_ && !job.cancel_requested) {
    save(job);  // stays running: the next daemon goes on with it
    on_change_(id);
  } else if (code == kCancelled) {
    tell_history(job);
    end(job, JobState::cancelled, code, "");
  } else {
    end(job, code == 0 ? JobState::finished : JobState::failed, code,
        outcome ? job.error : outcome.error().message());
  }
  asio::post(*context_, [this] { schedule(); });
}

void QueueRunner::end(QueuedRun& job, JobState state, int exit_code, const std::string& error) {
  job.state = state;
  job.exit_code = exit_code;
  job.error = state == JobState::failed ? error : "";
  job.ended_unix_ns = clock_.unix_time_ns();
  ++runs_[std::string(to_string(state))];
  log_line(state == JobState::failed ? LogLevel::warning : LogLevel::info, "job_ended",
           {{"job", std::to_string(job.id)},
            {"run", job.run_id},
            {"state", std::string(to_string(state))},
            {"exit_code", std::to_string(exit_code)},
            {"error", job.error}});
  if (!save(job)) {
    note(job.id,
         {{"event", "warning"},
          {"text", "the end of the run cannot be stored yet; it is reported when it is stored"}});
  }
  on_change_(job.id);
  forget_old();
}

void QueueRunner::forget_old() {
  for (const std::int64_t old : queue_.forget_old(unsaved_)) {
    store_.forget(old);
    untold_.erase(old);
  }
}

Result<std::int64_t> QueueRunner::submit(const Submission& submission) {
  QueuedRun job;
  job.token = submission.token;
  job.device = submission.device;
  job.recipe_name = submission.session.recipe.name;
  job.recipe_file = submission.session.recipe.file.string();
  job.folder = submission.folder;
  job.submitted_unix_ns = clock_.unix_time_ns();
  const std::size_t before = queue_.jobs().size();
  auto queued = queue_.submit(std::move(job));
  if (!queued) return tl::unexpected(queued.error());
  if (queue_.jobs().size() == before) return queued->id;

  // Removes what is left of a submission with this number that could not be stored.
  store_.forget(queued->id);
  auto stored = store_.put(submission, queued->id);
  // Watchers may come before there is an event.
  if (stored) {
    if (auto log = EventLog::open(store_.events(queued->id)); !log) {
      stored = tl::unexpected(log.error());
    }
  }
  if (stored) stored = store_.put(*queued);
  if (!stored) {
    queue_.withdraw(queued->id);
    store_.forget(queued->id);
    return tl::unexpected(stored.error());
  }
  ++runs_["submitted"];
  log_line(LogLevel::info, "job_submitted",
           {{"job", std::to_string(queued->id)}, {"recipe", queued->recipe_file}});
  for (const auto& [id, other] : queue_.jobs()) {
    if (id < queued->id && other.device == queued->device && !other.has_ended()) {
      note(queued->id,
           {{"event", "waiting"},
            {"for", "run " + std::to_string(id) + " of the queue has the device " + other.device}});
      break;
    }
  }
  asio::post(*context_, [this] { schedule(); });
  return queued->id;
}

Result<std::int64_t> QueueRunner::cancel(const std::string& name) {
  const QueuedRun* found = queue_.find(std::string_view(name));
  if (found == nullptr || found->has_ended()) {
    return fail(found == nullptr ? ErrorKind::not_found : ErrorKind::invalid,
                found == nullptr ? "there is no such run in the queue"
                                 : "the run has ended: " + std::string(to_string(found->state)),
                short_for_message(name), "'autotuned status' lists them");
  }
  const std::int64_t id = found->id;
  QueuedRun& job = *queue_.find(id);
  if (!job.cancel_requested) {
    // Acknowledged means that no daemon after this one goes on with it.
    QueuedRun changed = job;
    changed.cancel_requested = true;
    if (auto stored = store_.put(changed); !stored) return tl::unexpected(stored.error());
    job.cancel_requested = true;
  }
  const auto running = sessions_.find(job.id);
  if (running != sessions_.end()) {
    running->second.session->cancel(limits_.supervisor.cancel_grace);
  } else {
    // The job may have run under an earlier daemon.
    tell_history(job);
    end(job, JobState::cancelled, kCancelled, "");  // may have forgotten it
  }
  return id;
}

void QueueRunner::stop(std::chrono::nanoseconds grace) {
  is_stopping_ = true;
  save_unsaved();
  for (auto& [id, running] : sessions_) {
    note(id,
         {{"event", "warning"}, {"text", "the daemon stops; the next one goes on with this run"}});
    running.session->cancel(grace);
  }
}

void QueueRunner::leave_sessions() {
  for (auto& [id, running] : sessions_) {
    if (!running.session->leave()) continue;
    log_line(LogLevel::warning, "session_left", {{"job", std::to_string(id)}});
  }
}

std::optional<Json> QueueRunner::end_of(const QueuedRun& job) const {
  if (!job.has_ended() || !is_saved(job.id)) return std::nullopt;
  return Json{{"state", to_string(job.state)},
              {"exit_code", job.exit_code},
              {"run", job.run_id},
              {"error", job.error}};
}

void QueueRunner::note(std::int64_t id, const Json& event) {
  const auto running = sessions_.find(id);
  if (running != sessions_.end()) {
    static_cast<void>(running->second.log.append(event, clock_.now()));
  } else if (auto log = EventLog::open(store_.events(id))) {
    static_cast<void>(log->append(event, clock_.now()));
  }
  on_change_(id);
}

bool QueueRunner::save(const QueuedRun& job) {
  const auto stored = store_.put(job);
  if (stored) {
    unsaved_.erase(job.id);
    return true;
  }
  if (unsaved_.insert(job.id).second) {
    log_line(LogLevel::error, "job_not_saved",
             {{"job", std::to_string(job.id)}, {"error", stored.error().message()}});
  }
  save_later();
  return false;
}

void QueueRunner::save_unsaved() {
  const std::set<std::int64_t> again = unsaved_;
  for (const std::int64_t id : again) {
    const QueuedRun* job = queue_.find(id);
    if (job != nullptr && save(*job)) on_change_(id);
  }
  forget_old();
}

void QueueRunner::save_later() {
  // A save that is due is not postponed: the events of a busy run would do so for ever.
  if (std::exchange(is_save_due_, true)) return;
  save_timer_.expires_after(limits_.save_again);
  save_timer_.async_wait([this](const error_code& error) {
    if (error) return;
    is_save_due_ = false;
    save_unsaved();
    const std::set<std::int64_t> told_again = untold_;
    for (const std::int64_t id : told_again) {
      if (const QueuedRun* job = queue_.find(id)) tell_history(*job);
    }
  });
}

Json QueueRunner::counters() const {
  return {{"started_unix_ns", started_unix_ns_},
          {"runs", runs_},
          {"trials", trials_},
          {"trial_failures", trial_failures_},
          {"trial_outcomes", trial_outcomes_},
          {"trainer_ends", trainer_ends_},
          {"sessions", {{"started", sessions_started_}, {"restarted", sessions_restarted_}}},
          {"orphans_ended", orphans_ended_},
          {"not_saved", unsaved_.size()}};
}

Json QueueRunner::memory() const {
  Json memory = {{"daemon_bytes", resident_bytes(::getpid())}, {"runs", Json::object()}};
  for (const auto& [id, running] : sessions_) {
    std::int64_t bytes = 0;
    for (const pid_t process : processes_of({queue_.find(id)->token}))
      bytes += resident_bytes(process);
    memory["runs"][std::to_string(id)] = bytes;
  }
  return memory;
}

}  // namespace autotuned::daemon
