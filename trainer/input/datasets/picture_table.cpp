// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/picture_table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
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

bool is_flag(std::string_view text) {
  text = trimmed(text);
  return text == "0" || text == "1";
}

// Takes the heading from the front of the rows if none of its cells after the first is a value.
template <class IsValue>
std::vector<std::string> take_names(std::vector<TableRow>& rows, IsValue is_value) {
  std::vector<std::string> names;
  if (rows.empty()) return names;
  const std::vector<std::string>& cells = rows.front().cells;
  if (cells.size() < 2 || std::any_of(cells.begin() + 1, cells.end(), is_value)) return names;
  for (std::size_t i = 1; i < cells.size(); ++i)
    names.emplace_back(trimmed(cells[i]));
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

// What the cells of a table after the first hold.
struct CellKind {
  std::string_view name;    // "numbers"
  std::string_view remedy;  // for a cell that holds something else
  std::optional<float> (*read)(std::string_view);
};

constexpr CellKind kNumbers = {"numbers", "write numbers such as 3, -0.5 or 1e-3", number_in};
constexpr CellKind kFlags = {"flags", "write 0 or 1",
                             [](std::string_view text) -> std::optional<float> {
                               if (!is_flag(text)) return std::nullopt;
                               return trimmed(text) == "1" ? 1.0F : 0.0F;
                             }};

tl::unexpected<Error> no_files(const fs::path& file) {
  return fail(ErrorKind::invalid, "the table lists no files", file.string(),
              "write a line per picture");
}

// A value in every cell after the first. REQUIRES: rows.
Result<PictureTable> values_of(const fs::path& file, const std::vector<TableRow>& rows,
                               std::vector<std::string> names, const CellKind& kind) {
  PictureTable table{.files = {}, .values = {}, .width = 1, .names = std::move(names)};
  const std::string what(kind.name);
  const std::size_t cells =
      table.names.empty() ? rows.front().cells.size() : table.names.size() + 1;
  if (cells < 2 || cells > static_cast<std::size_t>(kMostClasses) + 1) {
    return fail(ErrorKind::invalid,
                "has " + std::to_string(cells - 1) + " " + what + " for a picture",
                table_place(file, rows.front().line),
                "write 1 to 65536 " + what + " in every line, after the file");
  }
  table.width = static_cast<int>(cells - 1);
  for (const TableRow& row : rows) {
    if (row.cells.size() != cells || row.cells[0].empty()) {
      return fail(ErrorKind::invalid,
                  "expected a file and " + std::to_string(table.width) + " " + what + ", found " +
                      std::to_string(row.cells.size()) + " cells" +
                      (row.cells[0].empty() ? ", the first of them empty" : ""),
                  table_place(file, row.line), "write as many " + what + " in every line");
    }
    table.files.push_back(picture_path(file, row.cells[0]));
    for (std::size_t i = 1; i < cells; ++i) {
      const auto value = kind.read(row.cells[i]);
      if (!value) {
        return fail(ErrorKind::invalid,
                    "expected " + what + ", found \"" + shown_text(row.cells[i]) + "\"",
                    table_place(file, row.line), std::string(kind.remedy));
      }
      table.values.push_back(*value);
    }
  }
  return table;
}

// "cat; dog" as its names.
std::set<std::string> tags_in(std::string_view cell) {
  std::set<std::string> tags;
  while (!cell.empty()) {
    const std::size_t end = std::min(cell.find(';'), cell.size());
    if (const std::string_view tag = trimmed(cell.substr(0, end)); !tag.empty()) tags.emplace(tag);
    cell.remove_prefix(std::min(end + 1, cell.size()));
  }
  return tags;
}

// REQUIRES: rows, each with two cells.
Result<PictureTable> lists_of(const fs::path& file, const std::vector<TableRow>& rows,
                              std::span<const std::string> known_names) {
  std::set<std::string> found;
  for (const TableRow& row : rows)
    found.merge(tags_in(row.cells[1]));
  const auto numbers = number_classes(found, known_names, file.string());
  if (!numbers) return tl::unexpected(numbers.error());
  if (numbers->empty() || std::ssize(*numbers) > kMostClasses) {
    return fail(ErrorKind::invalid, "has " + std::to_string(numbers->size()) + " different tags",
                file.string(), "give 1 to 65536 tags");
  }
  PictureTable table{.files = {},
                     .values = {},
                     .width = static_cast<int>(numbers->size()),
                     .names = names_of(*numbers)};
  table.values.resize(rows.size() * numbers->size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].cells[0].empty()) {
      return fail(ErrorKind::invalid, "names no file", table_place(file, rows[i].line),
                  "write `file,tag;tag` in every line");
    }
    table.files.push_back(picture_path(file, rows[i].cells[0]));
    for (const std::string& tag : tags_in(rows[i].cells[1]))
      table.values[i * numbers->size() + static_cast<std::size_t>(numbers->at(tag))] = 1.0F;
  }
  return table;
}

bool has_two_cells(const TableRow& row) {
  return row.cells.size() == 2;
}

bool is_heading_of_lists(const TableRow& row) {
  const std::string second = lower_case(trimmed(row.cells[1]));
  return second == "tags" || second == "labels";
}

}  // namespace

Result<PictureTable> read_number_table(const fs::path& file,
                                       std::span<const std::string> known_names) {
  auto rows = read_table(file);
  if (!rows) return tl::unexpected(rows.error());
  std::vector<std::string> names =
      take_names(*rows, [](const std::string& cell) { return number_in(cell).has_value(); });
  if (auto same = check_names(names, known_names, file.string()); !same)
    return tl::unexpected(same.error());
  if (rows->empty()) return no_files(file);
  return values_of(file, *rows, std::move(names), kNumbers);
}

Result<PictureTable> read_tag_table(const fs::path& file,
                                    std::span<const std::string> known_names) {
  auto rows = read_table(file);
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return no_files(file);
  // A heading is no line of a picture, so only the others say what the form is.
  const auto is_named = [](const TableRow& row) {
    return std::any_of(row.cells.begin() + 1, row.cells.end(),
                       [](const std::string& cell) { return !is_flag(cell); });
  };
  const bool has_lists =
      std::ranges::all_of(*rows, has_two_cells) &&
      std::any_of(rows->begin() + (rows->size() > 1 ? 1 : 0), rows->end(), is_named);
  if (has_lists) {
    if (is_heading_of_lists(rows->front())) rows->erase(rows->begin());
    if (rows->empty()) return no_files(file);
    return lists_of(file, *rows, known_names);
  }
  std::vector<std::string> names =
      take_names(*rows, [](const std::string& cell) { return is_flag(cell); });
  if (auto same = check_names(names, known_names, file.string()); !same)
    return tl::unexpected(same.error());
  if (rows->empty()) return no_files(file);
  return values_of(file, *rows, std::move(names), kFlags);
}

}  // namespace autotuned::input
