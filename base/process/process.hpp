// SPDX-License-Identifier: Apache-2.0
// Child processes: started with posix_spawn, watched by pidfd, ended as a group.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace autotuned {

// How to start a child process.
struct ProcessSpec {
  std::filesystem::path program;         // absolute; no shell, no PATH search
  std::vector<std::string> arguments;    // without the program's own name
  std::vector<std::string> environment;  // NAME=value, complete: nothing is inherited
  // {our descriptor, its number in the child}; all others are closed.
  std::vector<std::pair<int, int>> descriptors;
  std::filesystem::path log;  // file to which standard output and error are appended; empty: ours
  std::filesystem::path folder;  // current folder of the child; empty: ours
  bool new_group = true;  // its own process group, so that it can be ended with its descendants
};

// How a child process ended.
struct ProcessExit {
  int code = 0;    // valid when signal is 0
  int signal = 0;  // 0: the process exited by itself
  // SIGKILL did not end the process in time: it is still in the kernel, and `code` and `signal` mean nothing.
  bool is_left = false;
  // "exit code 3", "signal 11 (Segmentation fault)" or "SIGKILL has not ended it yet".
  [[nodiscard]] std::string message() const;
};

// How long to wait for a process after SIGKILL. A process with much memory or a GPU takes seconds to end. A process in state D
// (waiting for a network folder or a driver that does not answer) may never end.
inline constexpr std::chrono::nanoseconds kKillLimit = std::chrono::seconds(10);

// A running child process. Its standard input is /dev/null, its signals are at their defaults. The destructor ends its group with
// SIGKILL and reaps it, if that takes no longer than kKillLimit. One thread at a time. Start it from a thread that lives as long
// as the process, because PR_SET_PDEATHSIG is per thread.
class Process {
 public:
  [[nodiscard]] static Result<Process> start(const ProcessSpec& spec);
  ~Process();
  Process(Process&&) noexcept;
  Process& operator=(Process&&) noexcept;

  // The process id; -1 after terminate(). The process stays a zombie after wait(), so that no other process gets its number.
  [[nodiscard]] pid_t pid() const { return pid_; }
  // A descriptor for poll(), which becomes readable when the process has ended.
  [[nodiscard]] int pidfd() const { return pidfd_.get(); }

  // Waits for the end and returns how the process ended; nothing if it still runs (or is traced) after `timeout`. A negative
  // `timeout` waits for ever.
  [[nodiscard]] std::optional<ProcessExit> wait(std::chrono::nanoseconds timeout);
  // Sends SIGTERM to the group, waits for `grace`, then sends SIGKILL to the group. Returns how the child
  // ended. A child that is still there `kill_limit` later is left behind and no longer waited for
  // (ProcessExit::is_left).
  ProcessExit terminate(std::chrono::nanoseconds grace,
                        std::chrono::nanoseconds kill_limit = kKillLimit);
  // Sends a signal to the whole group, including descendants of a child that has ended. Does nothing after terminate().
  void signal_group(int signal);

 private:
  Process() = default;
  void end(std::chrono::nanoseconds limit);

  pid_t pid_ = -1;  // -1: reaped, left behind, or moved from
  bool owns_group_ = false;
  Descriptor pidfd_;
  std::optional<ProcessExit> exit_;
};

// A child calls this first in main(): it asks to be killed with the parent (PR_SET_PDEATHSIG), and leaves
// at once when the parent `parent_pid` is already gone.
void die_with_parent(pid_t parent_pid);

// Makes this process the parent of descendants whose parents end, instead of init (PR_SET_CHILD_SUBREAPER),
// so that they can be found by descent. They stay zombies until this process ends: a process is only waited
// for by the code that started it.
void adopt_orphans();

// Whether this program was started with `signal` ignored, as nohup does with SIGHUP. Such a signal should stay ignored.
[[nodiscard]] bool is_ignored(int signal);

// Converts arguments or an environment to the form of posix_spawn(): pointers into `texts`, which must outlive them, and a null
// pointer at the end.
[[nodiscard]] std::vector<char*> null_terminated(const std::vector<std::string>& texts);

// Returns the program that a shell would start by this name: the first in PATH. Empty if there is none.
[[nodiscard]] std::filesystem::path program_in_path(const std::string& name);

// Returns the environment of this process as NAME=value.
[[nodiscard]] std::vector<std::string> whole_environment();

// Returns the named variables of this process's environment as NAME=value, without those that are not set.
[[nodiscard]] std::vector<std::string> environment_of(const std::vector<std::string>& names);

}  // namespace autotuned
