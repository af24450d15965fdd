// SPDX-License-Identifier: Apache-2.0
// Time limits after a fault of one rank, until the request has ended on all of them.
#pragma once

#include <algorithm>
#include <chrono>

namespace autotuned::trainer {

// A rank that is stopped (SIGSTOP) for this long is ended: longer than any rank pauses by itself.
inline constexpr std::chrono::milliseconds kMaxStopped = std::chrono::seconds(10);
// How long all ranks may take to join, once they run and have read LibTorch. A rank that is lost meanwhile is waited
// for this long.
inline constexpr std::chrono::milliseconds kJoinLimit = std::chrono::seconds(15);
// How long the other ranks may take to answer after the leader has failed and left the group, which they notice at
// once.
inline constexpr std::chrono::milliseconds kFailurePatience = std::chrono::seconds(10);
// How long the exchange with a rank that has left a group on GPUs may take to end. Then the process of this rank is
// ended.
inline constexpr std::chrono::milliseconds kExchangeEndLimit = std::chrono::seconds(5);
// How long processes whose sockets have closed may take to end, all of them together.
inline constexpr std::chrono::milliseconds kEndLimit = std::chrono::seconds(2);

// The session gets the error of a rank that is killed, stopped or out of memory, or that reads damaged data, within
// this time, plus the steps in which the other ranks notice it.
inline constexpr std::chrono::milliseconds kMaxUntilVerdict =
    std::max(kMaxStopped + kExchangeEndLimit, kJoinLimit) + kFailurePatience + kEndLimit;

}  // namespace autotuned::trainer
