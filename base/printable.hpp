// SPDX-License-Identifier: Apache-2.0
// Text from outside, made safe for a terminal.
#pragma once

#include <string>

namespace autotuned {

// Replaces each character that could control a terminal or deceive its reader by '?': control characters
// (newlines and tabs included), U+0080 to U+009F, characters that change the direction of text or have no
// width. Bytes that are not UTF-8 are not changed.
[[nodiscard]] std::string printable(std::string text);

// The same, but newlines are kept.
[[nodiscard]] std::string printable_lines(std::string text);

// For text between the double quotation marks of YAML: the same characters become escapes, so that the text
// keeps its meaning.
[[nodiscard]] std::string printable_quoted(const std::string& quoted);

// A name of a file as a shell takes it for one word, quoted if that is needed: for commands that a message tells people to type.
// One that begins with '-' gets "./" in front; with characters that printable() replaces it is a word as bash has it, $'a\x1bb'.
[[nodiscard]] std::string shell_word(const std::string& name);

}  // namespace autotuned
