// SPDX-License-Identifier: Apache-2.0
// The daemon itself: takes runs into its queue, has them done one by one per device, and tells whoever
// watches. One thread, which never waits for a client or a run.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "base/result.hpp"
#include "daemon/supervisor.hpp"

namespace autotuned::daemon {

struct ServeLimits {
  // For running sessions to stop when the daemon is told to: less than the five seconds that it promises.
  std::chrono::nanoseconds stop_grace = std::chrono::milliseconds(3500);
  std::size_t connections = 64;
  // With more memory than this the daemon takes no further runs and watchers.
  std::int64_t resident_bytes = std::int64_t{256} << 20U;
  SupervisorLimits supervisor;
};

// Serves this user until SIGTERM, SIGINT, SIGHUP or a stop request; runs that are not finished then are continued
// by the next daemon. Errors: busy (there is one already), permission and io (socket or queue).
// Call from the main thread.
[[nodiscard]] Result<void> serve(const std::filesystem::path& socket,
                                 const std::filesystem::path& store_folder,
                                 const ServeLimits& limits);

}  // namespace autotuned::daemon
