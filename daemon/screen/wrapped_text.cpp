// SPDX-License-Identifier: Apache-2.0
#include "daemon/screen/wrapped_text.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <iostream>

#include "daemon/report/characters.hpp"
#include "daemon/screen/line_breaks.hpp"
#include "daemon/screen/terminal_panel.hpp"

namespace autotuned::daemon {

namespace {

constexpr std::string_view kGap = "  ";  // between a label or a cell and what stands behind it

bool is_number_of_item(std::string_view word) {
  return word.size() > 1 && word.back() == '.' &&
         word.substr(0, word.size() - 1).find_first_not_of("0123456789") == std::string_view::npos;
}

// In which column the lines below the first one begin.
int hanging_indent(std::string_view line, int columns) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  int indent = 0;
  for (std::size_t gap = line.find(kGap, begin); gap != std::string_view::npos;) {
    const std::size_t cell = line.find_first_not_of(' ', gap);
    // Narrower than half of the terminal nobody reads a sentence.
    if (cell == std::string_view::npos || columns_of(line.substr(0, cell)) > columns / 2) break;
    indent = columns_of(line.substr(0, cell));
    gap = line.find(kGap, cell);
  }
  if (indent > 0) return indent;
  const std::string_view first = line.substr(begin, line.find(' ', begin) - begin);
  const bool is_item = first == "→" || first == "-" || is_number_of_item(first);
  indent = static_cast<int>(begin) + (is_item ? columns_of(first) + 1 : 2);
  return std::min(indent, columns / 2);
}

// The end of what fits of `line`, from `least` on: at a blank, or at its end.
std::size_t break_of(std::string_view line, std::size_t least, int columns) {
  std::size_t end = next_break(line, least);
  while (end < line.size()) {
    const std::size_t next = next_break(line, end + 1);
    if (columns_of(line.substr(0, next)) > columns) break;
    end = next;
  }
  return end;
}

void add_wrapped(std::string& text, std::string_view line, int columns) {
  if (columns_of(line) <= columns) {
    text += line;
    return;
  }
  const int indent = hanging_indent(line, columns);
  // Blanks at the beginning belong to the first word.
  std::size_t least = std::min(line.find_first_not_of(' '), line.size());
  int room = columns;
  while (!line.empty()) {
    const bool is_rest = columns_of(line) <= room;
    const std::string_view part = is_rest ? line : line.substr(0, break_of(line, least, room));
    const std::size_t last = part.find_last_not_of(' ');
    text += last == std::string_view::npos ? std::string_view() : part.substr(0, last + 1);
    line.remove_prefix(part.size());
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.empty()) break;
    text += '\n';
    text.append(static_cast<std::size_t>(indent), ' ');
    room = std::max(columns - indent, 1);
    least = 0;
  }
}

// 0: it is no terminal.
int columns_behind(int descriptor, std::FILE* stream) {
  return ::isatty(descriptor) != 0 ? screen_size(stream).columns : 0;
}

}  // namespace

std::string wrapped(std::string_view text, int columns) {
  if (columns <= 0) return std::string(text);
  std::string fitted;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    add_wrapped(fitted, text.substr(0, end), columns);
    if (end < text.size()) fitted += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return fitted;
}

int text_columns() {
  return columns_behind(STDOUT_FILENO, stdout);
}

void print_text(std::string_view text) {
  std::cout << wrapped(text, text_columns());
}

void print_message(std::string_view text) {
  std::cerr << wrapped(text, columns_behind(STDERR_FILENO, stderr));
}

}  // namespace autotuned::daemon
