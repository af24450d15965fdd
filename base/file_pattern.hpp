// SPDX-License-Identifier: Apache-2.0
// Many files by one pattern, such as photos/*.jpg.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace autotuned {

// Returns the files that a shell pattern matches (* ? [...]; a backslash makes the next character literal), sorted by their
// bytes; an empty list if there are none. A path without such characters matches itself, if it exists. Folders are left out.
// ErrorKind::permission or io if a folder on the way cannot be read.
[[nodiscard]] Result<std::vector<std::string>> files_matching(const std::string& pattern);

// Returns a pattern that matches `path` and nothing else.
[[nodiscard]] std::string as_pattern(std::string_view path);

}  // namespace autotuned
