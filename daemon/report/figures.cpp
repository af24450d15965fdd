// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/figures.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <numeric>
#include <set>
#include <utility>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/report/characters.hpp"
#include "tuner/comparison.hpp"

namespace autotuned::daemon {

namespace {

using TableRows = std::vector<std::vector<std::string>>;

constexpr std::size_t kGapColumns = 2;  // between two columns of a table

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(columns_of(text));
}

std::string first_columns(const std::string& text, std::size_t columns) {
  return std::string(beginning_of(text, static_cast<int>(columns)));
}

// The width of the widest cell of each column.
std::vector<std::size_t> widths_of(const TableRows& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], width_of(row[i]));
  }
  return widths;
}

void make_printable(TableRows& rows) {
  for (auto& row : rows) {
    for (std::string& cell : row)
      cell = printable(std::move(cell));
  }
}

// Cuts the cells of one column in a table that is `excess` columns too wide.
void narrow_column(TableRows& rows, const TableCut& cut, std::size_t excess) {
  const std::size_t width = widths_of(rows)[cut.column];
  const std::size_t wanted =
      cut.is_part ? cut.least : std::max(cut.least, width - std::min(width, excess));
  for (auto& row : rows) {
    if (cut.column >= row.size() || width_of(row[cut.column]) <= wanted) continue;
    std::string& cell = row[cut.column];
    cell = cut.is_part ? first_columns(cell, wanted) : first_columns(cell, wanted - 1) + "…";
  }
}

// A variable of the environment that is not set is an empty one, or has no value at all.
std::string knob_text(const KnobValue* value) {
  const std::string text = value != nullptr ? to_text(*value) : std::string();
  return text.empty() ? "unset" : text;
}

// An end of an interval that too few pairs have not shown yet is 0 or kNoUpperEnd.
bool is_known(double end) {
  return end > 0.0 && end < tuner::kNoUpperEnd;
}

}  // namespace

std::string change_text(const Configuration& reference, const Configuration& change) {
  std::string text;
  for (const auto& [name, value] : change.values()) {
    if (!text.empty()) text += ", ";
    text += name + " " + knob_text(reference.find(name)) + " → " + knob_text(&value);
  }
  return text.empty() ? "nothing" : text;
}

std::string estimate_text(const Estimate& estimate) {
  if (estimate.pairs == 0) return "not measured";
  return fmt::format("{} x ({})", ratio_text(estimate, 2), interval_text(estimate, 2));
}

std::string ratio_text(const Estimate& estimate, int least_decimals) {
  return fmt::format("{:.{}f}", estimate.ratio,
                     ratio_decimals(estimate.low, estimate.high, least_decimals));
}

std::string interval_text(const Estimate& estimate, int least_decimals) {
  const int decimals = ratio_decimals(estimate.low, estimate.high, least_decimals);
  const auto end = [decimals](double value) { return fmt::format("{:.{}f}", value, decimals); };
  if (is_known(estimate.low) && is_known(estimate.high)) {
    return end(estimate.low) + " to " + end(estimate.high);
  }
  if (is_known(estimate.low)) return "at least " + end(estimate.low);
  if (is_known(estimate.high)) return "at most " + end(estimate.high);
  return "too few pairs for an interval";
}

bool has_interval(const Estimate& estimate) {
  return is_known(estimate.low) || is_known(estimate.high);
}

std::string gain_text(const Estimate& estimate) {
  if (estimate.pairs == 0) return "not measured";
  const bool has_low = is_known(estimate.low);
  const bool has_high = is_known(estimate.high);
  // A tenth of a per cent is the third decimal of a ratio.
  const int decimals = ratio_decimals(estimate.low, estimate.high, 3) - 2;
  const auto gain = [decimals](double ratio) { return format_gain(ratio, decimals); };
  const std::string ends = has_low && has_high
                               ? "between " + gain(estimate.low) + " and " + gain(estimate.high)
                           : has_low  ? "at least " + gain(estimate.low)
                           : has_high ? "at most " + gain(estimate.high)
                                      : std::string("too few pairs for an interval");
  return fmt::format("{} ({}, {} pair{} of blocks)", gain(estimate.ratio), ends, estimate.pairs,
                     estimate.pairs == 1 ? "" : "s");
}

std::string rate_text(double samples_per_second, std::string_view unit) {
  // Steps can be slow.
  const std::string count = unit == "steps" && samples_per_second < 100.0
                                ? fmt::format("{:.2f}", samples_per_second)
                                : format_count(static_cast<std::int64_t>(samples_per_second + 0.5));
  return fmt::format("{} {}/s", count, unit);
}

std::string_view rung_text(std::string_view rung) {
  if (rung == "raw_bytes") return "with its files in memory";
  if (rung == "made_samples") return "with ready samples in memory";
  if (rung == "host_batch") return "with ready batches on the host";
  if (rung == "device_batch") return "with ready batches on the device";
  return {};
}

std::string ladder_text(const Json& ladder) {
  if (!ladder.is_array()) return {};
  std::string text;
  for (const Json& rung : ladder) {
    const std::string name = get_string(rung, "rung").value_or("");
    const std::string_view words = rung_text(name);
    if (words.empty() || name == "device_batch") continue;
    const double reached = get_number(rung, "reached_ratio").value_or(0.0);
    text += fmt::format("{}{} {} ({} reached)", text.empty() ? "at least " : ", ",
                        rate_text(get_number(rung, "samples_per_second").value_or(0.0)), words,
                        format_share(std::clamp(reached, 0.0, 1.0)));
  }
  return text;
}

std::string time_text(std::int64_t unix_time_ns) {
  const std::time_t seconds = static_cast<std::time_t>(unix_time_ns / 1'000'000'000);
  std::tm local{};
  if (localtime_r(&seconds, &local) == nullptr) return "?";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", local);
}

std::size_t table_columns(const std::vector<std::vector<std::string>>& rows) {
  const std::vector<std::size_t> widths = widths_of(rows);
  const std::size_t gaps = widths.empty() ? 0 : kGapColumns * (widths.size() - 1);
  return std::accumulate(widths.begin(), widths.end(), gaps);
}

std::string fitted_table_text(std::vector<std::vector<std::string>> rows, int columns,
                              const std::vector<TableCut>& cuts) {
  make_printable(rows);
  const auto most = static_cast<std::size_t>(std::max(columns, 0));
  std::set<std::size_t> left_out;
  // What is left out has no gap either.
  const auto taken = [&] { return table_columns(rows) - kGapColumns * left_out.size(); };
  for (const TableCut& cut : cuts) {
    if (most == 0 || taken() <= most) break;
    if (cut.least > 0) {
      narrow_column(rows, cut, taken() - most);
      continue;
    }
    left_out.insert(cut.column);
    for (auto& row : rows)
      if (cut.column < row.size()) row[cut.column].clear();
  }
  // From the last one on, so that the numbers of the others stay what they are.
  for (auto column = left_out.rbegin(); column != left_out.rend(); ++column) {
    for (auto& row : rows)
      if (*column < row.size()) row.erase(row.begin() + static_cast<std::ptrdiff_t>(*column));
  }
  return table_text(std::move(rows));
}

std::string table_text(std::vector<std::vector<std::string>> rows) {
  make_printable(rows);
  const std::vector<std::size_t> widths = widths_of(rows);
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - width_of(row[i]) + kGapColumns, ' ');
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace autotuned::daemon
