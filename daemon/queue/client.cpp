// SPDX-License-Identifier: Apache-2.0
#include "daemon/queue/client.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "base/error_json.hpp"
#include "base/process/process.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/stop_requests.hpp"
#include "daemon/queue/socket.hpp"

namespace autotuned::daemon {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

constexpr nanoseconds kAnswerLimit = std::chrono::seconds(10);
// How long the next daemon may take to serve, after one has ended.
constexpr nanoseconds kReturnLimit = std::chrono::seconds(5);
constexpr std::chrono::milliseconds kReturnLook{50};
constexpr std::chrono::milliseconds kTickEvery{500};
// Daemons that one submission may see end.
constexpr int kSubmitTries = 5;

Json request_of(const char* name, std::int64_t job) {
  return {{"protocol", kDaemonProtocol}, {"request", name}, {"job", std::to_string(job)}};
}

Json attach_request(std::int64_t job, std::int64_t seen) {
  Json request = request_of("attach", job);
  request["skip"] = seen;
  return request;
}

// SIGINT stays ignored if it is, as in a background job of a shell without job control: a Ctrl-C is then for another program.
sigset_t interrupting_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  if (!is_ignored(SIGINT)) sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

// SIGINT and SIGTERM as something to read, instead of the end of this process.
class SignalReader {
 public:
  SignalReader() {
    const sigset_t signals = interrupting_signals();
    ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
    descriptor_.reset(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~SignalReader() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalReader(const SignalReader&) = delete;
  SignalReader& operator=(const SignalReader&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  // Whether a signal was there that is a request of its own.
  bool take() {
    signalfd_siginfo signal{};
    return ::read(descriptor_.get(), &signal, sizeof(signal)) == sizeof(signal) &&
           requests_.take(static_cast<int>(signal.ssi_signo), Clock::now());
  }

 private:
  sigset_t before_{};
  Descriptor descriptor_;
  StopRequests requests_;
};

// Waits for the next daemon. Nothing: none has come in time, or `rest`, which waits for kReturnLook at most, was told
// to stop.
std::optional<DaemonClient> wait_for_daemon(const std::function<bool()>& rest,
                                            const std::function<void()>& on_tick = {}) {
  const auto give_up = Clock::now() + kReturnLimit;
  auto next_tick = Clock::now();
  while (Clock::now() < give_up) {
    if (on_tick && Clock::now() >= next_tick) {
      on_tick();
      next_tick = Clock::now() + kTickEvery;
    }
    auto client = DaemonClient::connect();
    if (client && *client) return std::move(**client);
    if (rest()) return std::nullopt;
  }
  return std::nullopt;
}

// Follows a job over the daemons that execute it, one connection after another.
class Follower {
 public:
  Follower(DaemonClient client, std::int64_t job, OnInterrupt on_interrupt,
           const std::function<void(const Json&)>& on_event, const std::function<void()>& on_tick)
      : client_(std::move(client)),
        job_(job),
        on_interrupt_(on_interrupt),
        on_event_(&on_event),
        on_tick_(&on_tick) {}

  Result<Followed> run() {
    for (;;) {
      auto ended = converse();
      if (ended || ended.error().kind != ErrorKind::crashed) return ended;
      bool is_interrupted = false;
      const auto rest = [&] {
        is_interrupted = wait_readable(signals_.descriptor(), kReturnLook) && signals_.take();
        return is_interrupted;
      };
      auto next = wait_for_daemon(rest, *on_tick_);
      if (is_interrupted) {
        if (on_interrupt_ == OnInterrupt::leave) return Followed{.has_left = true};
        (*on_event_)({{"event", "warning"},
                      {"text", "no daemon is there to cancel run " + std::to_string(job_) +
                                   " of the queue: it goes on when 'autotuned serve' does"}});
        return Followed{.exit_code = kCancelled};
      }
      if (!next) {
        return fail(ErrorKind::crashed, "the daemon has ended",
                    "run " + std::to_string(job_) + " of the queue",
                    "it stays there and goes on when 'autotuned serve' does; 'autotuned attach " +
                        std::to_string(job_) + "' follows it again");
      }
      client_ = std::move(*next);
    }
  }

 private:
  Result<Followed> converse() {
    if (auto sent = client_.channel().send(attach_request(job_, seen_)); !sent) {
      return tl::unexpected(sent.error());
    }
    for (;;) {
      auto frame = client_.channel().receive(nanoseconds(0));
      if (frame) {
        if (auto ended = take(*frame)) return *ended;
        continue;
      }
      if (frame.error().kind != ErrorKind::timeout) return tl::unexpected(frame.error());
      std::array<pollfd, 2> waited{
          {{client_.channel().descriptor(), POLLIN, 0}, {signals_.descriptor(), POLLIN, 0}}};
      const int limit_ms = *on_tick_ ? static_cast<int>(kTickEvery.count()) : -1;
      const int count = ::poll(waited.data(), waited.size(), limit_ms);
      if (count == 0 && *on_tick_) (*on_tick_)();
      if (!signals_.take()) continue;
      if (on_interrupt_ == OnInterrupt::leave) return Followed{.has_left = true};
      if (auto sent = client_.channel().send(request_of("cancel", job_)); !sent) {
        return tl::unexpected(sent.error());
      }
    }
  }

  // How it ended, when the frame says so.
  std::optional<Result<Followed>> take(const Json& frame) {
    if (frame.contains("event")) {
      ++seen_;
      (*on_event_)(frame.at("event"));
      return std::nullopt;
    }
    if (frame.contains("error")) {
      const Error error = error_from_json(frame.at("error"));
      // A cancel that came too late.
      if (error.kind == ErrorKind::invalid) return std::nullopt;
      return tl::unexpected(error);
    }
    if (!frame.contains("ended")) return std::nullopt;
    const Json& end = frame.at("ended");
    return Followed{.exit_code = static_cast<int>(get_integer(end, "exit_code").value_or(1))};
  }

  SignalReader signals_;
  DaemonClient client_;
  std::int64_t job_;
  OnInterrupt on_interrupt_;
  const std::function<void(const Json&)>* on_event_;
  const std::function<void()>* on_tick_;
  std::int64_t seen_ = 0;
};

}  // namespace

Result<std::optional<DaemonClient>> DaemonClient::connect() {
  const auto socket = socket_file();
  if (!socket) return tl::unexpected(socket.error());
  auto connected = connect_to_daemon(*socket);
  if (!connected) return tl::unexpected(connected.error());
  if (!*connected) return std::nullopt;
  return DaemonClient(std::move(**connected));
}

Result<Json> DaemonClient::ask(Json request) {
  request["protocol"] = kDaemonProtocol;
  if (auto sent = channel_.send(request); !sent) return tl::unexpected(sent.error());
  auto answer = channel_.receive(kAnswerLimit);
  if (!answer && answer.error().kind == ErrorKind::timeout) {
    return fail(ErrorKind::timeout, "the daemon does not answer", "",
                "look with 'autotuned status' for what became of it before you try again");
  }
  if (!answer) return answer;
  if (answer->contains("error")) return tl::unexpected(error_from_json(answer->at("error")));
  return member(*answer, "ok");
}

Result<DaemonClient> connect_or_explain() {
  auto client = DaemonClient::connect();
  if (!client) return tl::unexpected(client.error());
  if (!*client) {
    return fail(ErrorKind::not_found, "no daemon of this user is running", "",
                "start one with 'autotuned serve'");
  }
  return std::move(**client);
}

Result<std::int64_t> submit(DaemonClient& client, const Submission& submission) {
  const Json request = {{"request", "submit"}, {"submission", submission.to_json()}};
  for (int tries = 1;; ++tries) {
    auto answer = client.ask(request);
    if (answer) return get_integer(*answer, "job");
    if (answer.error().kind != ErrorKind::crashed) return tl::unexpected(answer.error());
    const auto rest = [] {
      std::this_thread::sleep_for(kReturnLook);
      return false;
    };
    auto next = tries < kSubmitTries ? wait_for_daemon(rest) : std::nullopt;
    if (!next) {
      return fail(ErrorKind::crashed, "the daemon ended before it answered", "",
                  "start it again and see with 'autotuned status' whether the run is there");
    }
    client = std::move(*next);
  }
}

void hold_signals() {
  const sigset_t signals = interrupting_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

Result<Followed> follow(DaemonClient client, std::int64_t job, OnInterrupt on_interrupt,
                        const std::function<void(const Json&)>& on_event,
                        const std::function<void()>& on_tick) {
  return Follower(std::move(client), job, on_interrupt, on_event, on_tick).run();
}

}  // namespace autotuned::daemon
