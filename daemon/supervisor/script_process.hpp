// SPDX-License-Identifier: Apache-2.0
// The user's own command as a child: in our process group, with our terminal, streams, folder and limits, as if the shell had
// started it.
//
// We never end it. It is not killed with its parent, it has no mark of a run, and no destructor signals it: the script
// trains on whatever happens to this program.
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
  // Sends a signal; does nothing after the process has ended.
  void signal(int number) const;
  // Waits for the end, once.
  [[nodiscard]] ProcessExit wait();

 private:
  pid_t pid_ = -1;
  Descriptor pidfd_;
};

// Ends this process as `exit` tells: with the same exit code or by the same signal, so that a shell sees no difference.
[[noreturn]] void end_like(const ProcessExit& exit);

}  // namespace autotuned::daemon
