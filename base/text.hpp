// SPDX-License-Identifier: Apache-2.0
// Numbers and names as people read and write them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace autotuned {

// `text` without spaces, tabs and newlines at its beginning and end.
[[nodiscard]] std::string_view trimmed(std::string_view text);
// Returns the first line of a message; "unknown error" for a null pointer. Messages of libraries may be a page long.
[[nodiscard]] std::string first_line(const char* text);

// Returns the candidate with the smallest edit distance (Damerau-Levenshtein, case ignored) to `name`. Returns nothing if that
// distance is too large for a misspelling: more than a third of the length, though one is always allowed.
[[nodiscard]] std::optional<std::string> nearest_name(std::string_view name,
                                                      std::span<const std::string> candidates);

// "850 ms", "12.3 s", "4 min 05 s", "2 h 03 min".
[[nodiscard]] std::string format_duration(std::chrono::nanoseconds duration);
// "90s", "10min", "250ms": the form of recipes and options. parse_duration() reads the same duration from it.
[[nodiscard]] std::string format_exact_duration(std::chrono::nanoseconds duration);
// A measured time with three significant figures: "351 ns", "12.3 µs", "8.05 ms", "1.23 s"; from a minute on as
// format_duration(). "unknown" for NaN.
[[nodiscard]] std::string format_span(double ns);
// "512 B", "1.5 GiB".
[[nodiscard]] std::string format_bytes(std::int64_t bytes);
// "12,345".
[[nodiscard]] std::string format_count(std::int64_t count);
// "1 picture", "1,200 pictures".
[[nodiscard]] std::string format_counted(std::int64_t count, std::string_view what);
// A gain for people: 1.234 → "+23.4 %", 0.98 → "-2.0 %".
[[nodiscard]] std::string format_gain(double ratio, int decimals = 1);
// Returns the number of decimals with which to print a ratio and both ends of its interval: `least`, or up to two more if rounding
// would make an interval on one side of 1 seem to reach 1, or its ends look equal. Print all three with the same number, so that a
// ratio inside its interval stays inside. An unknown end may be 0 or huge.
[[nodiscard]] int ratio_decimals(double low, double high, int least);
// A ratio without an interval: "1.35". Only 1 itself is "1.00", so 1.004 is "1.004".
[[nodiscard]] std::string format_ratio(double ratio);
// A part of a whole for people: 0.314 → "31 %", 0.004 → "0.4 %".
[[nodiscard]] std::string format_share(double ratio);
// "a, b, c and 4 more": the first `most` names, and the number of the others.
[[nodiscard]] std::string format_names(std::span<const std::string> names, std::size_t most);

// "10min", "90s", "1h30min", "250ms". ErrorKind::invalid otherwise.
[[nodiscard]] Result<std::chrono::nanoseconds> parse_duration(std::string_view text);
// "6GiB", "512MiB", "1000". ErrorKind::invalid otherwise.
[[nodiscard]] Result<std::int64_t> parse_bytes(std::string_view text);
// "2%" or "0.02" → 0.02. ErrorKind::invalid otherwise.
[[nodiscard]] Result<double> parse_ratio(std::string_view text);

}  // namespace autotuned
