// SPDX-License-Identifier: Apache-2.0
// Where a user's state lies, and folders that nobody else may write.
#pragma once

#include <filesystem>

#include "base/result.hpp"

namespace autotuned {

// $XDG_STATE_HOME/autotuned, else ~/.local/state/autotuned. Need not exist.
[[nodiscard]] std::filesystem::path state_folder();

// Makes what is missing of `folder` and of those above it, with mode 0700. Each folder that gets a new one is synced:
// a power cut takes none of them away.
[[nodiscard]] Result<void> make_folders(const std::filesystem::path& folder);

// Makes `folder`, as make_folders() does, when it is missing; the one above must exist. ErrorKind::permission
// when it is not a folder (a link is none), another user owns it, or others may write it; the message
// begins with `name` ("the folder for locks") and ends with `remedy`.
[[nodiscard]] Result<void> make_private_folder(const std::filesystem::path& folder,
                                               const char* name, const char* remedy);

}  // namespace autotuned
