// SPDX-License-Identifier: Apache-2.0
#include "daemon/guide/mask_folders.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_pattern.hpp"
#include "base/text.hpp"
#include "daemon/guide/mask_numbers.hpp"
#include "daemon/guide/picture_header.hpp"

namespace autotuned::daemon {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kImages = {"images", "image", "imgs", "img"};
constexpr std::array<std::string_view, 4> kMasks = {"masks", "mask", "annotations", "labels"};
constexpr std::array<std::string_view, 2> kTraining = {"train", "training"};
constexpr std::array<std::string_view, 5> kTests = {"val", "valid", "validation", "test",
                                                    "testing"};
constexpr std::size_t kFirst = 100;
// Some milliseconds each.
constexpr std::size_t kMaxDecoded = 100;
constexpr std::size_t kMaxNamed = 3;

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
  std::string data;  // without the classes
  std::vector<fs::path> examples;
  std::vector<fs::path> masks;
};

std::optional<Pair> pair_in(const fs::path& folder, const fs::path& from,
                            const FolderListing& listing, std::int64_t& names_left) {
  const std::string images = folder_named(kImages, listing);
  const std::string masks = folder_named(kMasks, listing);
  if (images.empty() || masks.empty()) return std::nullopt;
  Pair pair;
  std::set<std::string> stems;
  std::set<std::string> mask_endings;  // as they are written
  const FolderListing of_masks = list_folder(folder / masks, names_left);
  const FolderListing of_images = list_folder(folder / images, names_left);
  for (const std::string& name : of_masks.files) {
    if (lower_ending(name) != ".png") continue;
    stems.insert(stem_of(name));
    mask_endings.insert(name.substr(name.rfind('.')));
    pair.masks.push_back(folder / masks / name);
  }
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
              ", masks: " + patterns(masks, mask_endings);
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

// The parameters of the classes in a recipe: "classes: 3" or "classes: 2, values: [0, 255]".
std::string classes_text(const MaskClassesGuess& guess) {
  std::string text = "classes: " + std::to_string(guess.classes);
  for (std::size_t i = 0; i < guess.values.size(); ++i)
    text += (i == 0 ? ", values: [" : ", ") + std::to_string(guess.values[i]);
  return guess.values.empty() ? text : text + "]";
}

// Takes the classes from the numbers of the masks, and says of how many.
void add_classes(const Pair& training, DataFolder& found) {
  const MaskNumbers seen = numbers_in_masks(training.masks, kMaxDecoded);
  const MaskClassesGuess guess = classes_of(seen.numbers);
  found.classes = guess.classes;
  found.data += ", " + classes_text(guess);
  if (!found.test_data.empty()) found.test_data += ", " + classes_text(guess);
  const std::int64_t all = std::ssize(training.masks);
  if (seen.masks > 0) {
    const std::string of = seen.masks == all ? "" : format_count(seen.masks) + " of the ";
    found.masks_text = of + format_counted(all, "mask") + (all == 1 ? " was" : " were") +
                       " read: the pixels have the numbers " + text_of(seen.numbers) +
                       (guess.ignores_255 ? ", of which 255 does not count." : ".");
  } else {
    found.notes.emplace_back(
        "the number of classes is a guess, for no mask could be read: write yours into data and "
        "model");
  }
  if (seen.others.empty()) return;
  std::vector<std::string> names;
  for (const fs::path& file : seen.others)
    names.push_back(file.filename().string());
  found.notes.push_back(
      format_count(std::ssize(seen.others)) + " of the " +
      format_counted(seen.masks + std::ssize(seen.others), "mask") +
      " that were read hold colours, transparency or 16 bits, and not the number of a class in "
      "each pixel (" +
      format_names(names, kMaxNamed) +
      "): convert them (docs/recipe.md, Masks in colours), then call init again");
}

}  // namespace

std::optional<DataFolder> folders_of_masks(const fs::path& folder, const fs::path& from,
                                           const FolderListing& listing, std::int64_t& names_left) {
  auto training = pair_in(folder, from, listing, names_left);
  std::optional<Pair> tests;
  if (const std::string part = folder_named(kTraining, listing); !training && !part.empty()) {
    training = pair_in(folder / part, from, list_folder(folder / part, names_left), names_left);
    const std::string beside = folder_named(kTests, listing);
    if (training && !beside.empty())
      tests = pair_in(folder / beside, from, list_folder(folder / beside, names_left), names_left);
  }
  if (!training) return std::nullopt;
  DataFolder found{.samples = Samples::pictures};
  found.has_masks = true;
  found.count = training->count;
  found.found = format_count(training->count) + (training->count == 1 ? " picture" : " pictures") +
                " with masks";
  if (tests) found.found += ", " + format_count(tests->count) + " more for tests";
  found.shorter_side = median_side(training->examples);
  found.data = training->data;
  if (tests) found.test_data = tests->data;
  add_classes(*training, found);
  return found;
}

}  // namespace autotuned::daemon
