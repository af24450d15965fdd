// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/script_supervisor.hpp"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/supervisor/agent_session.hpp"

namespace autotuned::daemon {
namespace {

namespace asio = boost::asio;

// The signals that people send to training jobs, passed on to the script. Other signals are for this process, or cannot
// be blocked.
constexpr std::array kPassedOn = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

// While it lives, the signals are read from a descriptor, and none ends this process. Signals that are ignored, as with
// nohup, stay ignored for both processes.
class TakenSignals {
 public:
  TakenSignals() {
    sigset_t taken;
    sigemptyset(&taken);
    for (const int number : kPassedOn) {
      if (!is_ignored(number)) sigaddset(&taken, number);
    }
    ::sigprocmask(SIG_BLOCK, &taken, &before_);
    descriptor_.reset(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~TakenSignals() {
    // Signals that came too late for the script are not for this process either.
    while (next()) {
    }
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  TakenSignals(const TakenSignals&) = delete;
  TakenSignals& operator=(const TakenSignals&) = delete;

  // -1 where there is none.
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  // The signals that were blocked before, which is how the script gets them.
  [[nodiscard]] const sigset_t& before() const { return before_; }
  std::optional<signalfd_siginfo> next() {
    signalfd_siginfo info{};
    const bool is_there = ::read(descriptor_.get(), &info, sizeof info) == ssize_t{sizeof info};
    return is_there ? std::optional(info) : std::nullopt;
  }

 private:
  sigset_t before_{};
  Descriptor descriptor_;
};

class ScriptSupervisor {
 public:
  // `signals` must outlive it.
  ScriptSupervisor(ScriptProcess script, TakenSignals& signals)
      : script_(std::move(script)), signals_(&signals), ended_(context_), signalled_(context_) {}

  // The session's end of the socket to the agent.
  ProcessExit run(SessionRequest request, Descriptor agent,
                  const std::function<void(const Json&)>& on_event);

 private:
  void start_session(SessionRequest request, const Descriptor& agent,
                     const std::function<void(const Json&)>& on_event);
  void wait_for_script();
  void wait_for_signals();
  void pass_signals_on();
  void end_if_done();

  asio::io_context context_{1};
  ScriptProcess script_;
  TakenSignals* signals_;
  asio::posix::stream_descriptor ended_;      // of the script
  asio::posix::stream_descriptor signalled_;  // both are copies: closing them must not close ours
  std::shared_ptr<SupervisedSession> session_;
  std::optional<ProcessExit> exit_;
  bool has_session_ended_ = false;
};

// The descriptor is watched as a copy.
bool watch(asio::posix::stream_descriptor& watched, int ours) {
  Descriptor copy(::fcntl(ours, F_DUPFD_CLOEXEC, 0));
  if (!copy.is_open()) return false;
  boost::system::error_code failed;
  watched.assign(copy.get(), failed);
  if (failed) return false;
  static_cast<void>(copy.release());
  return true;
}

ProcessExit ScriptSupervisor::run(SessionRequest request, Descriptor agent,
                                  const std::function<void(const Json&)>& on_event) {
  if (!watch(ended_, script_.pidfd()) || !watch(signalled_, signals_->descriptor())) {
    on_event({{"event", "warning"}, {"text", "the script is not tuned: no descriptor is left"}});
    agent.reset();  // its agent lets go
    return script_.wait();
  }
  start_session(std::move(request), agent, on_event);
  wait_for_script();
  wait_for_signals();
  // Once the session has its own: with this one open, the agent would not learn of the session's end.
  asio::post(context_, [&agent] { agent.reset(); });
  context_.run();
  return *exit_;
}

void ScriptSupervisor::start_session(SessionRequest request, const Descriptor& agent,
                                     const std::function<void(const Json&)>& on_event) {
  session_ =
      start_agent_session(context_, std::move(request), agent, "the script", on_event, [this] {
        has_session_ended_ = true;
        end_if_done();
      });
}

void ScriptSupervisor::wait_for_script() {
  ended_.async_wait(asio::posix::stream_descriptor::wait_read,
                    [this](const boost::system::error_code& error) {
                      if (error) return;
                      exit_ = script_.wait();
                      tell_training_ended(*session_, *exit_);
                      end_if_done();
                    });
}

void ScriptSupervisor::wait_for_signals() {
  signalled_.async_wait(asio::posix::stream_descriptor::wait_read,
                        [this](const boost::system::error_code& error) {
                          if (error) return;
                          pass_signals_on();
                          wait_for_signals();
                        });
}

void ScriptSupervisor::pass_signals_on() {
  while (const auto info = signals_->next()) {
    // Signals of the terminal (sent by the kernel) have already reached the whole group. Signals that the script itself
    // sent are not passed back to it.
    const bool is_from_somebody = info->ssi_code <= 0;
    if (exit_ || !is_from_somebody || static_cast<pid_t>(info->ssi_pid) == script_.pid()) continue;
    script_.signal(static_cast<int>(info->ssi_signo));
  }
}

void ScriptSupervisor::end_if_done() {
  if (!exit_ || !has_session_ended_) return;
  ended_.close();
  signalled_.close();
}

}  // namespace

Result<ProcessExit> supervise_script(SessionRequest request, ScriptSpec spec,
                                     const std::function<void(const Json&)>& on_event) {
  auto sockets = socket_pair();
  if (!sockets) return tl::unexpected(sockets.error());
  TakenSignals signals;
  spec.blocked_signals = signals.before();
  spec.socket = sockets->theirs.get();
  // Drop the variable of an outer script that started us: its socket is not this script's.
  const std::string variable = std::string(kScriptSocketVariable) + "=";
  std::erase_if(spec.environment,
                [&variable](const std::string& known) { return known.starts_with(variable); });
  spec.environment.push_back(variable + std::to_string(sockets->theirs.get()));
  auto script = ScriptProcess::start(spec);
  if (!script) return tl::unexpected(script.error());
  sockets->theirs.reset();
  ScriptSupervisor supervisor(*std::move(script), signals);
  return supervisor.run(std::move(request), std::move(sockets->ours), on_event);
}

}  // namespace autotuned::daemon
