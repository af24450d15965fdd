// SPDX-License-Identifier: Apache-2.0
// A table of picture files and their targets, which are no classes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace autotuned::input {

struct PictureTable {
  std::vector<std::string> files;        // absolute if the table is
  std::vector<float> values = {};        // of numbers: `width` for each file, in order
  std::vector<std::uint8_t> flags = {};  // of tags: as many, each 0 or 1
  int width = 1;
  std::vector<std::string> names = {};  // of the values; empty: the table has no heading
};

// Reads a CSV or TSV file (base/table_file.hpp): a line `file,number,…` per picture, files relative to the folder of
// the table. Every line has as many numbers. A first line is a heading if no cell after the first begins as a number,
// is NaN or infinite, or if not all of these are empty: its other cells are the names, none empty or twice. Blanks
// around a number count for nothing, a number too small for a float is 0. Errors name file and line:
// ErrorKind::invalid, also for a number that a float cannot hold, and for other names than `known_names`, those of the
// training data, if both have names.
[[nodiscard]] Result<PictureTable> read_number_table(const std::filesystem::path& file,
                                                     std::span<const std::string> known_names = {});

// Reads a CSV or TSV file in one of two forms. A line `file,0,1,…` per picture: 1 for each tag that it has, 0 for each
// other one; a first line as above names the tags. Or a line `file,cat;dog` (or `file,cat|dog`) with the names of the
// tags that it has, none in an empty cell; a first line `…,tags` or `…,labels` (is_heading_of_labels()) is a heading.
// Tags are numbered in the order of the names, or as `known_names` has them, those of the training data. Errors as
// above; also a name that `known_names` lacks, a name such as 1.0 in a list, and more than 1 GiB of flags.
[[nodiscard]] Result<PictureTable> read_tag_table(const std::filesystem::path& file,
                                                  std::span<const std::string> known_names = {});

}  // namespace autotuned::input
