// SPDX-License-Identifier: Apache-2.0
// Where a user's state lies, and folders that nobody else may write.
#pragma once

#include <filesystem>

#include "base/result.hpp"

namespace autotuned {

// $XDG_STATE_HOME/autotuned, else ~/.local/state/autotuned. Need not exist.
[[nodiscard]] std::filesystem::path state_folder();

// Makes `folder` with mode 0700 when it is missing; the one above must exist. ErrorKind::permission
// when it is not a folder (a link is none), another user owns it, or others may write it; the message
// begins with `name` ("the folder for locks") and ends with `remedy`.
[[nodiscard]] Result<void> make_private_folder(const std::filesystem::path& folder,
                                               const char* name, const char* remedy);

}  // namespace autotuned
