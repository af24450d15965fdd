// SPDX-License-Identifier: Apache-2.0
#include "base/table_file.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/file.hpp"
#include "base/text.hpp"

namespace autotuned {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxTableBytes = std::size_t{1} << 30U;

// Removes a cell from the front of `text` and returns it; nothing if its quotes are wrong.
std::optional<std::string> take_cell(std::string_view& text, char separator) {
  if (!text.starts_with('"')) {
    const char ends[] = {separator, '\r', '\n'};
    const std::size_t end =
        std::min(text.find_first_of(std::string_view(ends, sizeof ends)), text.size());
    std::string cell(text.substr(0, end));
    text.remove_prefix(end);
    // Readers disagree about a quote inside an unquoted cell.
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

}  // namespace

Result<std::string> read_table(const fs::path& file) {
  return read_file(file, kMaxTableBytes);
}

Result<void> for_each_row(const fs::path& file, std::string_view text, const RowTaker& take) {
  const char separator = lower_case(file.extension().string()) == ".tsv" ? '\t' : ',';
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  TableRow row;
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const std::string_view before = text;
    std::vector<std::string>& cells = row.cells;
    cells.clear();
    for (bool is_more = true; is_more;) {
      auto cell = take_cell(text, separator);
      if (!cell) {
        return fail(ErrorKind::invalid, "a quote is at a wrong position or not closed",
                    table_place(file, line), "double the quotes within quoted cells");
      }
      cells.push_back(*std::move(cell));
      is_more = text.starts_with(separator);
      if (is_more) text.remove_prefix(1);
    }
    if (text.starts_with('\r')) text.remove_prefix(1);
    if (!text.empty() && !text.starts_with('\n')) {
      return fail(ErrorKind::invalid, "text follows a quoted cell", table_place(file, line));
    }
    if (!text.empty()) text.remove_prefix(1);
    row.line = line;
    const std::string_view whole = before.substr(0, before.size() - text.size());
    const auto breaks = std::ranges::count(whole, '\n');
    line += std::max<std::int64_t>(breaks, 1) - 1;
    if (cells.size() == 1 && cells[0].empty()) continue;
    if (auto taken = take(row); !taken) return taken;
  }
  return {};
}

std::string table_place(const fs::path& file, std::int64_t line) {
  return file.string() + ":" + std::to_string(line);
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return lower;
}

bool is_heading_of_files(std::string_view cell) {
  static constexpr std::array<std::string_view, 9> kWords = {
      "file", "files", "filename", "file_name", "path", "filepath", "image", "image_path", "img"};
  return std::ranges::find(kWords, lower_case(trimmed(cell))) != kWords.end();
}

bool is_heading_of_labels(std::string_view cell) {
  static constexpr std::array<std::string_view, 8> kWords = {
      "label", "labels", "class", "classes", "category", "categories", "tag", "tags"};
  return std::ranges::find(kWords, lower_case(trimmed(cell))) != kWords.end();
}

}  // namespace autotuned
