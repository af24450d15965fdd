// SPDX-License-Identifier: Apache-2.0
// The user's own command as a child: in our process group, with our terminal, streams, folder and limits, as if the shell had
// started it.
//
// It is never ended by us. It does not ask to be killed with its parent, it is not marked as part of a run, and no destructor
// signals it: whatever becomes of this program, the script trains on.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/process/process.hpp"
#include "base/result.hpp"

namespace autotuned::daemon {

struct ScriptSpec {
  std::vector<std::string> command;      // the program first, which is looked for in PATH
  std::vector<std::string> environment;  // NAME=value, complete
  int socket = -1;                       // inherited under its own number; -1: none
  mode_t umask = 022;                    // that the user has given
  sigset_t blocked_signals{};            // the same
};

// One thread.
class ScriptProcess {
 public:
  // ErrorKind::not_found or ErrorKind::permission where the program cannot be run.
  [[nodiscard]] static Result<ScriptProcess> start(const ScriptSpec& spec);

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Readable when it has ended: for poll().
  [[nodiscard]] int pidfd() const { return pidfd_.get(); }
  // Nothing after its end.
  void signal(int number) const;
  // Waits for the end, once.
  [[nodiscard]] ProcessExit wait();

 private:
  pid_t pid_ = -1;
  Descriptor pidfd_;
};

// What a shell sees of a process that ended so: its exit code, or an end by the same signal. For the end of a program.
[[noreturn]] void end_like(const ProcessExit& exit);

}  // namespace autotuned::daemon
