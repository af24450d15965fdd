// SPDX-License-Identifier: Apache-2.0
#include "daemon/screen/styled_line.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include "base/printable.hpp"
#include "daemon/report/characters.hpp"
#include "daemon/screen/line_breaks.hpp"

namespace autotuned::daemon {

namespace {

// The code of one of the 16 colours that every terminal has, in the shades that its user has chosen.
const char* code_of(Tone tone) {
  switch (tone) {
    case Tone::plain:
      return "";
    case Tone::quiet:
      return "\x1b[2m";
    case Tone::strong:
      return "\x1b[1m";
    case Tone::good:
      return "\x1b[32m";
    case Tone::doubtful:
      return "\x1b[33m";
    case Tone::bad:
      return "\x1b[31m";
  }
  return "";
}

constexpr const char* kNoTone = "\x1b[0m";

std::string cleaned(const std::string& text) {
  return valid_text(printable(text));
}

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// Takes one line for labelled() from `text`. The first word of a line is taken whatever its width.
std::string_view next_line(std::string_view& text, int columns) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t space = next_break(text, end == 0 ? 0 : end + 1);
    if (end > 0 && columns_of(text.substr(0, space)) > columns) break;
    end = space;
    if (end == 0) ++end;  // it begins with a space
  }
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end);
  if (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return line;
}

}  // namespace

bool is_coloured(ColorChoice choice, bool is_terminal) {
  if (choice != ColorChoice::automatic) return choice == ColorChoice::always;
  const char* const terminal = std::getenv("TERM");
  const bool has_colours = terminal != nullptr && std::string_view(terminal) != "dumb";
  return is_terminal && has_colours && !is_set("NO_COLOR");
}

int columns_of(const Line& line) {
  int columns = 0;
  for (const Span& span : line)
    columns += columns_of(cleaned(span.text));
  return columns;
}

std::string drawn(const Line& line, const LineStyle& style) {
  const bool is_cut = style.columns > 0 && columns_of(line) > style.columns;
  int left = is_cut ? style.columns - 1 : 0;
  std::string text;
  for (const Span& span : line) {
    const std::string whole = cleaned(span.text);
    const std::string_view shown = is_cut ? beginning_of(whole, left) : std::string_view(whole);
    left -= columns_of(shown);
    const bool is_last = is_cut && shown.size() < whole.size();
    const bool has_tone = style.is_coloured && span.tone != Tone::plain && !shown.empty();
    if (has_tone) text += code_of(span.tone);
    text += shown;
    if (has_tone) text += kNoTone;
    if (is_last) {
      text += "…";
      break;
    }
  }
  return text;
}

Span label(std::string_view text, Tone tone) {
  std::string padded(text);
  const int missing = std::max(kLabelColumns - columns_of(text), 1);
  padded.append(static_cast<std::size_t>(missing), ' ');
  return {std::move(padded), tone};
}

std::vector<Line> labelled(const Span& head, std::string_view text, const LineStyle& style,
                           Tone tone) {
  const std::string cleaned_text = valid_text(printable_lines(std::string(text)));
  std::string_view left = cleaned_text;
  const int indent = columns_of(head.text);
  const int columns = style.columns > 0 ? std::max(style.columns - indent, 1) : 0;
  std::vector<Line> lines;
  const auto add = [&](std::string_view part) {
    const Span indentation{std::string(static_cast<std::size_t>(indent), ' '), Tone::plain};
    lines.push_back({lines.empty() ? head : indentation, {std::string(part), tone}});
  };
  do {
    const std::size_t end = std::min(left.find('\n'), left.size());
    std::string_view line = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
    if (columns == 0 || line.empty()) {
      add(line);
      continue;
    }
    while (!line.empty())
      add(next_line(line, columns));
  } while (!left.empty());
  return lines;
}

void append(std::vector<Line>& lines, std::vector<Line> more) {
  for (Line& line : more)
    lines.push_back(std::move(line));
}

std::string joined(const std::vector<std::string>& parts, int columns) {
  std::string text;
  for (const std::string& part : parts) {
    const std::string longer = text.empty() ? part : text + ", " + part;
    if (!text.empty() && columns_of(longer) > columns) break;
    text = longer;
  }
  return text;
}

std::string bar(double ratio, int columns) {
  const double clamped = std::isfinite(ratio) ? std::clamp(ratio, 0.0, 1.0) : 0.0;
  const int full = static_cast<int>(clamped * columns);
  std::string text;
  for (int i = 0; i < columns; ++i)
    text += i < full ? "█" : "░";
  return text;
}

}  // namespace autotuned::daemon
