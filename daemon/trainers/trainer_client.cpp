// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/trainer_client.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <string_view>
#include <thread>
#include <utility>

#include "base/error_json.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

namespace autotuned::daemon {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

constexpr int kProtocol = 1;
constexpr int kSocketInTrainer = 3;
constexpr int kLocksInTrainer = 4;  // and above
// `train` writes a checkpoint before it answers.
constexpr nanoseconds kCancelGrace = std::chrono::seconds(30);
// How long a process may take to stop after SIGSTOP. On an idle machine it takes less than a millisecond.
constexpr nanoseconds kStopLimit = std::chrono::seconds(2);
constexpr nanoseconds kStopPause = std::chrono::microseconds(100);
constexpr nanoseconds kStopGrace = std::chrono::seconds(2);
// Between two looks at a trainer that is waited for: at its memory, and whether it is stopped.
constexpr nanoseconds kBetweenLooks = std::chrono::milliseconds(250);
// What an error says of a SIGKILL while the kernel's own count of such kills grew.
constexpr const char* kKilledForMemory = "sent by the kernel's out-of-memory killer";

enum class Woken { trainer, cancel, timeout };

// Waits until the trainer has sent something (POLLIN), can take more (POLLOUT) or has ended (its socket closes), a
// cancel arrives, or the deadline passes.
Woken wait_for(int trainer, short events, int cancel, Clock::time_point deadline) {
  for (;;) {
    std::array<pollfd, 2> polled{{{trainer, events, 0}, {cancel, POLLIN, 0}}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return Woken::timeout;
    const int wait_ms = static_cast<int>(std::min<std::int64_t>(left, 60'000));
    const int ready = poll(polled.data(), cancel >= 0 ? 2 : 1, wait_ms);
    if (ready < 0 && errno != EINTR) return Woken::trainer;  // receive() reports what is wrong
    if (ready <= 0) continue;
    if (polled[0].revents != 0) return Woken::trainer;
    if (polled[1].revents != 0) return Woken::cancel;
  }
}

// Whether the log is a file to be replaced. Otherwise it is a device, which is written to directly. A link counts as a
// file: it is replaced, never followed.
bool is_file_or_new(const std::filesystem::path& log) {
  if (log.empty()) return false;
  std::error_code ignored;
  const auto status = std::filesystem::symlink_status(log, ignored);
  return !std::filesystem::exists(status) || std::filesystem::is_regular_file(status) ||
         std::filesystem::is_symlink(status);
}

// If the machine runs out of memory, the kernel should end a trainer: that costs a trial, while the end of the session
// or the daemon would cost more. If this cannot be set, the kernel decides alone.
void offer_to_the_kernel(pid_t trainer) {
  std::ofstream("/proc/" + std::to_string(trainer) + "/oom_score_adj") << 1000;
}

// The exit status of the trainer decides, if it ended by itself; else the reason why it was ended.
TrainerOutcome outcome_of(ErrorKind kind, const std::optional<ProcessExit>& exit) {
  switch (kind) {
    case ErrorKind::out_of_memory:
      return TrainerOutcome::out_of_host_memory;
    case ErrorKind::timeout:
      return TrainerOutcome::hung;
    case ErrorKind::cancelled:
      return TrainerOutcome::cancelled;
    case ErrorKind::crashed:
      if (!exit || exit->signal == SIGKILL) return TrainerOutcome::lost;
      return exit->signal != 0 ? TrainerOutcome::crashed : TrainerOutcome::exited;
    default:
      return TrainerOutcome::lost;
  }
}

}  // namespace

TrainerClient::TrainerClient(TrainerOutput output, Process process, FrameChannel channel,
                             CancelSource& cancel, const TrainerSpec& spec)
    : output_(std::move(output)),
      process_(std::move(process)),
      memory_(process_.pid()),
      stopped_(process_.pid()),
      stopped_limit_(spec.stopped_limit),
      channel_(std::move(channel)),
      cancel_(&cancel),
      log_(spec.log),
      on_end_(spec.on_end),
      oom_kills_(spec.system_root),
      oom_kills_before_(oom_kills_.count()) {}

Result<TrainerClient> TrainerClient::start(const TrainerSpec& spec, CancelSource& cancel) {
  auto sockets = socket_pair();
  if (!sockets) return tl::unexpected(sockets.error());
  ProcessSpec process_spec;
  process_spec.program = spec.program;
  process_spec.arguments = spec.arguments;
  process_spec.environment = spec.environment;
  process_spec.descriptors = {{sockets->theirs.get(), kSocketInTrainer}};
  int next = kLocksInTrainer;
  for (const int lock : spec.inherited_locks)
    process_spec.descriptors.emplace_back(lock, next++);
  TrainerOutput output;
  if (is_file_or_new(spec.log)) {
    auto started = TrainerOutput::start(spec.log);
    if (!started) return tl::unexpected(started.error());
    output = *std::move(started);
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO})
      process_spec.descriptors.emplace_back(output.writing_end(), stream);
  } else {
    process_spec.log = spec.log;
  }
  auto process = Process::start(process_spec);
  if (!process) return tl::unexpected(process.error());
  offer_to_the_kernel(process->pid());
  sockets->theirs.reset();
  output.close_writing_end();

  TrainerClient client(std::move(output), std::move(*process),
                       FrameChannel(std::move(sockets->ours)), cancel, spec);
  const auto deadline = Clock::now() + spec.hello_limit;
  auto frame = client.receive_before(deadline, /*is_cancellable=*/true);
  if (!frame) {
    switch (frame.error().kind) {
      case ErrorKind::timeout:
        return client.end(ErrorKind::timeout, "the trainer did not say hello within " +
                                                  format_duration(spec.hello_limit));
      case ErrorKind::cancelled:
        client.end(ErrorKind::cancelled, "");
        return fail(ErrorKind::cancelled, "stopped while the trainer was starting");
      case ErrorKind::invalid:
        return client.end(ErrorKind::unsupported, "the program that should be a trainer said " +
                                                      frame.error().what + " instead of hello");
      default:
        return client.end(ErrorKind::crashed, client.ended_text("before it said hello"));
    }
  }
  client.hello_ = member(*frame, "hello");
  const auto protocol = get_integer(client.hello_, "protocol");
  if (!protocol || *protocol != kProtocol) {
    const std::string theirs = protocol ? std::to_string(*protocol) : "none";
    client.end(ErrorKind::unsupported, "");
    return fail(ErrorKind::unsupported,
                "the trainer speaks protocol " + theirs + ", this program speaks protocol " +
                    std::to_string(kProtocol),
                spec.program.string(), "use the trainer that was built with this program");
  }
  return client;
}

Result<Json> TrainerClient::request(const std::string& name, Json fields, nanoseconds limit,
                                    const std::function<void(const Json&)>& on_progress,
                                    const std::function<bool(const Json&)>& is_advance) {
  if (!is_alive_) return fail(ErrorKind::crashed, "the trainer has ended", log_.string());
  if (cancel_->is_requested() && name != "stop") {
    return fail(ErrorKind::cancelled, "stopped before the request '" + name + "'");
  }
  request_ = name;
  oom_kills_before_ = oom_kills_.count();
  resident_bytes_ = 0;
  const std::int64_t id = next_id_++;
  fields["id"] = id;
  fields["request"] = name;
  resume();
  if (auto sent = send(fields, Clock::now() + limit, /*is_cancellable=*/true); !sent) {
    switch (sent.error().kind) {
      case ErrorKind::cancelled:
        end(ErrorKind::cancelled, "");
        return fail(ErrorKind::cancelled, "stopped; the trainer had to be ended");
      case ErrorKind::timeout:
        return end(ErrorKind::timeout, "the trainer did not read the request '" + name +
                                           "' within " + format_duration(limit));
      case ErrorKind::invalid:  // too long: nothing was sent
        return tl::unexpected(sent.error());
      default:
        return end(ErrorKind::crashed, "the trainer ended before the request '" + name + "'");
    }
  }
  return wait_for_answer(id, name, limit, on_progress, is_advance);
}

// Receives the next whole frame, whose parts may arrive one by one. ErrorKind::cancelled: a cancel arrived meanwhile.
Result<Json> TrainerClient::receive_before(Clock::time_point deadline, bool is_cancellable) {
  for (;;) {
    // Looked at before each frame: there may always be a further one.
    if (is_cancellable && cancel_->is_requested()) return fail(ErrorKind::cancelled, "stopped");
    auto frame = channel_.receive(nanoseconds{0});
    if (frame || frame.error().kind != ErrorKind::timeout) return frame;
    const std::int64_t held = memory_limit_bytes_ > 0 ? held_bytes(memory_limit_bytes_) : 0;
    if (held > 0) resident_bytes_ = held;
    if (held > memory_limit_bytes_) {
      return fail(ErrorKind::out_of_memory, format_bytes(held));
    }
    const bool is_watched = stopped_limit_ > nanoseconds{0};
    if (is_watched) stopped_.look(Clock::now());
    if (is_stopped_too_long()) {
      process_.signal_group(SIGKILL);
      return fail(ErrorKind::crashed, "stopped for too long");
    }
    const int cancel = is_cancellable ? cancel_->descriptor() : -1;
    const bool needs_looks = memory_limit_bytes_ > 0 || is_watched;
    const auto look = needs_looks ? std::min(deadline, Clock::now() + kBetweenLooks) : deadline;
    const Woken woken = wait_for(channel_.descriptor(), POLLIN, cancel, look);
    if (woken == Woken::timeout && look < deadline) continue;
    if (woken == Woken::timeout) return fail(ErrorKind::timeout, "no answer");
  }
}

Result<Json> TrainerClient::wait_for_answer(std::int64_t id, const std::string& name,
                                            nanoseconds limit,
                                            const std::function<void(const Json&)>& on_progress,
                                            const std::function<bool(const Json&)>& is_advance) {
  auto deadline = Clock::now() + limit;
  bool is_cancelled = false;
  bool is_late = false;  // although it reports progress
  for (;;) {
    auto frame = is_late ? Result<Json>(fail(ErrorKind::timeout, "no answer"))
                         : receive_before(deadline, !is_cancelled);
    if (!frame && frame.error().kind == ErrorKind::cancelled) {
      is_cancelled = true;
      deadline = Clock::now() + kCancelGrace;
      if (send(Json{{"request", "cancel"}}, deadline, /*is_cancellable=*/false)) continue;
      frame = fail(ErrorKind::crashed, "gone");
    }
    if (!frame && is_cancelled) {
      end(ErrorKind::cancelled, "");
      return fail(ErrorKind::cancelled, "stopped; the trainer had to be ended");
    }
    if (!frame) return end_without_answer(frame.error(), name, limit);
    if (get_integer(*frame, "id").value_or(-1) != id) {
      return end(ErrorKind::internal, "the trainer answered a question that was not asked");
    }
    if (const Json& progress = member(*frame, "progress"); !progress.is_null()) {
      if (on_progress) on_progress(progress);
      if (!is_cancelled && is_advance && is_advance(progress)) deadline = Clock::now() + limit;
      is_late = Clock::now() >= deadline;
      continue;
    }
    if (const Json& ok = member(*frame, "ok"); ok.is_object()) return ok;
    const Json& error = member(*frame, "error");
    // After a cancel, every error counts as the cancel, except a damaged file, which stays damaged.
    if (is_cancelled) {
      if (on_progress && get_string(error, "kind").value_or("") == to_string(ErrorKind::corrupt)) {
        on_progress({{"warning", error_from_json(error).message()}});
      }
      return fail(ErrorKind::cancelled, "stopped during '" + name + "'");
    }
    return take_error(error, name);
  }
}

// No frame came, or none that can be read: the trainer is of no use any more.
tl::unexpected<Error> TrainerClient::end_without_answer(const Error& error, const std::string& name,
                                                        nanoseconds limit) {
  switch (error.kind) {
    case ErrorKind::out_of_memory: {
      const std::string who =
          memory_.processes() > 1 ? "the trainer and what it started" : "the trainer";
      return end(error.kind, who + " held " + error.what + " of memory during '" + name +
                                 "', and " + format_bytes(memory_limit_bytes_) +
                                 " were left for it");
    }
    case ErrorKind::timeout:
      return end(error.kind, "no answer to '" + name + "' within " + format_duration(limit));
    case ErrorKind::invalid:
      return end(ErrorKind::internal,
                 "the trainer's answer to '" + name + "' is no frame of JSON: " + error.what);
    default:
      return end(error.kind, ended_text("during '" + name + "'"));
  }
}

// The error that the trainer answered, which it may live on after.
tl::unexpected<Error> TrainerClient::take_error(const Json& error, const std::string& name) {
  if (!error.is_object()) {
    return end(ErrorKind::internal,
               "the trainer's answer to '" + name + "' has no 'ok' or 'error'");
  }
  Error told = error_from_json(error);
  if (told.kind == ErrorKind::cancelled) {
    return end(ErrorKind::internal, "the trainer cancelled '" + name + "' without a request");
  }
  // With several ranks, the first one reports that another was killed. The kernel increments its counter before it
  // kills.
  if (told.kind == ErrorKind::crashed && told.signal == SIGKILL &&
      oom_kills_.count() > oom_kills_before_) {
    told.kind = ErrorKind::out_of_memory;
    told.what += std::string(", ") + kKilledForMemory;
  }
  if (told.kind == ErrorKind::internal) end(ErrorKind::internal, "");
  if (told.kind == ErrorKind::out_of_memory) tell_end(told.kind, /*has_told=*/true, std::nullopt);
  return tl::unexpected(std::move(told));
}

void TrainerClient::suspend() {
  if (!is_alive_ || is_suspended_) return;
  process_.signal_group(SIGSTOP);
  is_suspended_ = true;
  // Each thread has to run once more to stop: not while another trainer is timed.
  const auto deadline = Clock::now() + kStopLimit;
  siginfo_t stopped{};
  while (Clock::now() < deadline) {
    const int failed = ::waitid(P_PIDFD, static_cast<id_t>(process_.pidfd()), &stopped,
                                WSTOPPED | WEXITED | WNOHANG | WNOWAIT);
    if (failed != 0 || stopped.si_pid != 0) return;
    std::this_thread::sleep_for(kStopPause);
  }
}

void TrainerClient::resume() {
  if (!is_suspended_) return;
  process_.signal_group(SIGCONT);
  is_suspended_ = false;
  (void)was_stopped();  // the kernel has noted our own signal by now
}

bool TrainerClient::was_stopped() {
  // The process is a child of this one, so the kernel tells each stop here, whoever sent the signal.
  for (bool was = false;; was = true) {
    siginfo_t change{};
    const int failed = ::waitid(P_PIDFD, static_cast<id_t>(process_.pidfd()), &change,
                                WSTOPPED | WCONTINUED | WNOHANG);
    if (failed != 0 || change.si_pid == 0) return was;
  }
}

// Unlike FrameChannel::send(), it has a deadline. After an error a part of the frame may have been sent: the trainer
// must be ended.
Result<void> TrainerClient::send(const Json& frame, Clock::time_point deadline,
                                 bool is_cancellable) {
  const std::string bytes = encode_frame(to_line(frame));
  if (bytes.size() > kMaxFrameBytes) {
    return fail(ErrorKind::invalid,
                "a request of " + std::to_string(bytes.size()) + " bytes is too long to send");
  }
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const ssize_t count =
        ::send(channel_.descriptor(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(count));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return fail(ErrorKind::crashed, "the trainer has ended");
    if (is_cancellable && cancel_->is_requested()) return fail(ErrorKind::cancelled, "stopped");
    const int cancel = is_cancellable ? cancel_->descriptor() : -1;
    const Woken woken = wait_for(channel_.descriptor(), POLLOUT, cancel, deadline);
    if (woken == Woken::timeout) return fail(ErrorKind::timeout, "the trainer does not read");
  }
  return {};
}

void TrainerClient::stop() {
  if (!is_alive_) return;
  is_alive_ = false;
  resume();
  const Json question = {{"id", next_id_++}, {"request", "stop"}};
  const bool is_asked =
      send(question, Clock::now() + kStopGrace, /*is_cancellable=*/false).has_value();
  if (!is_asked || !process_.wait(kStopGrace)) process_.terminate(kStopGrace);
}

tl::unexpected<Error> TrainerClient::end(ErrorKind kind, const std::string& what) {
  is_alive_ = false;
  // A crashing process closes its socket a moment before its exit status is there.
  auto exit = process_.wait(kind == ErrorKind::crashed ? kStopGrace : nanoseconds{0});
  // The kernel counts before it kills.
  const std::int64_t oom_kills = oom_kills_.count() - oom_kills_before_;
  std::string text = what;
  if (exit) text += " (" + exit->message() + ")";
  process_.terminate(std::chrono::milliseconds(500));
  const int signal = exit && kind == ErrorKind::crashed ? exit->signal : 0;
  if (signal == SIGKILL) {
    if (oom_kills > 0) kind = ErrorKind::out_of_memory;
    text += std::string(oom_kills > 0 ? ", " : ", not ") + kKilledForMemory;
  }
  tell_end(kind, /*has_told=*/false, exit);
  output_.finish();
  const std::string tail = last_lines(log_, 5);
  if (!tail.empty()) text += "; the last lines of its log:\n" + tail;
  return tl::unexpected(Error{kind, text, log_.string(), {}, signal});
}

bool TrainerClient::is_stopped_too_long() const {
  return stopped_limit_ > nanoseconds{0} && stopped_.time() >= stopped_limit_;
}

std::string TrainerClient::ended_text(const std::string& when) const {
  if (!is_stopped_too_long()) return "the trainer ended " + when;
  return "the trainer was stopped (SIGSTOP) for " + format_duration(stopped_limit_) + " " + when +
         ", and has been ended";
}

void TrainerClient::tell_end(ErrorKind kind, bool has_told,
                             const std::optional<ProcessExit>& exit) {
  if (!on_end_) return;
  TrainerEnd end{.outcome = outcome_of(kind, exit),
                 .request = request_,
                 .has_told = has_told,
                 .oom_kills = oom_kills_.count() - oom_kills_before_,
                 .resident_bytes = resident_bytes_};
  if (exit)
    (exit->signal != 0 ? end.signal : end.exit_code) =
        exit->signal != 0 ? exit->signal : exit->code;
  on_end_(std::move(end));
}

}  // namespace autotuned::daemon
