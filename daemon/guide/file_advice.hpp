// SPDX-License-Identifier: Apache-2.0
// The error for a file that was given where `init` takes a folder.
#pragma once

#include <filesystem>

#include "base/result.hpp"

namespace autotuned::daemon {

// ErrorKind::invalid. From the ending of the name it tells what the file is, and the command that takes it. `file` is
// the path as it was typed.
[[nodiscard]] Error file_where_folder_is_expected(const std::filesystem::path& file);

}  // namespace autotuned::daemon
