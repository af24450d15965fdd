// SPDX-License-Identifier: Apache-2.0
#include "daemon/own_process.hpp"

#include <unistd.h>

#include <utility>
#include <vector>

#include "daemon/places.hpp"

namespace autotuned::daemon {

namespace {

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (!text.starts_with("AUTOTUNED_PARENT_PID=")) variables.push_back(text);
  }
  return variables;
}

}  // namespace

Result<OwnProcess> start_own_process(const std::string& role, const Surroundings& surroundings) {
  auto sockets = socket_pair();
  if (!sockets) return tl::unexpected(sockets.error());
  ProcessSpec spec;
  spec.program = find_places().program;
  spec.arguments = {role};
  spec.environment = surroundings.environment ? *surroundings.environment : own_environment();
  for (const std::string& variable : surroundings.variables) {
    const std::string name = variable.substr(0, variable.find('=') + 1);
    std::erase_if(spec.environment,
                  [&name](const std::string& known) { return known.starts_with(name); });
    spec.environment.push_back(variable);
  }
  spec.environment.push_back("AUTOTUNED_PARENT_PID=" + std::to_string(getpid()));
  spec.folder = surroundings.folder;
  spec.descriptors = {{sockets->theirs.get(), kControlDescriptor}};
  if (surroundings.is_silent) {
    spec.log = "/dev/null";
  } else if (surroundings.output >= 0) {
    spec.descriptors.emplace_back(surroundings.output, STDOUT_FILENO);
    spec.descriptors.emplace_back(surroundings.output, STDERR_FILENO);
  }
  auto process = Process::start(spec);
  if (!process) return tl::unexpected(process.error());
  return OwnProcess{std::move(*process), std::move(sockets->ours)};
}

}  // namespace autotuned::daemon
