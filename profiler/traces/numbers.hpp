// SPDX-License-Identifier: Apache-2.0
// Numbers and strings in the form in which a trace contains them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace autotuned::traces {

// Converts decimal microseconds ("4423779779975.504") to nanoseconds, exactly; further digits are dropped. Returns nothing if the text is
// not a number or does not fit.
[[nodiscard]] std::optional<std::int64_t> nanoseconds_from(std::string_view microseconds);

// Reads an integer, with or without quotation marks.
[[nodiscard]] std::optional<std::int64_t> integer_from(std::string_view token);
// Reads the number of a device, stream or rank; -1 if it is not one.
[[nodiscard]] std::int32_t small_integer_from(std::string_view token);

// Returns the content of a JSON string with its escapes resolved. Escapes that JSON does not know, such as those
// of a Windows path, are kept as they are and counted in `invalid_escapes`.
[[nodiscard]] std::string unescaped(std::string_view content, std::int64_t& invalid_escapes);

// Returns a copy of an event that a JSON parser accepts: control characters in strings become blanks, bytes that
// are not UTF-8 become '?', and words that are not JSON (N/A, nan, inf) become null.
[[nodiscard]] std::string mended(std::string_view event);

}  // namespace autotuned::traces
