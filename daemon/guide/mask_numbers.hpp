// SPDX-License-Identifier: Apache-2.0
// Reads which numbers the pixels of class masks have, and guesses the classes from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace autotuned::daemon {

// What PNG masks hold. Files that cannot be read or decoded are counted nowhere.
struct MaskNumbers {
  std::int64_t masks = 0;  // that were decoded
  std::set<int> numbers;   // 0 to 255, of their pixels
  // Files that are no class masks: with colours, transparency or 16 bits.
  std::vector<std::filesystem::path> others;
};

// Looks at no more than `most` of the files, evenly spaced.
[[nodiscard]] MaskNumbers numbers_in_masks(const std::vector<std::filesystem::path>& files,
                                           std::size_t most);

// The classes that the numbers of masks stand for, as a recipe describes them.
struct MaskClassesGuess {
  std::int64_t classes = 2;
  std::vector<int> values;   // the number of each class; empty: class n has the number n
  bool ignores_255 = false;  // pixels of 255 do not count, as is the default
};

// Numbers from 0 up with few gaps are taken as class indices, and 255 beside them as "does not count". Other sets, such
// as 0 and 255 or 1 to 3, become `values`. The result has at least two classes.
[[nodiscard]] MaskClassesGuess classes_of(const std::set<int>& numbers);

// "0 to 20", "0, 100, 200".
[[nodiscard]] std::string text_of(const std::set<int>& numbers);

}  // namespace autotuned::daemon
