// SPDX-License-Identifier: Apache-2.0
#include "daemon/screen/line_breaks.hpp"

#include <algorithm>
#include <array>

namespace autotuned::daemon {

namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::array<std::string_view, 15> kUnits = {
    "%", "x", "ns", "µs", "ms", "s", "min", "h", "days", "B", "KiB", "MiB", "GiB", "TiB", "GHz"};

// Without marks that may stand around a figure.
std::string_view bare(std::string_view word) {
  const std::size_t begin = word.find_first_not_of("([+-~");
  if (begin == std::string_view::npos) return {};
  const std::size_t end = word.find_last_not_of(")].,;:");
  if (end == std::string_view::npos || end < begin) return {};
  return word.substr(begin, end - begin + 1);
}

bool is_number(std::string_view word) {
  return !word.empty() && kDigits.find(word.front()) != std::string_view::npos &&
         word.find_first_not_of("0123456789.,") == std::string_view::npos;
}

bool is_unit(std::string_view word) {
  return std::ranges::find(kUnits, word) != kUnits.end() ||
         (word.size() > 2 && word.ends_with("/s"));
}

// The word that ends before `blank`, with the marks at its end.
std::string_view word_before(std::string_view text, std::size_t blank) {
  const std::string_view left = text.substr(0, blank);
  return left.substr(left.rfind(' ') + 1);
}

std::string_view word_after(std::string_view text, std::size_t blank) {
  const std::string_view right = text.substr(std::min(blank + 1, text.size()));
  return right.substr(0, right.find(' '));
}

// A number that something may follow: no mark stands behind it.
bool is_open_number(std::string_view word) {
  return is_number(bare(word)) && kDigits.find(word.back()) != std::string_view::npos;
}

bool is_within_figure(std::string_view text, std::size_t blank) {
  const std::string_view before = word_before(text, blank);
  const std::string_view after = word_after(text, blank);
  if (before.empty() || after.empty()) return false;
  if (is_open_number(before)) {
    return is_unit(bare(after)) ||
           (after == "to" && is_number(bare(word_after(text, blank + 1 + after.size()))));
  }
  if (before != "to" && before != "min" && before != "h") return false;
  const std::size_t blank_before = blank - before.size();
  return is_number(bare(after)) && blank_before > 0 &&
         is_open_number(word_before(text, blank_before - 1));
}

}  // namespace

std::size_t next_break(std::string_view text, std::size_t from) {
  std::size_t blank = text.find(' ', from);
  while (blank != std::string_view::npos && is_within_figure(text, blank))
    blank = text.find(' ', blank + 1);
  return std::min(blank, text.size());
}

}  // namespace autotuned::daemon
