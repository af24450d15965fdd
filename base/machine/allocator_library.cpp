// SPDX-License-Identifier: Apache-2.0
#include "base/machine/allocator_library.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace autotuned {
namespace {

// Returns why a file or folder cannot be trusted: users other than root could have made or changed it. Empty if it can be.
std::string distrust(const std::filesystem::path& path, mode_t kind) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return "cannot be examined";
  if ((status.st_mode & S_IFMT) != kind) return "has the wrong type of file";
  if (status.st_uid != 0) return "is not owned by root";
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "is writable by users other than root";
  return {};
}

}  // namespace

std::vector<std::filesystem::path> system_library_folders() {
  return {
#if defined(__x86_64__)
    "/usr/lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
    "/usr/lib/aarch64-linux-gnu",
#endif
        "/usr/lib64", "/usr/lib"
  };
}

Result<std::filesystem::path> find_allocator_library(
    std::string_view name, const std::vector<std::filesystem::path>& folders) {
  const auto* const library = std::ranges::find(kAllocatorLibraries, name, &AllocatorLibrary::name);
  if (library == kAllocatorLibraries.end()) {
    return fail(ErrorKind::unsupported, "there is no allocator '" + std::string(name) + "'");
  }
  for (const std::filesystem::path& folder : folders) {
    std::error_code error;
    const std::filesystem::path file = std::filesystem::canonical(folder / library->file, error);
    if (error) continue;
    std::string reason = distrust(file, S_IFREG);
    if (!reason.empty()) return fail(ErrorKind::permission, std::move(reason), file.string());
    reason = distrust(file.parent_path(), S_IFDIR);
    if (!reason.empty()) {
      return fail(ErrorKind::permission, std::move(reason), file.parent_path().string());
    }
    return file;
  }
  return fail(ErrorKind::unsupported, "needs " + std::string(library->file) + " from the package " +
                                          std::string(library->package));
}

std::map<std::string, std::string> allocators_here() {
  std::map<std::string, std::string> reasons;
  for (const AllocatorLibrary& library : kAllocatorLibraries) {
    const auto file = find_allocator_library(library.name);
    reasons[std::string(library.name)] = file ? "" : file.error().message();
  }
  return reasons;
}

}  // namespace autotuned
