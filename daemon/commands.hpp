// SPDX-License-Identifier: Apache-2.0
// The command line: what a person may type, parsed and handed to one function per command.
#pragma once

namespace autotuned::daemon {

// Exit codes, documented in docs/commands.md.
inline constexpr int kDone = 0;
inline constexpr int kWorkFailed = 1;
inline constexpr int kUsageError = 2;
inline constexpr int kNothingFaster = 3;
inline constexpr int kEnvironmentUnusable = 4;
inline constexpr int kCancelled = 130;

// Parses and runs one command. Returns the exit code.
[[nodiscard]] int run_command(int argc, char** argv);

}  // namespace autotuned::daemon
