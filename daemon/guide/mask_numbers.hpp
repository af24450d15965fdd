// SPDX-License-Identifier: Apache-2.0
// Which numbers the pixels of class masks have, and so which classes there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace autotuned::daemon {

// Of PNG files; those that cannot be read or decoded are in neither list.
struct MaskNumbers {
  std::int64_t masks = 0;  // that were decoded
  std::set<int> numbers;   // 0 to 255, of their pixels
  // That hold something else: colours, transparency or 16 bits.
  std::vector<std::filesystem::path> others;
};

// Looks at no more than `most` of the files, at even distances.
[[nodiscard]] MaskNumbers numbers_in_masks(const std::vector<std::filesystem::path>& files,
                                           std::size_t most);

// The classes that a recipe takes these numbers for.
struct MaskClassesGuess {
  std::int64_t classes = 2;
  std::vector<int> values;   // the number of each class; empty: class n has the number n
  bool ignores_255 = false;  // pixels of 255 do not count, as is the default
};

// Numbers from 0 on with few gaps are classes, and 255 beside them does not count. Others, such as 0 and 255 or 1 to 3, are the
// numbers of the classes themselves. At least two classes.
[[nodiscard]] MaskClassesGuess classes_of(const std::set<int>& numbers);

// "0 to 20", "0, 100, 200".
[[nodiscard]] std::string text_of(const std::set<int>& numbers);

}  // namespace autotuned::daemon
