// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/pictures/picture_table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/table_file.hpp"
#include "base/text.hpp"
#include "trainer/input/datasets/class_names.hpp"
#include "trainer/input/datasets/data_file.hpp"
#include "trainer/input/datasets/dataset_types.hpp"

namespace autotuned::input {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxFlagBytes = std::int64_t{1} << 30U;

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' '))
    text.remove_prefix(1);
  while (text.ends_with(' '))
    text.remove_suffix(1);
  return text;
}

// Parses a text that has the form of a number, also if it is out of a float's range, and also `+1.5`, which from_chars
// refuses.
template <class Float>
std::from_chars_result parse(std::string_view text, Float& value) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return std::from_chars(text.data(), text.data() + text.size(), value);
}

bool is_written_as_number(std::string_view text) {
  text = trimmed(text);
  double value = 0.0;
  const auto parsed = parse(text, value);
  return parsed.ec != std::errc::invalid_argument && parsed.ptr == text.data() + text.size();
}

// "1.5x" is a number with a fault, "info" is none.
bool begins_as_number(std::string_view text) {
  if (is_written_as_number(text)) return true;
  text = trimmed(text);
  text.remove_prefix(std::min(text.find_first_not_of("+-."), text.size()));
  return !text.empty() && text.front() >= '0' && text.front() <= '9';
}

std::optional<float> number_in(std::string_view text) {
  text = trimmed(text);
  float value = 0.0F;
  auto parsed = parse(text, value);
  if (parsed.ec == std::errc::result_out_of_range) {
    long double wide = 0.0L;
    parsed = parse(text, wide);
    if (std::abs(wide) >= 1.0L) return std::nullopt;
    value = static_cast<float>(wide);  // too small, not too large
  }
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

bool is_flag(std::string_view text) {
  text = trimmed(text);
  return text == "0" || text == "1";
}

bool is_blank(std::string_view text) {
  return trimmed(text).empty();
}

// The names in the first row; none if it is no heading but a picture, perhaps with a fault.
Result<std::vector<std::string>> names_in(const fs::path& file, const TableRow& row) {
  std::vector<std::string> names;
  const auto first = row.cells.begin() + 1;
  if (std::any_of(first, row.cells.end(), begins_as_number) ||
      std::all_of(first, row.cells.end(), is_blank))
    return names;
  std::set<std::string_view> known;
  for (auto cell = first; cell != row.cells.end(); ++cell) {
    const std::string_view name = trimmed(*cell);
    if (name.empty()) {
      return fail(ErrorKind::invalid, "column " + std::to_string(names.size() + 2) + " has no name",
                  table_place(file, row.line), "name every column, or leave the heading out");
    }
    if (!known.insert(name).second) {
      return fail(ErrorKind::invalid, "two columns are named \"" + shown_text(name) + "\"",
                  table_place(file, row.line), "give every column another name");
    }
    names.emplace_back(name);
  }
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

// The kind of values in the cells after the first.
struct CellKind {
  std::string_view name;    // "numbers"
  std::string_view remedy;  // for a cell that holds something else
  std::optional<float> (*read)(std::string_view);
  bool is_flag = false;
};

constexpr CellKind kNumbers = {"numbers", "write numbers such as 3, -0.5 or 1e-3", number_in};
constexpr CellKind kFlags = {"flags", "write 0 or 1",
                             [](std::string_view text) -> std::optional<float> {
                               if (!is_flag(text)) return std::nullopt;
                               return trimmed(text) == "1" ? 1.0F : 0.0F;
                             },
                             true};

tl::unexpected<Error> no_files(const fs::path& file) {
  return fail(ErrorKind::invalid, "the table lists no files", file.string(),
              "write a line per picture");
}

// A table with a value in every cell after the first, line by line.
class ValueTable {
 public:
  ValueTable(const fs::path& file, const CellKind& kind, std::span<const std::string> known_names)
      : file_(file), kind_(kind), what_(kind.name), known_names_(known_names) {}

  Result<void> take(const TableRow& row) {
    if (std::exchange(is_first_, false)) {
      auto names = names_in(file_, row);
      if (!names) return tl::unexpected(names.error());
      table_.names = *std::move(names);
      if (auto same = check_names(table_.names, known_names_, file_.string()); !same) return same;
      if (auto right = set_width(row); !right) return right;
      if (!table_.names.empty()) return {};
    }
    const std::size_t cells = row.cells.size();
    if (cells != static_cast<std::size_t>(table_.width) + 1 || row.cells[0].empty()) {
      return fail(ErrorKind::invalid,
                  "expected a file and " + std::to_string(table_.width) + " " + what_ + ", found " +
                      std::to_string(cells) + " cells" +
                      (row.cells[0].empty() ? ", the first of them empty" : ""),
                  table_place(file_, row.line), "write as many " + what_ + " in every line");
    }
    table_.files.push_back(picture_path(file_, row.cells[0]));
    for (std::size_t i = 1; i < cells; ++i) {
      const auto value = kind_.read(row.cells[i]);
      if (!value) {
        return fail(ErrorKind::invalid,
                    "expected " + what_ + ", found \"" + shown_text(row.cells[i]) + "\"",
                    table_place(file_, row.line), std::string(kind_.remedy));
      }
      if (kind_.is_flag) {
        table_.flags.push_back(*value == 1.0F ? 1 : 0);
      } else {
        table_.values.push_back(*value);
      }
    }
    return {};
  }

  Result<PictureTable> finish() {
    if (table_.files.empty()) return no_files(file_);
    return std::move(table_);
  }

 private:
  Result<void> set_width(const TableRow& row) {
    const std::size_t width = row.cells.size() - 1;
    if (width < 1 || width > static_cast<std::size_t>(kMaxClasses)) {
      return fail(ErrorKind::invalid,
                  "has " + std::to_string(width) + " " + what_ + " for a picture",
                  table_place(file_, row.line),
                  "write 1 to 65536 " + what_ + " in every line, after the file");
    }
    table_.width = static_cast<int>(width);
    return {};
  }

  const fs::path& file_;
  const CellKind& kind_;
  std::string what_;
  std::span<const std::string> known_names_;
  bool is_first_ = true;
  PictureTable table_;
};

Result<PictureTable> values_of(const fs::path& file, std::string_view text, const CellKind& kind,
                               std::span<const std::string> known_names) {
  ValueTable table(file, kind, known_names);
  const auto read =
      for_each_row(file, text, [&table](const TableRow& row) { return table.take(row); });
  if (!read) return tl::unexpected(read.error());
  return table.finish();
}

// "cat; dog" or "cat|dog" as its names.
std::set<std::string> tags_in(std::string_view cell) {
  std::set<std::string> tags;
  while (!cell.empty()) {
    const std::size_t end = std::min(cell.find_first_of(";|"), cell.size());
    if (const std::string_view tag = trimmed(cell.substr(0, end)); !tag.empty()) tags.emplace(tag);
    cell.remove_prefix(std::min(end + 1, cell.size()));
  }
  return tags;
}

bool is_heading_of_lists(const TableRow& row) {
  // A picture has an ending.
  return is_heading_of_labels(row.cells[1]) && row.cells[0].find('.') == std::string::npos;
}

// The form of a table of tags.
struct TagForm {
  bool has_two_cells = true;  // in each line
  bool has_names = false;     // cells that are no flags
  std::int64_t files = 0;
  bool has_heading = false;  // as a table of lists
  // If it is one of lists:
  std::set<std::string> tags = {};
  std::optional<Error> number = {};  // the first tag that must be a flag written otherwise

  [[nodiscard]] bool has_lists() const { return has_two_cells && has_names; }
};

bool is_plain_integer(std::string_view text) {
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

Result<TagForm> tag_form_of(const fs::path& file, std::string_view text) {
  TagForm form;
  bool is_first = true;
  bool is_first_named = false;
  const auto read = for_each_row(file, text, [&](const TableRow& row) -> Result<void> {
    const bool is_named = !std::all_of(row.cells.begin() + 1, row.cells.end(), is_flag);
    ++form.files;
    form.has_two_cells &= row.cells.size() == 2;
    const bool was_first = std::exchange(is_first, false);
    // A heading is no line of a picture, so only the others say what the form is.
    (was_first ? is_first_named : form.has_names) |= is_named;
    if (!form.has_two_cells) return {};
    if (was_first && is_heading_of_lists(row)) {
      form.has_heading = true;
      return {};
    }
    for (const std::string& tag : tags_in(row.cells[1])) {
      if (!form.number && is_written_as_number(tag) && !is_plain_integer(tag)) {
        form.number =
            Error{ErrorKind::invalid, "\"" + shown_text(tag) + "\" is a number, not a tag",
                  table_place(file, row.line), "write 0 or 1, or the names of tags"};
      }
      form.tags.insert(tag);
    }
    return {};
  });
  if (!read) return tl::unexpected(read.error());
  if (form.files == 1) form.has_names = is_first_named;
  if (form.has_heading) --form.files;
  return form;
}

// REQUIRES: form.has_lists(), of the same text.
Result<PictureTable> lists_of(const fs::path& file, std::string_view text, const TagForm& form,
                              std::span<const std::string> known_names) {
  if (form.files == 0) return no_files(file);
  if (form.number) return tl::unexpected(*form.number);
  const auto numbers = number_classes(form.tags, known_names, file.string());
  if (!numbers) return tl::unexpected(numbers.error());
  if (numbers->empty() || std::ssize(*numbers) > kMaxClasses) {
    return fail(ErrorKind::invalid, "has " + std::to_string(numbers->size()) + " different tags",
                file.string(), "give 1 to 65536 tags");
  }
  const std::int64_t bytes = form.files * std::ssize(*numbers);
  if (bytes > kMaxFlagBytes) {
    return fail(ErrorKind::invalid,
                "a flag for each of " + format_count(std::ssize(*numbers)) + " tags of " +
                    format_count(form.files) + " files takes " + format_bytes(bytes) +
                    ", more than " + format_bytes(kMaxFlagBytes),
                file.string(), "leave out tags that few files have");
  }
  PictureTable table{
      .files = {}, .width = static_cast<int>(numbers->size()), .names = names_of(*numbers)};
  table.flags.resize(static_cast<std::size_t>(bytes));
  bool is_first = true;
  const auto read = for_each_row(file, text, [&](const TableRow& row) -> Result<void> {
    if (std::exchange(is_first, false) && form.has_heading) return {};
    if (row.cells[0].empty()) {
      return fail(ErrorKind::invalid, "names no file", table_place(file, row.line),
                  "write `file,tag;tag` in every line");
    }
    const std::size_t begin = table.files.size() * numbers->size();
    table.files.push_back(picture_path(file, row.cells[0]));
    for (const std::string& tag : tags_in(row.cells[1]))
      table.flags[begin + static_cast<std::size_t>(numbers->at(tag))] = 1;
    return {};
  });
  if (!read) return tl::unexpected(read.error());
  return table;
}

}  // namespace

Result<PictureTable> read_number_table(const fs::path& file,
                                       std::span<const std::string> known_names) {
  const auto text = read_table(file);
  if (!text) return tl::unexpected(text.error());
  return values_of(file, *text, kNumbers, known_names);
}

Result<PictureTable> read_tag_table(const fs::path& file,
                                    std::span<const std::string> known_names) {
  const auto text = read_table(file);
  if (!text) return tl::unexpected(text.error());
  const auto form = tag_form_of(file, *text);
  if (!form) return tl::unexpected(form.error());
  if (form->has_lists()) return lists_of(file, *text, *form, known_names);
  return values_of(file, *text, kFlags, known_names);
}

}  // namespace autotuned::input
