// SPDX-License-Identifier: Apache-2.0
// Tables in text files: CSV and TSV.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace autotuned::input {

struct TableRow {
  std::vector<std::string> cells;  // at least one
  std::int64_t line = 1;           // in the file, from 1
};

// The lines of a table, without empty ones. Cells are separated by tabs if the name ends in `.tsv`, else by commas; they
// may be quoted as in RFC 4180. Reads the whole file, at most 1 GiB. Errors name file and line; ErrorKind::invalid: a
// wrong quote.
[[nodiscard]] Result<std::vector<TableRow>> read_table(const std::filesystem::path& file);

// "FILE:LINE", for errors.
[[nodiscard]] std::string table_place(const std::filesystem::path& file, std::int64_t line);

// In small letters, for headings.
[[nodiscard]] std::string lower_case(std::string_view text);

}  // namespace autotuned::input
