// SPDX-License-Identifier: Apache-2.0
// autotuned: the commands, and the session process that `run` starts.
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string_view>

#include "base/process.hpp"
#include "daemon/commands.hpp"
#include "daemon/session_process.hpp"

int main(int argc, char** argv) {
  constexpr int kControl = 3;
  // A file that may not grow is an error to report, like a full disk, not a reason to die.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    if (argc == 2 && std::string_view(argv[1]) == "session-process") {
      const char* parent = std::getenv("AUTOTUNED_PARENT_PID");
      if (parent == nullptr) {
        std::cerr << "autotuned: session-process is started by `autotuned run` only\n";
        return autotuned::daemon::kUsageError;
      }
      autotuned::die_with_parent(std::atoi(parent));
      return autotuned::daemon::run_session_process(kControl);
    }
    return autotuned::daemon::run_command(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "autotuned: internal error: " << error.what() << "\n";
    return autotuned::daemon::kWorkFailed;
  }
}
