// SPDX-License-Identifier: Apache-2.0
// Where a history may lie: file systems, folders and modes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/result.hpp"

namespace autotuned::storage {

// The name of a file system whose locks and shared memory end at the machine's border, by the
// f_type of statfs(2); nothing for others. FUSE and 9p are not among them: they are as often local
// (containers, WSL), and where they lack shared memory SQLite fails cleanly.
[[nodiscard]] std::optional<std::string_view> network_file_system(std::uint64_t type);

// ErrorKind::unsupported when `file` lies, or would lie, on a network file system.
[[nodiscard]] Result<void> check_file_system(const std::filesystem::path& file);

// Makes the missing folders (0700) and an empty file (0600) when there is none. REQUIRES: absolute.
[[nodiscard]] Result<void> make_file(const std::filesystem::path& file);

// ErrorKind::not_found when there is no such file, permission when this process may not read it.
[[nodiscard]] Result<void> check_readable(const std::filesystem::path& file);
// Whether this process may write to the file and make others beside it, as WAL needs.
[[nodiscard]] Result<void> check_writable(const std::filesystem::path& file);

}  // namespace autotuned::storage
