// SPDX-License-Identifier: Apache-2.0
// The folder that keeps indices of JPEG files between runs, one for each set of files, and its clean-up.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace autotuned::input {

// The prefix of an index's name while it is being written.
inline constexpr std::string_view kUnpublishedIndex = ".autotuned-index-";

struct IndexFolderLimits {
  std::chrono::system_clock::time_point now;
  std::int64_t free_bytes = 0;  // of the disk
};

// Marks an index as used by its time of access, whatever the options of the file system.
void mark_used(const std::filesystem::path& index);

// Removes indices that were not used for 30 days, then the least recently used ones until all take at most half of the
// space that the disk would have without them, and unfinished files that are a day old. Keeps `spared`, files with
// other names than 64 hexadecimal digits, and everything that is not a regular file. A file that cannot be removed
// only costs space. Any number of processes at once.
void prune_indices(const std::filesystem::path& folder, const std::filesystem::path& spared,
                   const IndexFolderLimits& limits);

}  // namespace autotuned::input
