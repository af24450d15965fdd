// SPDX-License-Identifier: Apache-2.0
#include "base/process/process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>
#include <thread>

// glibc 2.36 declares these without saying that they are C; later versions do.
extern "C" {
#include <sys/pidfd.h>
}

namespace autotuned {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kFirstFreeDescriptor = 3;
// The time between two checks whether a tracer has released a dead child.
constexpr std::chrono::nanoseconds kFirstPause = std::chrono::milliseconds(1);
constexpr std::chrono::nanoseconds kLongestPause = std::chrono::milliseconds(50);

// The arguments of posix_spawn. The calls that fill them fail only for lack of memory. The first failure is kept, and read once.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  void duplicate(int ours, int theirs) {
    note(posix_spawn_file_actions_adddup2(&actions_, ours, theirs));
  }
  void change_folder(const char* folder) {
    note(posix_spawn_file_actions_addchdir_np(&actions_, folder));
  }
  void close(int theirs) { note(posix_spawn_file_actions_addclose(&actions_, theirs)); }
  void close_from(int theirs) { note(posix_spawn_file_actions_addclosefrom_np(&actions_, theirs)); }

  // Resets all signals: the child inherits neither our mask nor the signals that we ignore.
  void reset_signals(bool new_group) {
    sigset_t signals;
    sigemptyset(&signals);
    note(posix_spawnattr_setsigmask(&attributes_, &signals));
    sigfillset(&signals);
    note(posix_spawnattr_setsigdefault(&attributes_, &signals));
    int flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    if (new_group) flags |= POSIX_SPAWN_SETPGROUP;  // group 0: its own
    note(posix_spawnattr_setflags(&attributes_, static_cast<short>(flags)));
  }

  int spawn(pid_t& pid, const char* program, char* const* arguments, char* const* environment) {
    if (error_ != 0) return error_;
    return posix_spawn(&pid, program, &actions_, &attributes_, arguments, environment);
  }

 private:
  void note(int error) {
    if (error_ == 0) error_ = error;
  }

  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
  int error_ = 0;
};

// Copies a descriptor to a number above all numbers of the child, so that no dup2 can overwrite a source that is still needed.
Result<Descriptor> copy_above(int fd, int highest, const char* what) {
  Descriptor copy(::fcntl(fd, F_DUPFD_CLOEXEC, highest + 1));
  if (!copy.is_open()) return tl::unexpected(system_error(errno, what));
  return copy;
}

Result<Descriptor> open_above(const std::filesystem::path& file, int flags, int highest) {
  const Descriptor opened(::open(file.c_str(), flags | O_CLOEXEC, 0600));
  if (!opened.is_open()) {
    return tl::unexpected(
        system_error(errno, "cannot open a stream of a child process", file.string()));
  }
  return copy_above(opened.get(), highest, "cannot copy a descriptor");
}

// If SIGCHLD is ignored, the exit status of a child is lost. The program that started us may have set it so.
void stop_ignoring_children() {
  struct sigaction current {};
  if (::sigaction(SIGCHLD, nullptr, &current) == 0 && current.sa_handler == SIG_IGN) {
    std::signal(SIGCHLD, SIG_DFL);
  }
}

}  // namespace

std::vector<char*> null_terminated(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  // The interface is older than const; nothing is written through these.
  for (const std::string& text : texts)
    pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::string ProcessExit::message() const {
  if (is_left) return "SIGKILL has not ended it yet";
  if (signal == 0) return "exit code " + std::to_string(code);
  const char* name = sigdescr_np(signal);
  return "signal " + std::to_string(signal) + " (" + (name != nullptr ? name : "unknown") + ")";
}

Result<Process> Process::start(const ProcessSpec& spec) {
  assert(spec.program.is_absolute());
  int highest = kFirstFreeDescriptor - 1;
  for (const auto& [ours, theirs] : spec.descriptors)
    highest = std::max(highest, theirs);

  SpawnPlan plan;
  if (!spec.folder.empty()) plan.change_folder(spec.folder.c_str());
  std::vector<Descriptor> copies;
  // The child never gets our standard input, because a process of another group that reads the terminal is stopped.
  Result<Descriptor> null = open_above("/dev/null", O_RDONLY, highest);
  if (!null) return tl::unexpected(std::move(null.error()));
  plan.duplicate(null->get(), STDIN_FILENO);
  copies.push_back(*std::move(null));
  if (!spec.log.empty()) {
    Result<Descriptor> log = open_above(spec.log, O_WRONLY | O_APPEND | O_CREAT, highest);
    if (!log) return tl::unexpected(std::move(log.error()));
    plan.duplicate(log->get(), STDOUT_FILENO);
    plan.duplicate(log->get(), STDERR_FILENO);
    copies.push_back(*std::move(log));
  }
  for (const auto& [ours, theirs] : spec.descriptors) {
    Result<Descriptor> copy = copy_above(ours, highest, "cannot hand a descriptor to a child");
    if (!copy) return tl::unexpected(std::move(copy.error()));
    plan.duplicate(copy->get(), theirs);
    copies.push_back(*std::move(copy));
  }
  for (int number = kFirstFreeDescriptor; number < highest; ++number) {
    const bool is_wanted = std::ranges::any_of(
        spec.descriptors, [number](const auto& pair) { return pair.second == number; });
    if (!is_wanted) plan.close(number);
  }
  plan.close_from(highest + 1);
  plan.reset_signals(spec.new_group);

  std::vector<std::string> arguments{spec.program.string()};
  arguments.insert(arguments.end(), spec.arguments.begin(), spec.arguments.end());
  stop_ignoring_children();
  Process process;
  pid_t pid = -1;
  const int error = plan.spawn(pid, spec.program.c_str(), null_terminated(arguments).data(),
                               null_terminated(spec.environment).data());
  if (error != 0) {
    return tl::unexpected(system_error(error, "cannot start the program", spec.program.string()));
  }
  process.pid_ = pid;
  process.owns_group_ = spec.new_group;
  // No other process can have this number until we reap the child.
  process.pidfd_.reset(::pidfd_open(pid, 0));
  if (!process.pidfd_.is_open()) {
    Error failure = system_error(errno, "cannot watch the process", spec.program.string());
    ::kill(spec.new_group ? -pid : pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    process.pid_ = -1;
    return tl::unexpected(std::move(failure));
  }
  return process;
}

Process::~Process() {
  end(kKillLimit);
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      owns_group_(other.owns_group_),
      pidfd_(std::move(other.pidfd_)),
      exit_(std::move(other.exit_)) {}

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    end(kKillLimit);
    pid_ = std::exchange(other.pid_, -1);
    owns_group_ = other.owns_group_;
    pidfd_ = std::move(other.pidfd_);
    exit_ = std::move(other.exit_);
  }
  return *this;
}

std::optional<ProcessExit> Process::wait(std::chrono::nanoseconds timeout) {
  if (exit_ || pid_ < 0) return exit_;
  const auto begin = SteadyClock::now();
  if (!wait_readable(pidfd_.get(), timeout)) return std::nullopt;
  siginfo_t info{};
  for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    // WNOWAIT: until the child is reaped, no other process or group gets its number. So
    // the group can still be signalled safely; end() reaps.
    int result = 0;
    do {
      result =
          ::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOWAIT | WNOHANG);
    } while (result != 0 && errno == EINTR);
    assert(result == 0 && "somebody else reaped the child");
    if (info.si_pid != 0) break;
    // A tracer (a debugger, LeakSanitizer) has not released the child yet. The pidfd is readable already, so poll() cannot wait for
    // it.
    if (timeout >= timeout.zero() && SteadyClock::now() - begin >= timeout) return std::nullopt;
    std::this_thread::sleep_for(pause);
  }
  exit_ = info.si_code == CLD_EXITED ? ProcessExit{.code = info.si_status}
                                     : ProcessExit{.signal = info.si_status};
  return exit_;
}

ProcessExit Process::terminate(std::chrono::nanoseconds grace,
                               std::chrono::nanoseconds kill_limit) {
  signal_group(SIGTERM);
  signal_group(SIGCONT);  // a stopped process would not notice
  (void)wait(std::max(grace, std::chrono::nanoseconds::zero()));
  end(kill_limit);
  return exit_.value_or(ProcessExit{});
}

void Process::signal_group(int signal) {
  if (pid_ < 0) return;
  if (owns_group_) {
    ::kill(-pid_, signal);
  } else {
    (void)::pidfd_send_signal(pidfd_.get(), signal, nullptr, 0);
  }
}

// Kills the rest of the group, records how the child ended, and reaps it. A child that does not end in time becomes a zombie
// later, until this process ends.
void Process::end(std::chrono::nanoseconds limit) {
  if (pid_ < 0) return;
  signal_group(SIGKILL);
  if (!wait(std::max(limit, std::chrono::nanoseconds::zero()))) {
    exit_ = ProcessExit{.is_left = true};
    pid_ = -1;
    return;
  }
  siginfo_t info{};
  while (::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED) != 0 &&
         errno == EINTR) {
  }
  pid_ = -1;
}

void die_with_parent(pid_t parent_pid) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have ended before the line above. Then the signal never comes.
  if (::getppid() != parent_pid) ::_exit(EXIT_FAILURE);
}

void adopt_orphans() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

bool is_ignored(int signal) {
  struct sigaction current {};
  return ::sigaction(signal, nullptr, &current) == 0 && current.sa_handler == SIG_IGN;
}

std::filesystem::path program_in_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/bin:/bin" : path;
  while (true) {
    const std::size_t colon = rest.find(':');
    std::filesystem::path file = std::filesystem::path(rest.substr(0, colon)) / name;
    std::error_code error;
    if (::access(file.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(file, error)) {
      // An entry of PATH may be relative.
      return std::filesystem::absolute(file, error);
    }
    if (colon == std::string_view::npos) return {};
    rest.remove_prefix(colon + 1);
  }
}

std::vector<std::string> whole_environment() {
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable)
    environment.emplace_back(*variable);
  return environment;
}

std::vector<std::string> environment_of(const std::vector<std::string>& names) {
  std::vector<std::string> environment;
  for (const std::string& name : names) {
    const char* value = std::getenv(name.c_str());
    if (value != nullptr) environment.push_back(name + "=" + value);
  }
  return environment;
}

}  // namespace autotuned
