// SPDX-License-Identifier: Apache-2.0
// What a shared library is, read from the file: before anything of it runs.
#pragma once

#include <filesystem>

#include "base/result.hpp"

namespace autotuned::plugins {

// Ok for a whole shared library of this architecture. Libraries that read symbols believe the sizes in
// a file's headers, and mapping a truncated one ends in SIGBUS; so everything that the headers point
// to must lie in the file. Errors say what the file is and what was expected.
[[nodiscard]] Result<void> check_library_file(const std::filesystem::path& file);

}  // namespace autotuned::plugins
