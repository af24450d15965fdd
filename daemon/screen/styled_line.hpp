// SPDX-License-Identifier: Apache-2.0
// A line for a terminal before it is one: texts with what they mean, made into bytes for a width and with or without colours.
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace autotuned::daemon {

enum class Tone {
  plain,
  quiet,     // labels, hints
  strong,    // what a reader looks for
  good,      // faster, kept
  doubtful,  // kept until the confirmation, or withdrawn
  bad,       // failed, an error
};

struct Span {
  std::string text;
  Tone tone = Tone::plain;
};
using Line = std::vector<Span>;

// How lines are to look.
struct Look {
  int columns = 0;  // 0: as many as the line has
  bool is_coloured = false;
  bool is_verbose = false;
  bool has_panel = false;  // what goes on is shown there, and needs no line
};

enum class ColorChoice { automatic, always, never };

// With `automatic` by where it goes to, and by the variables NO_COLOR and TERM.
[[nodiscard]] bool is_coloured(ColorChoice choice, bool is_terminal);

[[nodiscard]] int columns_of(const Line& line);

// Without the end of the line. Its texts may be those of others: each becomes printable(). What is too wide ends with "…".
[[nodiscard]] std::string drawn(const Line& line, const Look& look);

// Labels of lines take so many columns.
inline constexpr int kLabelColumns = 11;
[[nodiscard]] Span label(std::string_view text, Tone tone = Tone::quiet);

// `text`, which may have several lines, behind a label, broken between words. A word that is wider than the look stays whole
// and is on a line of its own: it may be a path that somebody wants to copy.
[[nodiscard]] std::vector<Line> labelled(const Span& head, std::string_view text, const Look& look,
                                         Tone tone = Tone::plain);

// Puts `more` behind `lines`.
void append(std::vector<Line>& lines, std::vector<Line> more);

// As many of the parts, from the first one on, as fit, joined by ", ".
[[nodiscard]] std::string joined(const std::vector<std::string>& parts, int columns);

// A bar of `columns` characters, of which `ratio` (0 to 1) are full.
[[nodiscard]] std::string bar(double ratio, int columns);

}  // namespace autotuned::daemon
