// SPDX-License-Identifier: Apache-2.0
// Many files by one pattern, such as photos/*.jpg.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace autotuned {

// The files that a pattern of the shell matches (* ? [...], a backslash takes a character as it is),
// sorted by their bytes; none is no error. A path without such characters is itself, if it exists.
// Folders are left out. ErrorKind::permission or io when a folder on the way cannot be read.
[[nodiscard]] Result<std::vector<std::string>> files_matching(const std::string& pattern);

// A pattern that matches `path` and nothing else.
[[nodiscard]] std::string as_pattern(std::string_view path);

}  // namespace autotuned
