// SPDX-License-Identifier: Apache-2.0
// Starts this program as a child process, for work that may crash or hang.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "base/process/process.hpp"
#include "base/result.hpp"

namespace autotuned::daemon {

// The first argument of such a child, and the descriptor of its end of the socket.
inline constexpr const char* kSessionProcess = "session-process";
inline constexpr const char* kPluginProcess = "plugin-process";
inline constexpr int kControlDescriptor = 3;

struct OwnProcess {
  Process process;
  Descriptor socket;  // our end
};

// Output, current folder and environment of the child.
struct SpawnOptions {
  bool is_silent = false;        // standard output and error go to /dev/null
  int output = -1;               // otherwise to this descriptor; -1: to our own
  std::filesystem::path folder;  // its current folder; empty: our own
  // NAME=value. Without a value: our own variables that submitted_variables() names, AUTOTUNED_*, and those
  // that control the loading of libraries.
  std::optional<std::vector<std::string>> environment;
  // NAME=value, instead of a variable of that name in `environment`.
  std::vector<std::string> variables;
  // {ours, number in the child}, beside the socket.
  std::vector<std::pair<int, int>> descriptors;
};

// Starts this program as `role`; it dies with us, and when memory runs out the kernel ends it before us. Call
// from the main thread.
[[nodiscard]] Result<OwnProcess> start_own_process(const std::string& role,
                                                   const SpawnOptions& spawn_options);

}  // namespace autotuned::daemon
