// SPDX-License-Identifier: Apache-2.0
// A table of picture files and their labels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace autotuned::input {

struct ImageIndex {
  std::vector<std::string> files;     // absolute if the index is
  std::vector<std::uint16_t> labels;  // one per file
  int classes = 1;
  std::vector<std::string> names;  // of the classes; empty: labels are integers
};

// Reads a CSV or TSV file (base/table_file.hpp): a line `file,label` per picture, files relative to the folder of the
// index. A first line whose first cell is a word such as `file`, `filename`, `path` or `image` (is_heading_of_files()),
// and whose second is no integer, is a heading. Labels are integers from 0 to classes-1, without zeros in front: 01 is
// a name, because it is another text than 1. If at least one is not such an integer, all are names, numbered in the
// order of the names. `classes` 0: as many as the table has. Errors name file and line.
//
// With `known_classes`, these number the names. Labels that are all integers are numbers, unless one of them has the plain form
// (class_names.hpp) of a known name.
[[nodiscard]] Result<ImageIndex> read_image_index(const std::filesystem::path& file,
                                                  std::int64_t classes,
                                                  std::span<const std::string> known_classes = {});

}  // namespace autotuned::input
