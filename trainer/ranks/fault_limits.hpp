// SPDX-License-Identifier: Apache-2.0
// How long a fault of one rank takes until the request has ended on all of them.
#pragma once

#include <algorithm>
#include <chrono>

namespace autotuned::trainer {

// A rank that is stopped (SIGSTOP): longer than any stands still by itself, and shorter than anybody wants to wait.
inline constexpr std::chrono::milliseconds kMostStopped = std::chrono::seconds(10);
// For all ranks to join, once all of them run and have read LibTorch: one that is lost meanwhile is waited for so long.
inline constexpr std::chrono::milliseconds kJoinLimit = std::chrono::seconds(15);
// For the answers of the others once the leader has failed and let go of them: they notice at once.
inline constexpr std::chrono::milliseconds kFailurePatience = std::chrono::seconds(10);
// For processes whose sockets have closed, all of them together: they are ending.
inline constexpr std::chrono::milliseconds kEndLimit = std::chrono::seconds(2);

// A rank is killed, stopped or out of memory, or reads damaged data: then the session has the verdict. The steps of
// others in which they notice it come on top.
inline constexpr std::chrono::milliseconds kMostUntilVerdict =
    std::max(kMostStopped, kJoinLimit) + kFailurePatience + kEndLimit;

}  // namespace autotuned::trainer
