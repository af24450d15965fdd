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
  std::int64_t line = 1;           // line of the file, from 1
};

// Receives a row, which it may change. An error ends the reading.
using RowTaker = std::function<Result<void>(TableRow& row)>;

// Returns the text of a table of at most 1 GiB.
[[nodiscard]] Result<std::string> read_table(const std::filesystem::path& file);

// Calls `take` with each row of `text` in order, except empty lines. Cells are separated by tabs if the name of `file` ends in
// `.tsv`, else by commas, and may be quoted as in RFC 4180. Errors: ErrorKind::invalid for a wrong quote, with file and line; or
// that of `take`.
[[nodiscard]] Result<void> for_each_row(const std::filesystem::path& file, std::string_view text,
                                        const RowTaker& take);

// Returns "FILE:LINE", for errors.
[[nodiscard]] std::string table_place(const std::filesystem::path& file, std::int64_t line);

// Returns `text` in lower case, to compare headings.
[[nodiscard]] std::string lower_case(std::string_view text);

// Whether a cell is the heading of a column of picture files (`file`, `filename`, `path`, `image`), or of their labels (`label`,
// `class`, `category`, `tags`). Upper and lower case count the same.
[[nodiscard]] bool is_heading_of_files(std::string_view cell);
[[nodiscard]] bool is_heading_of_labels(std::string_view cell);

}  // namespace autotuned
