// SPDX-License-Identifier: Apache-2.0
// Whole files: bounded reads, atomic writes, locks.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace autotuned {

// Returns the whole content. ErrorKind::invalid if the file is larger than `max_bytes` or not a regular file.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& file,
                                            std::size_t max_bytes);

// Returns the first bytes of a regular file, at most `max_bytes`; nothing if it cannot be read.
[[nodiscard]] std::optional<std::string> first_bytes(const std::filesystem::path& file,
                                                     std::size_t max_bytes);

// Writes a temporary file beside `file`, syncs it, renames it and syncs the folder: after a crash `file` has
// the old or the new content, never a part. A new file has mode 0600 & ~umask; `shared` widens that to 0644.
[[nodiscard]] Result<void> write_file_atomically(const std::filesystem::path& file,
                                                 std::string_view content, bool shared = true);

// Checks a file name that a user gave, before anything is written. ErrorKind::invalid if a rename over `file` would replace a
// device, a pipe, a folder or a symbolic link, or, unless `may_replace`, a file.
[[nodiscard]] Result<void> check_output_file(const std::filesystem::path& file, bool may_replace);

// Removes the temporary files that killed writers left in `folder` (write_file_atomically()). REQUIRES: no
// process writes there now. Large files leave nothing if the file system supports files without a name.
void remove_unfinished_files(const std::filesystem::path& folder);

// Makes a file permanent that other code has written: syncs `temporary`, renames it to `file`, syncs the folder.
[[nodiscard]] Result<void> publish_file(const std::filesystem::path& temporary,
                                        const std::filesystem::path& file);

// Takes an exclusive flock, which is held until the last copy of the descriptor closes, in this process or in a child that
// inherited it. The lock file is never removed; its text names the holder. If the file belongs to another
// user, the text cannot be written and may be out of date. ErrorKind::busy (with that text in `what`) if the
// lock is held and `wait` is false; ErrorKind::cancelled if a signal handler interrupts the wait.
[[nodiscard]] Result<Descriptor> lock_file(const std::filesystem::path& file,
                                           std::string_view holder, bool wait);

// Updates the text of the lock file that names the holder.
void name_holder(const Descriptor& lock, std::string_view holder);

// Returns the last `max_lines` lines of a text file, at most `max_bytes`; an empty text if it cannot be read.
[[nodiscard]] std::string last_lines(const std::filesystem::path& file, int max_lines,
                                     std::size_t max_bytes = 8192);

}  // namespace autotuned
