// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/pictures/image_index.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "base/table_file.hpp"
#include "trainer/input/datasets/class_names.hpp"
#include "trainer/input/datasets/dataset_types.hpp"

namespace autotuned::input {
namespace {

namespace fs = std::filesystem;

struct Row {
  std::string file;
  std::string label;
  std::int64_t line = 1;
};

Result<std::vector<Row>> rows_of(const fs::path& file) {
  const auto text = read_table(file);
  if (!text) return tl::unexpected(text.error());
  std::vector<Row> rows;
  const auto read = for_each_row(file, *text, [&](TableRow& row) -> Result<void> {
    std::vector<std::string>& cells = row.cells;
    if (cells.size() != 2 || cells[0].empty() || cells[1].empty()) {
      return fail(ErrorKind::invalid,
                  "expected a file and a label, found " + std::to_string(cells.size()) + " cells" +
                      (cells.size() == 2 ? ", one of them empty" : ""),
                  table_place(file, row.line), "write `file,label` in every line");
    }
    rows.push_back({std::move(cells[0]), std::move(cells[1]), row.line});
    return {};
  });
  if (!read) return tl::unexpected(read.error());
  return rows;
}

// The value of a text that is an integer in its usual form; 01 is not.
std::optional<std::int64_t> integer_in(const std::string& text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || std::to_string(value) != text)
    return std::nullopt;
  return value;
}

bool is_heading(const Row& row) {
  return is_heading_of_files(row.file) && !integer_in(row.label);
}

}  // namespace

Result<ImageIndex> read_image_index(const fs::path& file, std::int64_t classes,
                                    std::span<const std::string> known_classes) {
  auto rows = rows_of(file);
  if (!rows) return tl::unexpected(rows.error());
  if (!rows->empty() && is_heading(rows->front())) rows->erase(rows->begin());
  if (rows->empty()) {
    return fail(ErrorKind::invalid, "the table lists no files", file.string(),
                "write a line `file,label` per picture");
  }

  // Where the training has 01, a 1 is no number but a name that it lacks.
  std::set<std::string> known;
  for (const std::string& name : known_classes)
    known.insert(plain_form(name));
  const bool has_names = std::ranges::any_of(*rows, [&known](const Row& row) {
    return !integer_in(row.label) || known.contains(plain_form(row.label));
  });
  ClassNumbers numbers;
  if (has_names) {
    std::set<std::string> found;
    for (const Row& row : *rows)
      found.insert(row.label);
    auto numbered = number_classes(found, known_classes, file.string());
    if (!numbered) return tl::unexpected(numbered.error());
    numbers = std::move(*numbered);
  }
  std::int64_t most = classes != 0 ? classes : kMaxClasses;
  const std::int64_t names = std::ssize(numbers);
  const bool are_padded = std::ranges::all_of(*rows, [](const Row& row) {
    return !row.label.empty() && row.label.find_first_not_of("0123456789") == std::string::npos;
  });
  // Another data set of the job would number other names otherwise.
  if (has_names && (names > kMaxClasses || (classes != 0 && names != classes))) {
    return fail(ErrorKind::invalid,
                "has " + std::to_string(names) + " different labels, not " + std::to_string(most),
                file.string(),
                are_padded
                    ? "write integers without zeros in front, which make them names, or set "
                      "`classes` to the number of names"
                    : "write integers of at least 0, or set `classes` to the number of names");
  }

  ImageIndex index;
  std::int64_t highest = 0;
  for (Row& row : *rows) {
    const std::int64_t label = has_names ? numbers.at(row.label) : *integer_in(row.label);
    if (label < 0 || label >= most) {
      return fail(ErrorKind::invalid,
                  "label " + row.label + " is not from 0 to " + std::to_string(most - 1),
                  table_place(file, row.line), "write integers of at least 0, or names");
    }
    highest = std::max(highest, label);
    index.files.push_back((file.parent_path() / row.file).lexically_normal().string());
    index.labels.push_back(static_cast<std::uint16_t>(label));
  }
  index.names = names_of(numbers);
  index.classes = static_cast<int>(classes != 0 ? classes : has_names ? names : highest + 1);
  return index;
}

}  // namespace autotuned::input
