// SPDX-License-Identifier: Apache-2.0
// Children that are this very program: what may crash or hang runs in one of them.
#pragma once

#include <string>

#include "base/descriptor.hpp"
#include "base/process.hpp"
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

// Starts this program as `role` with our environment; it dies with us. With `is_silent` its standard output
// and error go to /dev/null, else they are ours. Call from the main thread.
[[nodiscard]] Result<OwnProcess> start_own_process(const std::string& role, bool is_silent);

}  // namespace autotuned::daemon
