// SPDX-License-Identifier: Apache-2.0
// Lists the names in a folder, sorted, and turns them into the names that a recipe uses.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace autotuned::daemon {

struct FolderListing {
  std::vector<std::string> folders;  // hidden ones are left out
  std::vector<std::string> files;    // the same; links count as what they lead to
  std::vector<std::string> hidden;   // names that begin with a dot, whatever they are
  std::vector<std::string>
      special;              // neither a file nor a folder: pipes, sockets, links that lead nowhere
  std::error_code failure;  // why the folder could not be read
};

// Looks at no more than `names_left` names, and subtracts their number from `names_left`.
[[nodiscard]] FolderListing list_folder(const std::filesystem::path& folder,
                                        std::int64_t& names_left);

// Whether `predict` has made the folder, for the masks that it wrote.
[[nodiscard]] bool holds_predictions(const std::filesystem::path& folder);

// The first `bytes` bytes of a file, or all if it is shorter; empty if it cannot be read.
[[nodiscard]] std::string first_bytes_of(const std::filesystem::path& file, std::size_t bytes);

// ".jpg" of "1.jpg"; in lower case.
[[nodiscard]] std::string lower_ending(std::string_view name);
[[nodiscard]] std::string lower(std::string_view text);

// `path` as a recipe in the folder `from` names it: relative where it lies below, else absolute.
[[nodiscard]] std::filesystem::path as_named_from(const std::filesystem::path& path,
                                                  const std::filesystem::path& from);

}  // namespace autotuned::daemon
