// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/image_index.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/file.hpp"
#include "trainer/input/datasets/class_names.hpp"
#include "trainer/input/datasets/dataset_types.hpp"

namespace autotuned::input {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostIndexBytes = std::size_t{1} << 30U;

struct Row {
  std::string file;
  std::string label;
  std::int64_t line = 1;
};

// Takes a cell from the front of `text`; nothing when its quotes are wrong.
std::optional<std::string> take_cell(std::string_view& text) {
  if (!text.starts_with('"')) {
    const std::size_t end = std::min(text.find_first_of(",\r\n"), text.size());
    std::string cell(text.substr(0, end));
    text.remove_prefix(end);
    // A quote within would mean something else to every other reader.
    if (cell.find('"') != std::string::npos) return std::nullopt;
    return cell;
  }
  std::string cell;
  for (std::size_t at = 1; at < text.size(); ++at) {
    if (text[at] != '"') {
      cell += text[at];
    } else if (at + 1 < text.size() && text[at + 1] == '"') {
      cell += text[at++];
    } else {
      text.remove_prefix(at + 1);
      return cell;
    }
  }
  return std::nullopt;
}

std::string place(const fs::path& file, std::int64_t line) {
  return file.string() + ":" + std::to_string(line);
}

Result<std::vector<Row>> rows_of(std::string_view text, const fs::path& file) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<Row> rows;
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const std::string_view before = text;
    std::vector<std::string> cells;
    for (bool is_more = true; is_more;) {
      auto cell = take_cell(text);
      if (!cell) {
        return fail(ErrorKind::invalid, "a quote is at a wrong position or not closed",
                    place(file, line), "double the quotes within quoted cells");
      }
      cells.push_back(*std::move(cell));
      is_more = text.starts_with(',');
      if (is_more) text.remove_prefix(1);
    }
    if (text.starts_with('\r')) text.remove_prefix(1);
    if (!text.empty() && !text.starts_with('\n')) {
      return fail(ErrorKind::invalid, "text follows a quoted cell", place(file, line));
    }
    if (!text.empty()) text.remove_prefix(1);
    const std::int64_t first_line = line;
    const std::string_view taken = before.substr(0, before.size() - text.size());
    const auto breaks = std::ranges::count(taken, '\n');
    line += std::max<std::int64_t>(breaks, 1) - 1;
    if (cells.size() == 1 && cells[0].empty()) continue;
    if (cells.size() != 2 || cells[0].empty() || cells[1].empty()) {
      return fail(ErrorKind::invalid,
                  "expected a file and a label, found " + std::to_string(cells.size()) + " cells" +
                      (cells.size() == 2 ? ", one of them empty" : ""),
                  place(file, first_line), "write `file,label` in every line");
    }
    rows.push_back({std::move(cells[0]), std::move(cells[1]), first_line});
  }
  return rows;
}

bool is_heading(const Row& row) {
  const auto lower = [](std::string text) {
    for (char& letter : text)
      if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    return text;
  };
  const std::string file = lower(row.file);
  return lower(row.label) == "label" && (file == "file" || file == "filename" || file == "path");
}

std::optional<std::int64_t> integer_in(const std::string& text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

}  // namespace

Result<ImageIndex> read_image_index(const fs::path& file, std::int64_t classes,
                                    std::span<const std::string> known_classes) {
  const auto text = read_file(file, kMostIndexBytes);
  if (!text) return tl::unexpected(text.error());
  auto rows = rows_of(*text, file);
  if (!rows) return tl::unexpected(rows.error());
  if (!rows->empty() && is_heading(rows->front())) rows->erase(rows->begin());
  if (rows->empty()) {
    return fail(ErrorKind::invalid, "the table lists no files", file.string(),
                "write a line `file,label` per picture");
  }

  const std::set<std::string, std::less<>> known(known_classes.begin(), known_classes.end());
  const bool has_names = std::ranges::any_of(*rows, [&known](const Row& row) {
    return !integer_in(row.label) || known.contains(row.label);
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
  std::int64_t most = classes != 0 ? classes : kMostClasses;
  const std::int64_t names = std::ssize(numbers);
  // Another data set of the job would number other names otherwise.
  if (has_names && (names > kMostClasses || (classes != 0 && names != classes))) {
    return fail(ErrorKind::invalid,
                "has " + std::to_string(names) + " different labels, not " + std::to_string(most),
                file.string(),
                "write integers of at least 0, or set `classes` to the number of names");
  }

  ImageIndex index;
  std::int64_t highest = 0;
  for (Row& row : *rows) {
    const std::int64_t label = has_names ? numbers.at(row.label) : *integer_in(row.label);
    if (label < 0 || label >= most) {
      return fail(ErrorKind::invalid,
                  "label " + row.label + " is not from 0 to " + std::to_string(most - 1),
                  place(file, row.line), "write integers of at least 0, or names");
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
