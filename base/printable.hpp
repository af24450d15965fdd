// SPDX-License-Identifier: Apache-2.0
// Foreign text, made safe for a terminal.
#pragma once

#include <string>

namespace autotuned {

// With '?' for each character that could steer a terminal or deceive its reader: control characters, ends of lines and
// tabs included; U+0080 to U+009F; characters that turn the direction of text or have no width. Bytes that are no UTF-8
// stay as they are.
[[nodiscard]] std::string printable(std::string text);

// The same, but ends of lines stay as they are.
[[nodiscard]] std::string printable_lines(std::string text);

// For text between the double quotation marks of YAML: the same characters become escapes, and mean the same.
[[nodiscard]] std::string printable_quoted(const std::string& quoted);

}  // namespace autotuned
