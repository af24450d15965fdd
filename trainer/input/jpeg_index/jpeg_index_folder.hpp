// SPDX-License-Identifier: Apache-2.0
// The folder in which indices of JPEG files lie from run to run, one for each set of names, and which of them stay.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace autotuned::input {

// How the name of an index begins that is being written.
inline constexpr std::string_view kUnpublishedIndex = ".autotuned-index-";

struct IndexFolderLimits {
  std::chrono::system_clock::time_point now;
  std::int64_t free_bytes = 0;  // of the disk
};

// An index was used: its time of access says so, whatever the file system does by itself.
void mark_used(const std::filesystem::path& index);

// Removes indices that were not used for 30 days, then those that were used longest ago until all of them take no
// more than half of what the disk would have without them, and what was left by writers that ended a day ago.
// `spared` stays; so does what has another name than an index, which is 64 hexadecimal digits, or is no regular file.
// What cannot be removed stays, too, and costs space alone. Any number of processes at once.
void prune_indices(const std::filesystem::path& folder, const std::filesystem::path& spared,
                   const IndexFolderLimits& limits);

}  // namespace autotuned::input
