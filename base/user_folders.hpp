// SPDX-License-Identifier: Apache-2.0
// The home and the state of a user, and folders to which only their owner may write.
#pragma once

#include <filesystem>

#include "base/result.hpp"

namespace autotuned {

// Returns $HOME, or else the home that the system knows for this user, or "." if it knows none.
[[nodiscard]] std::filesystem::path home_folder();

// Returns $XDG_STATE_HOME/autotuned, or else ~/.local/state/autotuned. The folder need not exist.
[[nodiscard]] std::filesystem::path state_folder();

// Creates `folder` and missing folders above it, with mode 0700. Syncs each folder that gets a new entry, so
// that the new folders survive a power cut.
[[nodiscard]] Result<void> make_folders(const std::filesystem::path& folder);

// Creates `folder`, if it is missing, with mode 0700; the folder above it must exist. ErrorKind::permission if it is not a folder
// (a link does not count as one), belongs to another user, or may be written by others. The message begins with `name` ("the
// folder for locks") and ends with `remedy`.
[[nodiscard]] Result<void> make_private_folder(const std::filesystem::path& folder,
                                               const char* name, const char* remedy);

}  // namespace autotuned
