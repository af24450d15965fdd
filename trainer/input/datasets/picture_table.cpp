// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/picture_table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "trainer/input/datasets/class_names.hpp"
#include "trainer/input/datasets/data_file.hpp"
#include "trainer/input/datasets/dataset_types.hpp"
#include "trainer/input/datasets/table_file.hpp"

namespace autotuned::input {
namespace {

namespace fs = std::filesystem;

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' '))
    text.remove_prefix(1);
  while (text.ends_with(' '))
    text.remove_suffix(1);
  return text;
}

std::optional<float> number_in(std::string_view text) {
  text = trimmed(text);
  float value = 0.0F;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool has_numbers(const TableRow& row) {
  return std::any_of(row.cells.begin() + 1, row.cells.end(),
                     [](const std::string& cell) { return number_in(cell).has_value(); });
}

// Takes the heading from the front of the rows, if there is one.
std::vector<std::string> take_names(std::vector<TableRow>& rows) {
  std::vector<std::string> names;
  if (rows.empty() || rows.front().cells.size() < 2 || has_numbers(rows.front())) return names;
  for (std::size_t i = 1; i < rows.front().cells.size(); ++i)
    names.emplace_back(trimmed(rows.front().cells[i]));
  rows.erase(rows.begin());
  return names;
}

Result<void> check_names(const std::vector<std::string>& names,
                         std::span<const std::string> known_names, const std::string& where) {
  if (names.empty() || known_names.empty() || std::ranges::equal(names, known_names)) return {};
  return fail(ErrorKind::invalid, "the columns are " + named(names), where,
              "the training data have the columns " +
                  named({known_names.begin(), known_names.end()}) + ", in this order");
}

std::string picture_path(const fs::path& table, const std::string& file) {
  return (table.parent_path() / file).lexically_normal().string();
}

}  // namespace

Result<PictureTable> read_number_table(const fs::path& file,
                                       std::span<const std::string> known_names) {
  auto rows = read_table(file);
  if (!rows) return tl::unexpected(rows.error());
  PictureTable table;
  table.names = take_names(*rows);
  if (auto same = check_names(table.names, known_names, file.string()); !same)
    return tl::unexpected(same.error());
  if (rows->empty()) {
    return fail(ErrorKind::invalid, "the table lists no files", file.string(),
                "write a line `file,number,…` per picture");
  }
  const std::size_t cells =
      table.names.empty() ? rows->front().cells.size() : table.names.size() + 1;
  if (cells < 2 || cells > static_cast<std::size_t>(kMostClasses) + 1) {
    return fail(ErrorKind::invalid, "has " + std::to_string(cells - 1) + " numbers for a picture",
                table_place(file, rows->front().line),
                "write a line `file,number,…` per picture, with 1 to 65536 numbers");
  }
  table.width = static_cast<int>(cells - 1);
  for (const TableRow& row : *rows) {
    if (row.cells.size() != cells || row.cells[0].empty()) {
      return fail(ErrorKind::invalid,
                  "expected a file and " + std::to_string(table.width) + " numbers, found " +
                      std::to_string(row.cells.size()) + " cells" +
                      (row.cells[0].empty() ? ", the first of them empty" : ""),
                  table_place(file, row.line), "write as many numbers in every line");
    }
    table.files.push_back(picture_path(file, row.cells[0]));
    for (std::size_t i = 1; i < cells; ++i) {
      const auto value = number_in(row.cells[i]);
      if (!value) {
        return fail(ErrorKind::invalid,
                    shown_text(row.cells[i]) + " is no number that a 32-bit float can hold",
                    table_place(file, row.line), "write numbers such as 3, -0.5 or 1e-3");
      }
      table.values.push_back(*value);
    }
  }
  return table;
}

}  // namespace autotuned::input
