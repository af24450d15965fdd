// SPDX-License-Identifier: Apache-2.0
// Lines for a terminal as texts with a meaning (Tone), and their conversion into bytes for a width, with or without
// colours. Pure; any thread.
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

// How lines are drawn.
struct LineStyle {
  int columns = 0;  // 0: as many as the line has
  bool is_coloured = false;
  bool is_verbose = false;
  bool has_panel = false;  // the panel shows the present activity, which then needs no line
};

enum class ColorChoice { automatic, always, never };

// Whether to use colours. `automatic` decides by `is_terminal` and the variables NO_COLOR and TERM.
[[nodiscard]] bool is_coloured(ColorChoice choice, bool is_terminal);

[[nodiscard]] int columns_of(const Line& line);

// The bytes of a line, without the line end. Texts may come from elsewhere, so each is made printable(). A line that is
// too wide is cut and ends with "…".
[[nodiscard]] std::string drawn(const Line& line, const LineStyle& style);

// The width of a label, in columns.
inline constexpr int kLabelColumns = 11;
[[nodiscard]] Span label(std::string_view text, Tone tone = Tone::quiet);

// `text`, which may have several lines, behind a label, broken between words. A word that is wider than `columns` stays whole
// and is on a line of its own: it may be a path that somebody wants to copy.
[[nodiscard]] std::vector<Line> labelled(const Span& head, std::string_view text,
                                         const LineStyle& style, Tone tone = Tone::plain);

// Appends `more` to `lines`.
void append(std::vector<Line>& lines, std::vector<Line> more);

// The first parts, joined by ", ", as many as fit into `columns`.
[[nodiscard]] std::string joined(const std::vector<std::string>& parts, int columns);

// A bar of `columns` characters, of which `ratio` (0 to 1) are full.
[[nodiscard]] std::string bar(double ratio, int columns);

}  // namespace autotuned::daemon
