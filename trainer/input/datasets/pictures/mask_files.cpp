// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/pictures/mask_files.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "trainer/input/datasets/dataset_types.hpp"
#include "trainer/input/decode/png_decoder.hpp"

namespace autotuned::input {
namespace {

// Where the headers of nearly every file end.
constexpr std::size_t kMaskHeaderBytes = std::size_t{64} << 10U;
// Masks that are decoded before the training: some milliseconds each.
constexpr std::int64_t kMaxDecoded = 50;
constexpr std::int64_t kMaxNumber = 255;

std::string size_text(const SampleShape& shape) {
  return std::to_string(shape.height) + " x " + std::to_string(shape.width) + " pixels";
}

tl::unexpected<Error> wrong(const char* name, const std::string& problem, std::string remedy) {
  return fail(ErrorKind::invalid, "`" + std::string(name) + "` " + problem, "data",
              std::move(remedy));
}

Result<std::vector<std::string>> names_from(const Json& list) {
  std::vector<std::string> names;
  for (const Json& name : list) {
    if (!name.is_string()) return wrong("names", "is no list of names", "give one for each class");
    names.push_back(name.get<std::string>());
  }
  const std::set<std::string> different(names.begin(), names.end());
  if (different.size() == names.size()) return names;
  return wrong("names", "has a name twice", "give each class a name of its own");
}

// "b" of "a/b.png", or "a/b" where the folder counts.
std::string key_of(const std::string& file, bool with_folder) {
  const std::filesystem::path path(file);
  const std::string stem = path.stem().string();
  return with_folder ? path.parent_path().filename().string() + "/" + stem : stem;
}

// A file that has the name of an earlier one; null: there is none.
const std::string* second_of_name(const std::vector<std::string>& files, bool with_folder) {
  std::set<std::string> keys;
  for (const std::string& file : files)
    if (!keys.insert(key_of(file, with_folder)).second) return &file;
  return nullptr;
}

}  // namespace

Result<MaskClasses> mask_classes_from(const Json& parameters) {
  MaskClasses classes;
  const Json& names = member(parameters, "names");
  if (names.is_array()) {
    auto read = names_from(names);
    if (!read) return tl::unexpected(read.error());
    classes.names = std::move(*read);
  }
  std::optional<std::int64_t> named;
  if (!classes.names.empty()) named = std::ssize(classes.names);
  const auto count = bounded_integer(parameters, "classes", 1, kMaxMaskClasses, named);
  if (!count) return tl::unexpected(count.error());
  if ((named && *named != *count) || *count > kMaxMaskClasses) {
    return wrong("names",
                 "has " + std::to_string(classes.names.size()) + " names for " +
                     std::to_string(*count) + " classes",
                 "leave `classes` out; there are at most 255");
  }
  classes.count = static_cast<int>(*count);
  const auto ignored = bounded_integer(parameters, "ignore_index", 0, kMaxNumber, kMaxNumber);
  if (!ignored) return tl::unexpected(ignored.error());

  const Json& values = member(parameters, "values");
  if (values.is_array() && std::ssize(values) != *count) {
    return wrong("values",
                 "has " + std::to_string(values.size()) + " numbers for " + std::to_string(*count) +
                     " classes",
                 "give the number that the pixels of each class have");
  }
  classes.of_number.fill(MaskClasses::kNone);
  classes.of_number[static_cast<std::size_t>(*ignored)] = kNoClass;
  std::set<std::int64_t> taken;
  for (std::size_t i = 0; i < static_cast<std::size_t>(*count); ++i) {
    const auto plain = static_cast<std::int64_t>(i);
    const Json number = values.is_array() ? values[i] : Json(plain);
    if (!number.is_number_integer() || number < 0 || number > kMaxNumber ||
        !taken.insert(number.get<std::int64_t>()).second) {
      return wrong("values", "is no list of different integers from 0 to 255",
                   "give the number that the pixels of each class have");
    }
    // Without a list, a number that does not count is no class either.
    if (!values.is_array() && plain == *ignored) continue;
    classes.of_number[number.get<std::size_t>()] = static_cast<std::int16_t>(i);
  }
  if (values.is_array()) {
    classes.text = "the classes have the numbers " + to_line(values);
  } else {
    classes.text = "the classes are 0 to " + std::to_string(*count - 1);
  }
  if (classes.of_number[static_cast<std::size_t>(*ignored)] == kNoClass) {
    classes.text += ", and " + std::to_string(*ignored) + " does not count";
  }
  return classes;
}

Result<std::vector<std::string>> masks_of(const std::vector<std::string>& pictures,
                                          const std::vector<std::string>& masks) {
  const bool with_folder =
      second_of_name(pictures, false) != nullptr || second_of_name(masks, false) != nullptr;
  for (const std::vector<std::string>* const files : {&pictures, &masks}) {
    const std::string* const second = second_of_name(*files, with_folder);
    if (second == nullptr) continue;
    return fail(ErrorKind::invalid,
                "another file has the same name, so masks and pictures cannot "
                "be matched",
                *second, "give every picture and its mask a name of their own");
  }
  std::map<std::string, std::string, std::less<>> by_name;
  for (const std::string& mask : masks)
    by_name.emplace(key_of(mask, with_folder), mask);
  std::vector<std::string> matched;
  for (const std::string& picture : pictures) {
    const auto found = by_name.find(key_of(picture, with_folder));
    matched.push_back(found != by_name.end() ? found->second : std::string());
  }
  return matched;
}

std::string MaskPeek::doubt() const {
  if (masks == 0 || has_classes || !has_no_class) return {};
  return "the first " + format_count(masks) +
         " masks hold class 0 and pixels that do not count, and no other class; where these are "
         "the second class, write values: [0, 255] and classes: 2";
}

MaskFiles::MaskFiles(std::unique_ptr<PictureSource> masks, std::vector<std::string> files,
                     std::vector<std::string> pictures, MaskClasses classes)
    : masks_(std::move(masks)),
      files_(std::move(files)),
      pictures_(std::move(pictures)),
      classes_(std::move(classes)) {}

Result<SampleShape> MaskFiles::begin(std::int64_t item, std::size_t most_bytes,
                                     MaskRoom& room) const {
  if (file(item).empty()) {
    return fail(ErrorKind::not_found, "has no mask: no file of `masks` has its name",
                pictures_[static_cast<std::size_t>(item)],
                "put a PNG file of its name there, or set on_error: skip");
  }
  const auto read = masks_->read_front(item, most_bytes, room.file);
  if (!read) return tl::unexpected(read.error());
  if (!is_png(room.file)) {
    return fail(ErrorKind::unsupported, "is no PNG file", file(item),
                "save masks as PNG files, with the number of its class in each pixel");
  }
  if (room.decoder == nullptr) room.decoder = std::make_shared<PngDecoder>(PngPixels::numbers);
  auto shape = room.decoder->begin(room.file);
  if (!shape) shape.error().where = file(item);
  return shape;
}

Result<void> MaskFiles::look_at(std::int64_t item, const SampleShape& picture,
                                MaskPeek& peek) const {
  MaskRoom& room = peek.room;
  auto shape = begin(item, kMaskHeaderBytes, room);
  if (!shape && !file(item).empty() && room.file.size() == kMaskHeaderBytes) {
    shape = begin(item, kMaxPictureBytes, room);
  }
  if (!shape) return tl::unexpected(shape.error());
  if (auto fits = check_size(item, *shape, picture); !fits) return fits;
  if (item >= kMaxDecoded) return {};
  if (const auto decoded = read(item, room); !decoded) return tl::unexpected(decoded.error());
  ++peek.masks;
  for (const std::uint8_t number : room.classes) {
    peek.has_no_class |= number == kNoClass;
    peek.has_classes |= number != kNoClass && number > 0;
  }
  return {};
}

Result<SampleShape> MaskFiles::read(std::int64_t item, MaskRoom& room) const {
  const auto shape = begin(item, kMaxPictureBytes, room);
  if (!shape) return shape;
  room.classes.resize(static_cast<std::size_t>(shape->elements()));
  if (auto decoded = room.decoder->decode(room.classes.data()); !decoded) {
    decoded.error().where = file(item);
    return tl::unexpected(std::move(decoded.error()));
  }
  bool is_known = true;
  for (const std::uint8_t number : room.classes)
    is_known &= classes_.of_number[number] != MaskClasses::kNone;
  if (!is_known) return tl::unexpected(unknown_number(item, *shape, room));
  for (std::uint8_t& pixel : room.classes)
    pixel = static_cast<std::uint8_t>(classes_.of_number[pixel]);
  return shape;
}

Error MaskFiles::unknown_number(std::int64_t item, const SampleShape& shape,
                                const MaskRoom& room) const {
  const auto found = std::ranges::find_if(room.classes, [this](std::uint8_t number) {
    return classes_.of_number[number] == MaskClasses::kNone;
  });
  const auto at = found - room.classes.begin();
  return {ErrorKind::invalid,  // a mistake of the recipe, so no damage that is skipped
          "the pixel in row " + std::to_string(at / shape.width) + ", column " +
              std::to_string(at % shape.width) + " has the number " + std::to_string(*found) +
              ", which is no class: " + classes_.text,
          file(item), "correct the mask, `classes`, `values` or `ignore_index`"};
}

Result<void> MaskFiles::check_size(std::int64_t item, const SampleShape& mask,
                                   const SampleShape& picture) const {
  if (mask.height == picture.height && mask.width == picture.width) return {};
  return fail(ErrorKind::corrupt,
              "has " + size_text(mask) + ", and its picture " +
                  pictures_[static_cast<std::size_t>(item)] + " has " + size_text(picture),
              file(item), "make the mask as large as its picture, or set on_error: skip");
}

void MaskFiles::will_need(std::int64_t item) const {
  if (!file(item).empty()) masks_->will_need(item);
}

}  // namespace autotuned::input
