// SPDX-License-Identifier: Apache-2.0
// Checks whether a history may lie in a place: file systems, folders and modes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/result.hpp"

namespace autotuned::storage {

// Returns the name of a network file system, by the f_type of statfs(2): its locks and shared memory work only within one machine.
// Returns nothing for other file systems. FUSE and 9p count as others: they are often local (containers, WSL), and without shared
// memory SQLite fails with an error.
[[nodiscard]] std::optional<std::string_view> network_file_system(std::uint64_t type);

// ErrorKind::unsupported when `file` lies, or would lie, on a network file system.
[[nodiscard]] Result<void> check_file_system(const std::filesystem::path& file);

// Creates missing folders (0700) and, if there is no file, an empty one (0600). REQUIRES: `file` is absolute.
[[nodiscard]] Result<void> make_file(const std::filesystem::path& file);

// ErrorKind::not_found if there is no such file, permission if this process may not read it.
[[nodiscard]] Result<void> check_readable(const std::filesystem::path& file);
// Ok if this process may write to the file and create others beside it, as WAL needs.
[[nodiscard]] Result<void> check_writable(const std::filesystem::path& file);

// ErrorKind::invalid if `file`, or a folder in its path, has the name of a file that SQLite or History::claim() keeps beside a database
// that is there: a log, or the locks of runs. Links are followed. To be called before a file with a name that a user gave is made.
[[nodiscard]] Result<void> check_no_side_file(const std::filesystem::path& file);

}  // namespace autotuned::storage
