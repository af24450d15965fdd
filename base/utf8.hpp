// SPDX-License-Identifier: Apache-2.0
// Text of untrusted files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace autotuned {

// Returns the length, in bytes, of the UTF-8 character at the front of `text`; 0 if it is not valid. REQUIRES: `text` is not empty.
[[nodiscard]] std::size_t utf8_length(std::string_view text);

// Returns text that a user wrote, such as a name, shortened and without control characters.
[[nodiscard]] std::string short_for_message(std::string_view text);

// The same in quotation marks.
[[nodiscard]] std::string quote_for_message(std::string_view text);

}  // namespace autotuned
