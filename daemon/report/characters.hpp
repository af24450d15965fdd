// SPDX-License-Identifier: Apache-2.0
// How many columns of a terminal a text takes. Pure; any thread.
//
// Widths and the borders between characters come from utf8proc. The C library has wcwidth(), but only after the program has
// set a locale with UTF-8, which another system may not have (scripts/package), and it does not know which code points form
// one character. utf8proc needs neither a locale nor a table of ours, and has nothing else in it.
#pragma once

#include <string>
#include <string_view>

namespace autotuned::daemon {

// The number of columns, as the sum over the code points. A terminal that draws several code points as one picture uses
// fewer. A byte that is not UTF-8 counts as one column.
[[nodiscard]] int columns_of(std::string_view text);

// The longest beginning of `text` that takes at most `columns`. An accent stays with its letter, and the parts of an emoji
// stay together.
[[nodiscard]] std::string_view beginning_of(std::string_view text, int columns);

// `text` with U+FFFD for each byte that is not UTF-8.
[[nodiscard]] std::string valid_text(std::string_view text);

}  // namespace autotuned::daemon
