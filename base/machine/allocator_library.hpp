// SPDX-License-Identifier: Apache-2.0
// Libraries that allocate memory in place of the C library, where the system has them.
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
  std::string_view file;     // within a folder of libraries
  std::string_view package;  // of Debian and its kin
};
inline constexpr std::array kAllocatorLibraries = {
    AllocatorLibrary{"jemalloc", "libjemalloc.so.2", "libjemalloc2"},
    AllocatorLibrary{"tcmalloc", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"},
};

// The folders in which this system keeps libraries for this kind of CPU. The list is fixed: variables of the environment must
// not decide which library a program loads.
[[nodiscard]] std::vector<std::filesystem::path> system_library_folders();

// The library's canonical path, from the first folder that has it. It and its folder belong to root and
// nobody else can write to them; else ErrorKind::permission. ErrorKind::unsupported: no folder has it (with
// the package that would), or there is no such allocator.
[[nodiscard]] Result<std::filesystem::path> find_allocator_library(
    std::string_view name,
    const std::vector<std::filesystem::path>& folders = system_library_folders());

// Why each of them cannot be used on this machine; an empty text: it can.
[[nodiscard]] std::map<std::string, std::string> allocators_here();

}  // namespace autotuned
