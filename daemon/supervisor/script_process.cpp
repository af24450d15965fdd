// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/script_process.hpp"

#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstdlib>

// glibc 2.36 declares these without saying that they are C; later versions do.
extern "C" {
#include <sys/pidfd.h>
}

namespace autotuned::daemon {
namespace {

constexpr int kSignalBase = 128;  // of the exit code that stands for an end by a signal

// posix_spawn with what this program has changed for itself put back.
int spawn(const ScriptSpec& spec, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int error = posix_spawn_file_actions_init(&actions);
  if (error != 0) return error;
  error = posix_spawnattr_init(&attributes);
  if (error != 0) {
    posix_spawn_file_actions_destroy(&actions);
    return error;
  }
  const auto note = [&error](int result) {
    if (error == 0) error = result;
  };
  // The socket is duplicated to itself, so that exec no longer closes it.
  if (spec.socket >= 0) {
    note(posix_spawn_file_actions_adddup2(&actions, spec.socket, spec.socket));
  }
  sigset_t changed;
  sigemptyset(&changed);
  sigaddset(&changed, SIGXFSZ);  // main() ignores it
  note(posix_spawnattr_setsigdefault(&attributes, &changed));
  note(posix_spawnattr_setsigmask(&attributes, &spec.blocked_signals));
  note(posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  if (error == 0) {
    const mode_t ours = ::umask(spec.umask);
    error = posix_spawnp(&pid, spec.command.front().c_str(), &actions, &attributes,
                         null_terminated(spec.command).data(),
                         null_terminated(spec.environment).data());
    ::umask(ours);
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

Result<ScriptProcess> ScriptProcess::start(const ScriptSpec& spec) {
  assert(!spec.command.empty());
  // The end of a child is not reported if the process that started us has set SIGCHLD to be ignored.
  if (is_ignored(SIGCHLD)) std::signal(SIGCHLD, SIG_DFL);
  ScriptProcess process;
  const int error = spawn(spec, process.pid_);
  if (error != 0) {
    return tl::unexpected(system_error(error, "cannot start the program", spec.command.front()));
  }
  // The number cannot be anybody else's: it stays taken until wait().
  process.pidfd_.reset(::pidfd_open(process.pid_, 0));
  if (!process.pidfd_.is_open()) {
    return tl::unexpected(system_error(errno, "cannot watch the program", spec.command.front()));
  }
  return process;
}

void ScriptProcess::signal(int number) const {
  (void)::pidfd_send_signal(pidfd_.get(), number, nullptr, 0);
}

ProcessExit ScriptProcess::wait() {
  siginfo_t info{};
  int result = 0;
  do {
    result = ::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED);
  } while (result != 0 && errno == EINTR);
  assert(result == 0 && "somebody else reaped the script");
  return info.si_code == CLD_EXITED ? ProcessExit{.code = info.si_status}
                                    : ProcessExit{.signal = info.si_status};
}

void end_like(const ProcessExit& exit) {
  if (exit.signal == 0) std::exit(exit.code);
  // The memory that is worth a look is the script's.
  const rlimit none{.rlim_cur = 0, .rlim_max = 0};
  ::setrlimit(RLIMIT_CORE, &none);
  std::signal(exit.signal, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, exit.signal);
  ::sigprocmask(SIG_UNBLOCK, &one, nullptr);
  ::raise(exit.signal);
  std::exit(kSignalBase + exit.signal);
}

}  // namespace autotuned::daemon
