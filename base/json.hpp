// SPDX-License-Identifier: Apache-2.0
// Reading and writing JSON: sizes are bounded, and errors name the field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace autotuned {

using Json = nlohmann::json;

// Parses one value. Refuses text over `max_bytes`, nesting over `max_depth` and trailing text with
// ErrorKind::invalid; `where` names the source in the message. Never throws.
[[nodiscard]] Result<Json> parse_json(std::string_view text, std::string where,
                                      std::size_t max_bytes = 16U << 20U, int max_depth = 64);

// One line, without spaces; bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string to_line(const Json& value);

// The form for people: each member on a line of its own, indented, with a newline at the end.
[[nodiscard]] std::string to_lines(const Json& value);

// Field access for untrusted objects: ErrorKind::invalid names the field, what was expected and what
// was found. `object` need not be an object.
[[nodiscard]] Result<std::string> get_string(const Json& object, const char* field);
[[nodiscard]] Result<std::int64_t> get_integer(const Json& object, const char* field);
[[nodiscard]] Result<double> get_number(const Json& object, const char* field);  // finite
[[nodiscard]] Result<bool> get_bool(const Json& object, const char* field);
// Returns the member; JSON null if `object` is not an object or lacks it.
[[nodiscard]] const Json& member(const Json& object, const char* field);
// Returns the strings in a list; none if the member is no list. Other values in it are left out.
[[nodiscard]] std::vector<std::string> strings_in(const Json& object, const char* field);

}  // namespace autotuned
