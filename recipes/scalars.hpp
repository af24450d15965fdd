// SPDX-License-Identifier: Apache-2.0
// How single values of a recipe are read, strictly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace autotuned::recipes {

[[nodiscard]] std::optional<bool> read_boolean(std::string_view text);
// Decimal digits with an optional minus; no leading zeros, no exponent.
[[nodiscard]] std::optional<std::int64_t> read_integer(std::string_view text);
// A decimal number or a fraction of two; finite.
[[nodiscard]] std::optional<double> read_number(std::string_view text);
// "2.5e-3" of "2,5e-3"; nothing where that makes no number.
[[nodiscard]] std::optional<std::string> without_decimal_comma(std::string_view text);
// One non-empty line without control characters, of bounded length.
[[nodiscard]] bool is_line(std::string_view text);
// A line of at most 100 bytes that can name a folder and shows what it is: without characters that steer a terminal
// (base/printable.hpp).
[[nodiscard]] bool is_name(std::string_view text);
[[nodiscard]] bool is_device(std::string_view text);

}  // namespace autotuned::recipes
