// SPDX-License-Identifier: Apache-2.0
// Text of others on its way to a terminal.
#pragma once

#include <string>

namespace autotuned {

// With '?' for each character that could steer a terminal: control characters, ends of lines and tabs included, and
// U+0080 to U+009F in UTF-8. Bytes that are no UTF-8 stay as they are.
[[nodiscard]] std::string printable(std::string text);

// The same, but ends of lines stay as they are.
[[nodiscard]] std::string printable_lines(std::string text);

}  // namespace autotuned
