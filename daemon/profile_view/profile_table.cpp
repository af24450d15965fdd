// SPDX-License-Identifier: Apache-2.0
#include "daemon/profile_view/profile_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/report/report.hpp"

namespace autotuned::daemon {

namespace {

constexpr std::size_t kLongestName = 72;

std::size_t shown(const Table& table, std::size_t top) {
  return top == 0 ? table.rows.size() : std::min(top, table.rows.size());
}

// "Self increase" and "self_increase" are the same.
std::string plain(std::string_view word) {
  std::string result(word);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == ' ' || c == '-') c = '_';
  }
  return result;
}

const char* unit_ending(Unit unit) {
  switch (unit) {
    case Unit::time:
      return "_us";
    case Unit::bytes:
      return "_bytes";
    case Unit::ratio:
    case Unit::change:
      return "_ratio";
    case Unit::text:
    case Unit::count:
    case Unit::number:
      break;
  }
  return "";
}

// Sums of hostile traces may be as large as the type, or a little larger once they are doubles.
std::int64_t whole(double value) {
  constexpr double kMax = 9e18;
  return static_cast<std::int64_t>(std::clamp(value, -kMax, kMax));
}

bool is_whole(Unit unit) {
  return unit == Unit::count || unit == Unit::bytes;
}

}  // namespace

bool sort_by(Table& table, std::string_view column) {
  const std::string wanted = plain(column);
  const auto found = std::ranges::find_if(table.columns, [&](const Column& one) {
    return one.key == wanted || plain(one.heading) == wanted;
  });
  if (found == table.columns.end()) return false;
  const auto index = static_cast<std::size_t>(found - table.columns.begin());
  std::ranges::stable_sort(table.rows, [&](const auto& row_a, const auto& row_b) {
    const Cell& a = row_a[index];
    const Cell& b = row_b[index];
    const auto* number_a = std::get_if<double>(&a);
    const auto* number_b = std::get_if<double>(&b);
    if (number_a != nullptr && number_b != nullptr) return *number_a > *number_b;
    const auto* text_a = std::get_if<std::string>(&a);
    const auto* text_b = std::get_if<std::string>(&b);
    if (text_a != nullptr && text_b != nullptr) return *text_a < *text_b;
    return a.index() > b.index();
  });
  return true;
}

std::string to_text(const Table& table, std::size_t top) {
  const std::string title = table.title.empty() ? std::string() : printable(table.title) + "\n";
  if (table.rows.empty()) return title + (title.empty() ? "" : "  ") + table.when_empty + "\n";
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : table.columns)
    lines[0].emplace_back(column.heading);
  for (std::size_t i = 0; i < shown(table, top); ++i) {
    std::vector<std::string>& line = lines.emplace_back();
    for (std::size_t column = 0; column < table.columns.size(); ++column)
      line.push_back(cell_text(table.rows[i][column], table.columns[column].unit));
  }
  return title + table_text(lines);
}

Json rows_json(const Table& table, std::size_t top) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < shown(table, top); ++i) {
    Json row = Json::object();
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const Column& column = table.columns[c];
      Json& value = row[std::string(column.key) + unit_ending(column.unit)];
      const Cell& cell = table.rows[i][c];
      if (const auto* text = std::get_if<std::string>(&cell)) value = *text;
      const auto* number = std::get_if<double>(&cell);
      if (number == nullptr) continue;
      if (is_whole(column.unit)) {
        value = whole(*number);
      } else {
        value = column.unit == Unit::time ? *number / 1e3 : *number;
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string change_share_text(double share) {
  constexpr double kLargestPercentage = 10;  // 1000 %: beyond, people think in factors
  if (share <= kLargestPercentage) return fmt::format("{:.1f} %", 100 * share);
  return fmt::format("{:.0f} x as much", 1 + share);
}

std::string cell_text(const Cell& cell, Unit unit) {
  if (const auto* text = std::get_if<std::string>(&cell)) return short_name(*text);
  const auto* number = std::get_if<double>(&cell);
  if (number == nullptr) return unit == Unit::change ? "new" : "-";
  switch (unit) {
    case Unit::time:
      return format_span(*number);
    case Unit::bytes:
      return (*number < 0 ? "-" : "") + format_bytes(whole(std::abs(*number)));
    case Unit::ratio:
      return fmt::format("{:.1f} %", 100 * *number);
    case Unit::change:
      return change_share_text(*number);
    case Unit::number:
      return fmt::format("{:.2f}", *number);
    case Unit::text:
    case Unit::count:
      break;
  }
  return format_count(whole(*number));
}

std::string short_name(const std::string& whole) {
  const std::string name = printable(whole);
  if (name.size() <= kLongestName) return name;
  std::size_t end = kLongestName - 3;
  // The cut must not be in the middle of a character.
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80U)
    --end;
  return name.substr(0, end) + "...";
}

}  // namespace autotuned::daemon
