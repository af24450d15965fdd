// SPDX-License-Identifier: Apache-2.0
// Fits the output of a command to the width of a terminal: lines that are too wide are broken at blanks.
#pragma once

#include <string>
#include <string_view>

namespace autotuned::daemon {

// Every line of `text` that takes more than `columns` is broken between words. The lines below its first one begin
// under the text behind a label or behind the first cells of a table ("kept a, b"), under the text of an item of a list
// (" 1. a"), or two blanks farther right than the line. A figure is not broken (line_breaks.hpp). A word that is wider
// than a line stays whole: it may be a path that somebody wants to copy. `columns` 0: nothing is broken. Pure; any
// thread.
[[nodiscard]] std::string wrapped(std::string_view text, int columns);

// The width of the terminal that print_text() writes to; 0: it is none.
[[nodiscard]] int text_columns();

// Writes `text` to standard output or standard error, wrapped where that is a terminal. REQUIRES: `text` has no control
// characters (base/printable.hpp). One thread at a time.
void print_text(std::string_view text);
void print_message(std::string_view text);

}  // namespace autotuned::daemon
