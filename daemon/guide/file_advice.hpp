// SPDX-License-Identifier: Apache-2.0
// What to do with a file that somebody names where `init` takes a folder.
#pragma once

#include <filesystem>

#include "base/result.hpp"

namespace autotuned::daemon {

// ErrorKind::invalid, by the ending of the name: what the file is, and the command that takes it. `file`: as it was typed.
[[nodiscard]] Error file_where_folder_is_expected(const std::filesystem::path& file);

}  // namespace autotuned::daemon
