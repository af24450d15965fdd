// SPDX-License-Identifier: Apache-2.0
// Where the tree and its build are. Functions, not macros: an absolute path in the command line of a large
// file would keep the compiler cache from serving another clone.
#pragma once

#include <filesystem>

namespace autotuned::bench {

// Both absolute.
[[nodiscard]] std::filesystem::path source_folder();
[[nodiscard]] std::filesystem::path build_folder();

}  // namespace autotuned::bench
