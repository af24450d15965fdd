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
// The interval, such as "1.18 to 1.29"; "too few pairs for an interval" if neither end is known. It has as many
// decimals as it needs, at least `least_decimals` (ratio_decimals() of base/text.hpp).
[[nodiscard]] std::string interval_text(const Estimate& estimate, int least_decimals);
// "1.23": the ratio alone, with the decimals of its interval.
[[nodiscard]] std::string ratio_text(const Estimate& estimate, int least_decimals);
// Whether at least one end of the interval is known.
[[nodiscard]] bool has_interval(const Estimate& estimate);
// "+23.4 % (between +18.0 % and +29.1 %, 22 pairs of blocks)".
[[nodiscard]] std::string gain_text(const Estimate& estimate);
// "1,234 samples/s".
[[nodiscard]] std::string rate_text(double samples_per_second, std::string_view unit = "samples");

// What a rung of the ladder leaves out, for people: "with its files in memory". Empty for an unknown name.
[[nodiscard]] std::string_view rung_text(std::string_view rung);
// The upper bounds below the ceiling, with the share of each that the job reaches (tuner::ladder_json()): "at least
// 1,250 samples/s with its files in memory (98 % reached), 2,000 samples/s with ready batches on the host (62 %
// reached)". Empty if there is only the ceiling.
[[nodiscard]] std::string ladder_text(const Json& ladder);

// "2026-11-21 10:15:03" in local time.
[[nodiscard]] std::string time_text(std::int64_t unix_time_ns);

// Rows of cells as columns that line up; the first row is the heading. Widths are those of a terminal, where a
// Chinese character takes two columns. Cells are made
// printable(): they may be texts of others.
[[nodiscard]] std::string table_text(std::vector<std::vector<std::string>> rows);

// How one column of a table is shortened if the table is too wide.
struct TableCut {
  std::size_t column = 0;
  // The column becomes no narrower than this, and its cells end with "…"; 0: it is left out.
  std::size_t least = 0;
  // Its cells become their first `least` characters, which say something by themselves, such as the day of a time.
  bool is_part = false;
};
// The width of table_text(), in columns of the terminal.
[[nodiscard]] std::size_t table_columns(const std::vector<std::vector<std::string>>& rows);
// The table in at most `columns` columns of the terminal. The cuts are made one after the other until it fits; if all
// of them do not suffice, the table is wider. `columns` 0: no cuts.
[[nodiscard]] std::string fitted_table_text(std::vector<std::vector<std::string>> rows, int columns,
                                            const std::vector<TableCut>& cuts);

}  // namespace autotuned::daemon
