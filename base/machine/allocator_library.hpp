// SPDX-License-Identifier: Apache-2.0
// Memory allocators that can replace that of the C library, if the system has them installed.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace autotuned {

struct AllocatorLibrary {
  std::string_view name;
  std::string_view file;     // name of the file in a library folder
  std::string_view package;  // package of Debian and its derivatives
};
inline constexpr std::array kAllocatorLibraries = {
    AllocatorLibrary{"jemalloc", "libjemalloc.so.2", "libjemalloc2"},
    AllocatorLibrary{"tcmalloc", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"},
};

// The folders in which this system keeps libraries for this CPU architecture. The list is fixed: environment
// variables must not decide which library a program loads.
[[nodiscard]] std::vector<std::filesystem::path> system_library_folders();

// The canonical path of the library, from the first folder that contains it. ErrorKind::permission unless the
// file and its folder belong to root and only root can write to them. ErrorKind::unsupported if no folder
// contains it (the error names the package) or the name is not in kAllocatorLibraries.
[[nodiscard]] Result<std::filesystem::path> find_allocator_library(
    std::string_view name,
    const std::vector<std::filesystem::path>& folders = system_library_folders());

// Returns for each allocator why it cannot be used on this machine; an empty text if it can.
[[nodiscard]] std::map<std::string, std::string> allocators_here();

}  // namespace autotuned
