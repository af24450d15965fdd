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

// ErrorKind::invalid when the file is larger than `max_bytes` or not a regular file.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& file,
                                            std::size_t max_bytes);

// Writes a temporary file beside it, syncs, renames, syncs the folder: after a crash there is the old
// or the new content, never a part. Mode 0600 & ~umask for new files is widened to 0644 by `shared`.
[[nodiscard]] Result<void> write_file_atomically(const std::filesystem::path& file,
                                                 std::string_view content, bool shared = true);

// Removes temporary files of killed writers from the folder of write_file_atomically(). REQUIRES: nobody writes there
// now. Large files have no name before they are complete, if the file system supports that, so they leave nothing.
void remove_unfinished_files(const std::filesystem::path& folder);

// Renames a file of another writer durably: syncs `temporary`, renames it to
// `file`, syncs the folder.
[[nodiscard]] Result<void> publish_file(const std::filesystem::path& temporary,
                                        const std::filesystem::path& file);

// An exclusive flock. Held until the last copy of the descriptor closes, in this process or in a
// child that inherited it. The file's text says who holds it; it is never removed. Where the file is
// another user's, that text cannot be written and may be out of date.
// ErrorKind::busy (with that text in `what`) when somebody else holds it and `wait` is false;
// ErrorKind::cancelled when the handler of a signal interrupts the waiting.
[[nodiscard]] Result<Descriptor> lock_file(const std::filesystem::path& file,
                                           std::string_view holder, bool wait);

// Updates the text that says who holds the lock.
void name_holder(const Descriptor& lock, std::string_view holder);

// The last `max_lines` lines of a text file, at most `max_bytes`; empty when it cannot be read.
[[nodiscard]] std::string last_lines(const std::filesystem::path& file, int max_lines,
                                     std::size_t max_bytes = 8192);

}  // namespace autotuned
