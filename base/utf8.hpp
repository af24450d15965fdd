// SPDX-License-Identifier: Apache-2.0
// Text of untrusted files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace autotuned {

// Bytes of the UTF-8 character at the front of `text`, which is not empty; 0 when it is not one.
[[nodiscard]] std::size_t utf8_length(std::string_view text);

// What somebody wrote, in quotation marks, shortened and without control characters.
[[nodiscard]] std::string quote_for_message(std::string_view text);

}  // namespace autotuned
