// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/own_process.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "daemon/common/installation_paths.hpp"
#include "daemon/common/submitted_variables.hpp"

namespace autotuned::daemon {

namespace {

// The environment of a child: the variables that a run in the daemon gets from the shell of its submission, our own
// variables, and those with which this program found its libraries. Plugins need no others.
std::vector<std::string> own_environment() {
  std::vector<std::string> variables = environment_of(submitted_variables());
  for (std::string& variable : environment_of({"LD_LIBRARY_PATH", "LD_PRELOAD"}))
    variables.push_back(std::move(variable));
  for (char** variable = environ; *variable != nullptr; ++variable) {
    std::string text = *variable;
    const bool is_known = std::ranges::find(variables, text) != variables.end();
    if (!text.starts_with("AUTOTUNED_") || text.starts_with("AUTOTUNED_PARENT_PID=") || is_known) {
      continue;
    }
    variables.push_back(std::move(text));
  }
  return variables;
}

// If memory runs out, the kernel should end the child or one of its children, which inherit this setting, and not us.
constexpr const char* kOomScore = "500";

void make_expendable(pid_t process) {
  const std::string file = "/proc/" + std::to_string(process) + "/oom_score_adj";
  const Descriptor score(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  // Refused where ours is higher already: then the child has that.
  if (score.is_open()) (void)!::write(score.get(), kOomScore, std::strlen(kOomScore));
}

}  // namespace

Result<OwnProcess> start_own_process(const std::string& role, const SpawnOptions& spawn_options) {
  auto sockets = socket_pair();
  if (!sockets) return tl::unexpected(sockets.error());
  ProcessSpec spec;
  spec.program = find_installation_paths().program;
  spec.arguments = {role};
  spec.environment = spawn_options.environment ? *spawn_options.environment : own_environment();
  for (const std::string& variable : spawn_options.variables) {
    const std::string name = variable.substr(0, variable.find('=') + 1);
    std::erase_if(spec.environment,
                  [&name](const std::string& known) { return known.starts_with(name); });
    spec.environment.push_back(variable);
  }
  spec.environment.push_back("AUTOTUNED_PARENT_PID=" + std::to_string(getpid()));
  spec.folder = spawn_options.folder;
  spec.descriptors = spawn_options.descriptors;
  spec.descriptors.emplace_back(sockets->theirs.get(), kControlDescriptor);
  if (spawn_options.is_silent) {
    spec.log = "/dev/null";
  } else if (spawn_options.output >= 0) {
    spec.descriptors.emplace_back(spawn_options.output, STDOUT_FILENO);
    spec.descriptors.emplace_back(spawn_options.output, STDERR_FILENO);
  }
  auto process = Process::start(spec);
  if (!process) return tl::unexpected(process.error());
  make_expendable(process->pid());
  return OwnProcess{std::move(*process), std::move(sockets->ours)};
}

}  // namespace autotuned::daemon
