// SPDX-License-Identifier: Apache-2.0
// The output folder of a run: nobody else can write there, and one run at a time does.
#pragma once

#include <filesystem>
#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace autotuned::daemon {

// In the folder of logs: whoever holds it writes there.
inline constexpr const char* kOutputLock = "run.lock";

struct OutputFolder {
  std::filesystem::path log;  // the folder for what trainers print and exchange
  Descriptor lock;            // the folder is ours while a copy of it is open
  std::string problem;  // why the lock is not held where the file system has no locks; else empty
};

// Makes the folder and `log` in it, takes the lock, and removes what killed writers left.
// ErrorKind::permission: another user owns one of the two, or can write there; a link in the place of `log`.
// ErrorKind::busy: another run, which the message names, has held the lock for five seconds. Nothing is written then.
[[nodiscard]] Result<OutputFolder> open_output_folder(const std::filesystem::path& folder,
                                                      const std::string& holder);

}  // namespace autotuned::daemon
