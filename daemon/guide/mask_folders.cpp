// SPDX-License-Identifier: Apache-2.0
#include "daemon/guide/mask_folders.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_pattern.hpp"
#include "base/text.hpp"
#include "daemon/guide/picture_header.hpp"

namespace autotuned::daemon {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kImages = {"images", "image", "imgs", "img"};
constexpr std::array<std::string_view, 4> kMasks = {"masks", "mask", "annotations", "labels"};
constexpr std::array<std::string_view, 2> kTraining = {"train", "training"};
constexpr std::array<std::string_view, 5> kTests = {"val", "valid", "validation", "test",
                                                    "testing"};
// Masks are decoded by the trainer alone.
constexpr int kGuessedClasses = 2;
constexpr std::size_t kFirst = 100;

// The folder that has one of the names; empty: there is none.
template <std::size_t kCount>
std::string folder_named(const std::array<std::string_view, kCount>& names,
                         const FolderListing& listing) {
  for (const std::string_view name : names) {
    const auto found = std::ranges::find_if(
        listing.folders, [&](const std::string& folder) { return lower(folder) == name; });
    if (found != listing.folders.end()) return *found;
  }
  return {};
}

std::string stem_of(const std::string& name) {
  return name.substr(0, name.rfind('.'));
}

struct Pair {
  std::int64_t count = 0;
  std::string data;
  std::vector<fs::path> examples;
};

std::optional<Pair> pair_in(const fs::path& folder, const fs::path& from,
                            const FolderListing& listing, std::int64_t& room) {
  const std::string images = folder_named(kImages, listing);
  const std::string masks = folder_named(kMasks, listing);
  if (images.empty() || masks.empty()) return std::nullopt;
  std::set<std::string> stems;
  std::set<std::string> mask_endings;  // as they are written
  const FolderListing of_masks = list_folder(folder / masks, room);
  const FolderListing of_images = list_folder(folder / images, room);
  for (const std::string& name : of_masks.files) {
    if (lower_ending(name) != ".png") continue;
    stems.insert(stem_of(name));
    mask_endings.insert(name.substr(name.rfind('.')));
  }
  Pair pair;
  std::set<std::string> endings;
  std::size_t looked_at = 0;
  std::size_t matched = 0;
  for (const std::string& name : of_images.files) {
    const std::string ending = lower_ending(name);
    if (ending != ".jpg" && ending != ".jpeg" && ending != ".png") continue;
    ++pair.count;
    endings.insert(name.substr(name.rfind('.')));
    if (pair.examples.size() < 8) pair.examples.push_back(folder / images / name);
    if (looked_at == kFirst) continue;
    ++looked_at;
    if (stems.contains(stem_of(name))) ++matched;
  }
  if (pair.count == 0 || 2 * matched < looked_at) return std::nullopt;
  const auto pattern = [&](const std::string& part, const std::string& ending) {
    const std::string named = as_named_from(folder / part, from).string();
    return yaml_text((named == "." ? std::string() : as_pattern(named) + "/") + "*" + ending);
  };
  const auto patterns = [&](const std::string& part, const std::set<std::string>& of_part) {
    std::string files;
    for (const std::string& ending : of_part)
      files += (files.empty() ? "" : ", ") + pattern(part, ending);
    return of_part.size() == 1 ? files : "[" + files + "]";
  };
  pair.data = "type: image_masks, files: " + patterns(images, endings) +
              ", masks: " + patterns(masks, mask_endings) +
              ", classes: " + std::to_string(kGuessedClasses);
  return pair;
}

int median_side(const std::vector<fs::path>& files) {
  std::vector<int> sides;
  for (const fs::path& file : files)
    if (const int side = shorter_side(first_bytes_of(file, kPictureHeaderBytes)); side > 0)
      sides.push_back(side);
  std::ranges::sort(sides);
  return sides.empty() ? 0 : sides[sides.size() / 2];
}

}  // namespace

std::optional<DataFolder> folders_of_masks(const fs::path& folder, const fs::path& from,
                                           const FolderListing& listing, std::int64_t& room) {
  auto training = pair_in(folder, from, listing, room);
  std::optional<Pair> tests;
  if (const std::string part = folder_named(kTraining, listing); !training && !part.empty()) {
    training = pair_in(folder / part, from, list_folder(folder / part, room), room);
    const std::string beside = folder_named(kTests, listing);
    if (training && !beside.empty())
      tests = pair_in(folder / beside, from, list_folder(folder / beside, room), room);
  }
  if (!training) return std::nullopt;
  DataFolder found{.samples = Samples::pictures};
  found.has_masks = true;
  found.count = training->count;
  found.classes = kGuessedClasses;
  found.found = format_count(training->count) + (training->count == 1 ? " picture" : " pictures") +
                " with masks";
  if (tests) found.found += ", " + format_count(tests->count) + " more for tests";
  found.shorter_side = median_side(training->examples);
  found.data = training->data;
  if (tests) found.test_data = tests->data;
  found.notes.emplace_back(
      "the number of classes is a guess: write yours into data and model; `autotuned check` names "
      "a mask that has another one");
  return found;
}

}  // namespace autotuned::daemon
