// SPDX-License-Identifier: Apache-2.0
// Reads single values of a recipe, strictly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace autotuned::recipes {

[[nodiscard]] std::optional<bool> read_boolean(std::string_view text);
// Reads decimal digits with an optional minus; without leading zeros and exponent.
[[nodiscard]] std::optional<std::int64_t> read_integer(std::string_view text);
// Reads a finite decimal number, or a fraction of two.
[[nodiscard]] std::optional<double> read_number(std::string_view text);
// Whether float32, in which trainings compute, holds this number: 0, or a magnitude of a normal number. Smaller ones
// would count as 0 there, and larger ones as infinity.
[[nodiscard]] bool fits_float32(double number);
// Replaces a decimal comma: "2.5e-3" for "2,5e-3". Returns nothing if the result is not a number.
[[nodiscard]] std::optional<std::string> without_decimal_comma(std::string_view text);
// Whether `text` is one non-empty line without control characters, of bounded length.
[[nodiscard]] bool is_line(std::string_view text);
// Whether `text` is a line of at most 100 bytes that can name a folder, without characters that control a terminal
// (base/printable.hpp).
[[nodiscard]] bool is_name(std::string_view text);
[[nodiscard]] bool is_device(std::string_view text);

}  // namespace autotuned::recipes
