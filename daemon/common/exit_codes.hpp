// SPDX-License-Identifier: Apache-2.0
// How a command ends; docs/commands.md documents these numbers.
#pragma once

namespace autotuned::daemon {

inline constexpr int kDone = 0;
inline constexpr int kWorkFailed = 1;  // `guard`: slower, too
inline constexpr int kUsageError = 2;
inline constexpr int kNothingFaster = 3;
inline constexpr int kUndecided = 3;  // of `guard`
inline constexpr int kEnvironmentUnusable = 4;
inline constexpr int kCancelled = 130;

}  // namespace autotuned::daemon
