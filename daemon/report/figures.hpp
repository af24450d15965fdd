// SPDX-License-Identifier: Apache-2.0
// Figures as people read them: changes, ratios with their intervals, rates, times, tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/trial.hpp"

namespace autotuned::daemon {

// "loader.workers 0 → 2, batch_size 32 → 256".
[[nodiscard]] std::string change_text(const Configuration& reference, const Configuration& change);

// "1.23 x (1.18 to 1.29)". An end that too few pairs have not shown yet is left out: "1.23 x (at least 1.18)".
[[nodiscard]] std::string estimate_text(const Estimate& estimate);
// "1.18 to 1.29"; "too few pairs for an interval" where neither end is known. With as many decimals as it takes, at least
// `least_decimals` (ratio_decimals() of base/text.hpp).
[[nodiscard]] std::string interval_text(const Estimate& estimate, int least_decimals);
// "1.23": the ratio alone, with the decimals of its interval.
[[nodiscard]] std::string ratio_text(const Estimate& estimate, int least_decimals);
// Whether one end is known.
[[nodiscard]] bool has_interval(const Estimate& estimate);
// "+23.4 % (between +18.0 % and +29.1 %, 22 pairs of blocks)".
[[nodiscard]] std::string gain_text(const Estimate& estimate);
// "1,234 samples/s".
[[nodiscard]] std::string rate_text(double samples_per_second, std::string_view unit = "samples");

// What is free on a rung of a ladder, for people: "with its files in memory". Empty for no rung of ours.
[[nodiscard]] std::string_view rung_text(std::string_view rung);
// The bounds below the ceiling, and what a job reaches of each (tuner::ladder_json()): "at least 1,250 samples/s with its files in
// memory (98 % reached), 2,000 samples/s with ready batches on the host (62 % reached)". Empty where there is only the ceiling.
[[nodiscard]] std::string ladder_text(const Json& ladder);

// "2026-11-21 10:15:03" in local time.
[[nodiscard]] std::string time_text(std::int64_t unix_time_ns);

// Rows of cells as columns that line up; the first row is the heading. Widths are those of a terminal, where a
// Chinese character takes two columns. Cells are made
// printable(): they may be texts of others.
[[nodiscard]] std::string table_text(std::vector<std::vector<std::string>> rows);

// What a table gives up where it is too wide.
struct TableCut {
  std::size_t column = 0;
  // The column becomes no narrower than this, and its cells end with "…"; 0: it is left out.
  std::size_t least = 0;
  // Its cells become their first `least` characters, which say something by themselves, such as the day of a time.
  bool is_part = false;
};
// How many columns table_text() takes.
[[nodiscard]] std::size_t table_columns(const std::vector<std::vector<std::string>>& rows);
// table_text() in `columns`, or in as few more as can be: the cuts are made one after the other, as far as it takes.
// `columns` 0: the whole table.
[[nodiscard]] std::string fitted_table_text(std::vector<std::vector<std::string>> rows, int columns,
                                            const std::vector<TableCut>& cuts);

}  // namespace autotuned::daemon
