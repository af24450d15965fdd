// SPDX-License-Identifier: Apache-2.0
// What a shared library is, read from the file: before anything of it runs.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace autotuned::plugins {

// Ok for a whole shared library of this architecture. Libraries that read symbols believe the sizes in
// a file's headers, and mapping a truncated one ends in SIGBUS; so everything that the headers point
// to must lie in the file. Errors say what the file is and what was expected.
[[nodiscard]] Result<void> check_library_file(const std::filesystem::path& file);

// The text in the section of that name up to its first NUL, at most 1 MiB; empty where there is no such
// section. REQUIRES: check_library_file(file).
[[nodiscard]] Result<std::string> read_section(const std::filesystem::path& file,
                                               std::string_view name);

}  // namespace autotuned::plugins
