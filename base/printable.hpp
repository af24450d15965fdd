// SPDX-License-Identifier: Apache-2.0
// Text from outside, made safe for a terminal.
#pragma once

#include <string>

namespace autotuned {

// Replaces each character that could control a terminal or deceive its reader with '?': control characters
// (newlines and tabs included), U+0080 to U+009F, characters that change the direction of text or have no
// width. Bytes that are not UTF-8 are not changed.
[[nodiscard]] std::string printable(std::string text);

// The same, but newlines are kept.
[[nodiscard]] std::string printable_lines(std::string text);

// Replaces the same characters with escapes, in text between the double quotation marks of YAML. The text keeps its meaning.
[[nodiscard]] std::string printable_quoted(const std::string& quoted);

// Quotes a file name, if needed, so that a shell reads it as one word. For commands that a message tells people to type. A name
// that begins with '-' gets "./" in front. A name with characters that printable() replaces becomes a word for bash: $'a\x1bb'.
[[nodiscard]] std::string shell_word(const std::string& name);

}  // namespace autotuned
