// SPDX-License-Identifier: Apache-2.0
// Where the parts of an installation and of a user's state are.
#pragma once

#include <filesystem>

#include "base/result.hpp"

namespace autotuned::daemon {

struct Places {
  std::filesystem::path program;           // the running `autotuned`
  std::filesystem::path trainer;           // autotuned-trainer beside it, or $AUTOTUNED_TRAINER
  std::filesystem::path built_in_plugins;  // ../lib/autotuned/plugins
  std::filesystem::path templates;         // ../share/autotuned/templates, for `plugins new`
};

// From /proc/self/exe. The trainer need not exist: starting it says so.
[[nodiscard]] Places find_places();

// A folder for locks and the daemon's socket that only this user can write: $XDG_RUNTIME_DIR/autotuned,
// else /run/user/UID/autotuned, else /tmp/autotuned-UID (never a home, which may lie on a network); made
// when it is missing. ErrorKind::permission when somebody else owns it.
[[nodiscard]] Result<std::filesystem::path> lock_folder();

}  // namespace autotuned::daemon
