// SPDX-License-Identifier: Apache-2.0
#include "daemon/guide/folder_listing.hpp"

#include <algorithm>
#include <optional>

#include "base/file.hpp"
#include "base/folder_names.hpp"
#include "daemon/report/run_files.hpp"

namespace autotuned::daemon {

FolderListing list_folder(const std::filesystem::path& folder, std::int64_t& names_left) {
  FolderListing listing;
  FolderNames names(folder.c_str());
  while (names_left > 0) {
    const auto name = names.next();
    if (!name) break;
    --names_left;
    const std::string text(*name);
    if (text.starts_with('.')) {
      listing.hidden.push_back(text);
      continue;
    }
    std::error_code ignored;
    const auto status = std::filesystem::status(folder / text, ignored);
    if (std::filesystem::is_directory(status)) {
      listing.folders.push_back(text);
    } else if (std::filesystem::is_regular_file(status)) {
      listing.files.push_back(text);
    } else {
      listing.special.push_back(text);
    }
  }
  listing.failure = names.failure();
  std::ranges::sort(listing.folders);
  std::ranges::sort(listing.files);
  std::ranges::sort(listing.hidden);
  std::ranges::sort(listing.special);
  return listing;
}

bool holds_predictions(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / kPredictedMark, ignored);
}

std::string first_bytes_of(const std::filesystem::path& file, std::size_t bytes) {
  return first_bytes(file, bytes).value_or("");
}

std::string lower(std::string_view text) {
  std::string lowered(text);
  for (char& letter : lowered) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return lowered;
}

std::string lower_ending(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos || dot == 0 ? std::string() : lower(name.substr(dot));
}

std::filesystem::path as_named_from(const std::filesystem::path& path,
                                    const std::filesystem::path& from) {
  std::error_code failed;
  const auto whole = std::filesystem::weakly_canonical(path, failed);
  const auto base = failed ? from : std::filesystem::weakly_canonical(from, failed);
  if (failed) return std::filesystem::absolute(path, failed);
  const auto relative = whole.lexically_relative(base);
  if (relative.empty() || *relative.begin() == "..") return whole;
  return relative;
}

}  // namespace autotuned::daemon
