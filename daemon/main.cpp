// SPDX-License-Identifier: Apache-2.0
// autotuned: the commands, and the processes that they start of this same program.
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string_view>

#include "base/printable.hpp"
#include "base/process/process.hpp"
#include "daemon/agent_session.hpp"
#include "daemon/cli/options/commands.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/given_umask.hpp"
#include "daemon/compare/timed_pairs.hpp"
#include "daemon/plugin_list/plugin_survey.hpp"
#include "daemon/session/session_process.hpp"
#include "daemon/supervisor/own_process.hpp"

namespace {

// Memory may run out where nobody can catch it: while globals are made, or in what must not throw.
[[noreturn]] void end_program() {
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    constexpr std::string_view kText =
        "autotuned: error: out of memory; run the same command again to continue\n";
    static_cast<void>(!::write(STDERR_FILENO, kText.data(), kText.size()));
    ::_exit(autotuned::daemon::kWorkFailed);
  } catch (...) {
  }
  std::abort();
}

// Before any global of this program is made.
__attribute__((constructor(101))) void set_end() {
  std::set_terminate(end_program);
}

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
  // Files that we write, logs and results included, are for this user alone (docs/security.md); children inherit this
  // umask.
  autotuned::daemon::remember_given_umask(::umask(077));
  try {
    const std::string_view role = argc == 2 ? argv[1] : "";
    if (role == autotuned::daemon::kSessionProcess) {
      return run_child(autotuned::daemon::run_session_process);
    }
    if (role == autotuned::daemon::kPluginProcess) {
      return run_child(autotuned::daemon::run_plugin_process);
    }
    if (role == autotuned::daemon::kPairsProcess) {
      return autotuned::daemon::judge_pairs(std::cin, std::cout);
    }
    if (role == autotuned::daemon::kAgentSession) return autotuned::daemon::run_agent_session();
    const int code = autotuned::daemon::run_command(argc, argv);
    if (!std::cout.flush()) {
      std::cerr << "error: standard output cannot be written\n";
      return autotuned::daemon::kWorkFailed;
    }
    return code;
  } catch (const std::exception& error) {
    std::cerr << "autotuned: internal error: " << autotuned::printable_lines(error.what()) << "\n";
    return autotuned::daemon::kWorkFailed;
  }
}
