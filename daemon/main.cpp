// SPDX-License-Identifier: Apache-2.0
// autotuned: the commands, and the processes that they start of this same program.
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string_view>

#include "base/process.hpp"
#include "daemon/commands.hpp"
#include "daemon/own_process.hpp"
#include "daemon/plugin_survey.hpp"
#include "daemon/session_process.hpp"

namespace {

// A child of this program leaves with its parent.
int run_child(int (*role)(int)) {
  const char* parent = std::getenv("AUTOTUNED_PARENT_PID");
  if (parent == nullptr) {
    std::cerr << "autotuned: this command is for `autotuned` itself\n";
    return autotuned::daemon::kUsageError;
  }
  autotuned::die_with_parent(std::atoi(parent));
  return role(autotuned::daemon::kControlDescriptor);
}

}  // namespace

int main(int argc, char** argv) {
  // A file that may not grow is an error to report, like a full disk, not a reason to die.
  std::signal(SIGXFSZ, SIG_IGN);
  // What we write, logs and results included, is for this user alone (docs/security.md); children inherit it.
  ::umask(077);
  try {
    const std::string_view role = argc == 2 ? argv[1] : "";
    if (role == autotuned::daemon::kSessionProcess) {
      return run_child(autotuned::daemon::run_session_process);
    }
    if (role == autotuned::daemon::kPluginProcess) {
      return run_child(autotuned::daemon::run_plugin_process);
    }
    const int code = autotuned::daemon::run_command(argc, argv);
    if (!std::cout.flush()) {
      std::cerr << "error: standard output cannot be written\n";
      return autotuned::daemon::kWorkFailed;
    }
    return code;
  } catch (const std::exception& error) {
    std::cerr << "autotuned: internal error: " << error.what() << "\n";
    return autotuned::daemon::kWorkFailed;
  }
}
