// SPDX-License-Identifier: Apache-2.0
// Recorded events of runs, and what a person sees of them. golden/NAME.jsonl has lines {"at_s": 1.5, "event": {...}}, and
// {"at_s": 2.0} where the panel is looked at; golden/NAME.LOOK.txt is what is seen: LOOK is the
// width of the terminal, or "lines" or "verbose" for no terminal.
// tests/golden.hpp says how to write them anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "daemon/screen/run_lines.hpp"
#include "tests/golden.hpp"

namespace autotuned::daemon {
namespace {

struct Case {
  const char* stream;
  const char* style;
};

std::ostream& operator<<(std::ostream& out, const Case& tested) {
  return out << tested.stream << "." << tested.style;
}

LineStyle look_named(const std::string& name) {
  if (name == "lines") return {};
  if (name == "verbose") return {.is_verbose = true};
  // As in ProgressView, the last column is left free.
  LineStyle style{.columns = std::stoi(name) - 1, .has_panel = true};
  style.is_coloured = name.ends_with("-color");
  return style;
}

std::string golden(const std::string& name) {
  return "daemon/screen/golden/" + name;
}

// The escape character as a picture of it, for the eyes of a reader.
std::string readable(std::string text) {
  for (std::size_t at = 0; (at = text.find('\x1b', at)) != std::string::npos;)
    text.replace(at, 1, "␛");
  return text;
}

// One that cannot be broken, such as a path.
bool is_one_word(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(' ');
  return begin != std::string::npos && line.find(' ', begin) == std::string::npos;
}

// Everything that is seen, in order. `too_wide`: lines that a terminal would break.
std::string seen(const std::string& stream, const LineStyle& style,
                 std::vector<std::string>& too_wide) {
  std::istringstream events(tests::golden_text(golden(stream + ".jsonl")));
  EXPECT_FALSE(events.view().empty()) << stream;
  RunProgress progress;
  std::string text;
  const auto print = [&](const std::vector<Line>& lines) {
    for (const Line& line : lines) {
      text += readable(drawn(line, {.is_coloured = style.is_coloured})) + "\n";
      if (style.columns > 0 && columns_of(line) > style.columns && !is_one_word(drawn(line, {}))) {
        too_wide.push_back(drawn(line, {}));
      }
    }
  };
  const auto print_panel = [&](const std::vector<Line>& lines) {
    for (const Line& line : lines)
      text += "| " + readable(drawn(line, style)) + "\n";
  };
  for (std::string line; std::getline(events, line);) {
    const auto row = parse_json(line, stream);
    EXPECT_TRUE(row) << line;
    if (!row) continue;
    const auto at = std::chrono::nanoseconds(
        static_cast<std::int64_t>(get_number(*row, "at_s").value_or(0.0) * 1e9));
    const Json& event = member(*row, "event");
    if (event.is_null()) {
      if (style.has_panel) print_panel(panel_lines(progress, at, style));
      continue;
    }
    take(progress, event, at);
    print(lasting_lines(event, progress, style));
    if (text_in(event, "event") != "result") continue;
    EXPECT_TRUE(panel_lines(progress, at, style).empty());
    if (member(event, "result").is_object()) {
      print(card_lines(member(event, "result"), text_in(event, "text"), "/srv/ada", style));
    }
  }
  return text;
}

class Golden : public testing::TestWithParam<Case> {};

TEST_P(Golden, IsWhatIsSeen) {
  std::vector<std::string> too_wide;
  const std::string name = GetParam().style;
  const std::string text = seen(GetParam().stream, look_named(name), too_wide);
  EXPECT_TRUE(too_wide.empty()) << testing::PrintToString(too_wide);
  tests::expect_golden(golden(std::string(GetParam().stream) + "." + name + ".txt"), text);
}

INSTANTIATE_TEST_SUITE_P(
    Streams, Golden,
    testing::Values(Case{"whole_run", "80"}, Case{"whole_run", "120"}, Case{"whole_run", "40"},
                    Case{"whole_run", "80-color"}, Case{"whole_run", "lines"},
                    Case{"whole_run", "verbose"}, Case{"long_names", "80"},
                    Case{"long_names", "40"}, Case{"wide_characters", "80"},
                    Case{"wide_characters", "40"}, Case{"withdrawn", "80"},
                    Case{"withdrawn", "lines"}, Case{"cancelled", "80"}, Case{"failed", "80"},
                    Case{"nothing_found", "80"}, Case{"resumed", "80"}, Case{"resumed", "lines"},
                    Case{"no_budget", "80"}, Case{"ranks", "80"}, Case{"ranks", "lines"},
                    Case{"rejections", "80"}, Case{"rejections", "lines"},
                    Case{"rejections", "verbose"}),
    [](const testing::TestParamInfo<Case>& tested) {
      std::string name = std::string(tested.param.stream) + "_" + tested.param.style;
      std::ranges::replace(name, '-', '_');
      return name;
    });

// The promise of docs/commands.md, of the events of the main job.
TEST(GoldenLines, AWholeRunTakesAtMostFortyLinesWithoutATerminal) {
  const std::string text = tests::golden_text(golden("whole_run.lines.txt"));
  EXPECT_LE(std::ranges::count(text, '\n'), 40);
  EXPECT_GT(std::ranges::count(text, '\n'), 10);
}

}  // namespace
}  // namespace autotuned::daemon
