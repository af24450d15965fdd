// SPDX-License-Identifier: Apache-2.0
// Tables in text files: CSV and TSV.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace autotuned {

struct TableRow {
  std::vector<std::string> cells;  // at least one
  std::int64_t line = 1;           // in the file, from 1
};

// Takes a line, which it may change; an error ends the reading.
using RowTaker = std::function<Result<void>(TableRow& row)>;

// The text of a table, at most 1 GiB.
[[nodiscard]] Result<std::string> read_table(const std::filesystem::path& file);

// Gives the lines of that text in order, without empty ones. Cells are separated by tabs if the name of `file` ends in
// `.tsv`, else by commas; they may be quoted as in RFC 4180. Errors name file and line; ErrorKind::invalid: a wrong
// quote; or those of `take`.
[[nodiscard]] Result<void> for_each_row(const std::filesystem::path& file, std::string_view text,
                                        const RowTaker& take);

// "FILE:LINE", for errors.
[[nodiscard]] std::string table_place(const std::filesystem::path& file, std::int64_t line);

// In small letters, for headings.
[[nodiscard]] std::string lower_case(std::string_view text);

// Whether a cell stands above the files of pictures (`file`, `filename`, `path`, `image`), and above what they are labelled
// with (`label`, `class`, `category`, `tags`); in any case of letters.
[[nodiscard]] bool is_heading_of_files(std::string_view cell);
[[nodiscard]] bool is_heading_of_labels(std::string_view cell);

}  // namespace autotuned
