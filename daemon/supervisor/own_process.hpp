// SPDX-License-Identifier: Apache-2.0
// Children that are this very program: what may crash or hang runs in one of them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
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

// What the child gets of its surroundings.
struct Surroundings {
  bool is_silent = false;        // standard output and error go to /dev/null
  int output = -1;               // else to this descriptor, or to ours when it is -1
  std::filesystem::path folder;  // its current folder; empty: ours
  // NAME=value; nothing: of ours what submitted_variables() names, AUTOTUNED_* and what loads libraries.
  std::optional<std::vector<std::string>> environment;
  // NAME=value, in the place of what is there under that name.
  std::vector<std::string> variables;
};

// Starts this program as `role`; it dies with us, and when memory runs out the kernel ends it before us. Call
// from the main thread.
[[nodiscard]] Result<OwnProcess> start_own_process(const std::string& role,
                                                   const Surroundings& surroundings);

}  // namespace autotuned::daemon
