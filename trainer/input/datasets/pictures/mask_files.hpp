// SPDX-License-Identifier: Apache-2.0
// The class masks of pictures: PNG files in which each pixel has a number.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "trainer/input/common/sample.hpp"
#include "trainer/input/datasets/pictures/picture_dataset.hpp"

namespace autotuned::input {

// The classes that the numbers of pixels stand for.
struct MaskClasses {
  int count = 1;
  std::vector<std::string> names;  // empty: the classes have only numbers
  // The class of each number of a pixel; kNoClass; or kNone if no mask may have the number.
  static constexpr std::int16_t kNone = -1;
  std::array<std::int16_t, 256> of_number{};
  std::string text;  // which numbers there are, for messages
};

// Parameters: `classes`, how many, or `names`; `values`, the number of each class (default: class n has the number n);
// `ignore_index`, the number of pixels that do not count (default 255), unless a class has it.
[[nodiscard]] Result<MaskClasses> mask_classes_from(const Json& parameters);

// For each picture the mask of the same name without its ending, or an empty text: there is none. If names are not
// unique, those of the folders that hold the files count, too. ErrorKind::invalid: two files would be one.
[[nodiscard]] Result<std::vector<std::string>> masks_of(const std::vector<std::string>& pictures,
                                                        const std::vector<std::string>& masks);

// What was found in the examined masks.
struct MaskPeek {
  MaskRoom room;
  std::int64_t masks = 0;
  bool has_classes = false;  // above 0
  bool has_no_class = false;

  // Dataset::doubt(): pixels of one class and pixels that do not count.
  [[nodiscard]] std::string doubt() const;
};

// Const, any number of threads at once, each with a room of its own. Errors name the file.
class MaskFiles {
 public:
  // `masks` has a file for each picture; one that is missing has an empty name there, as in `files`.
  MaskFiles(std::unique_ptr<PictureSource> masks, std::vector<std::string> files,
            std::vector<std::string> pictures, MaskClasses classes);

  // Whether a mask is there, as large as its picture and of the right kind, by its first bytes; of the first 50 also
  // whether all of its numbers are classes.
  [[nodiscard]] Result<void> look_at(std::int64_t item, const SampleShape& picture,
                                     MaskPeek& peek) const;
  // Dataset::read_mask(). ErrorKind::corrupt: a number that is no class.
  [[nodiscard]] Result<SampleShape> read(std::int64_t item, MaskRoom& room) const;
  [[nodiscard]] Result<void> check_size(std::int64_t item, const SampleShape& mask,
                                        const SampleShape& picture) const;
  void will_need(std::int64_t item) const;

 private:
  [[nodiscard]] const std::string& file(std::int64_t item) const {
    return files_[static_cast<std::size_t>(item)];
  }
  Result<SampleShape> begin(std::int64_t item, std::size_t most_bytes, MaskRoom& room) const;
  [[nodiscard]] Error unknown_number(std::int64_t item, const SampleShape& shape,
                                     const MaskRoom& room) const;

  std::unique_ptr<PictureSource> masks_;
  std::vector<std::string> files_;
  std::vector<std::string> pictures_;
  MaskClasses classes_;
};

}  // namespace autotuned::input
