// SPDX-License-Identifier: Apache-2.0
// The card at the end of a run.
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/report/run_files.hpp"
#include "daemon/report/test_report.hpp"
#include "daemon/screen/next_commands.hpp"
#include "daemon/screen/run_lines.hpp"

namespace autotuned::daemon {

namespace {

// The path relative to `here` if it is below; otherwise the whole path.
std::string path_text(const std::filesystem::path& path, const std::filesystem::path& here) {
  const std::filesystem::path relative = path.lexically_relative(here);
  const bool is_below = !relative.empty() && !relative.native().starts_with("..");
  return (is_below ? relative : path).string();
}

// The file of the model; with averages of the weights that were tested, both files.
std::string model_text(const std::filesystem::path& output, const std::string& tested,
                       const std::filesystem::path& here) {
  if (tested.empty()) return path_text(output / "model.pt", here);
  return path_text(output / tested, here) +
         ", to which the figures belong; model.pt beside it has the last weights";
}

}  // namespace

std::vector<Line> card_lines(const Json& result, const std::string& text,
                             const std::filesystem::path& here, const LineStyle& style) {
  constexpr std::size_t kSummaryLabel = 9;  // of summary_text()
  const auto wide = [](std::string_view name) {
    Span span = label(name);
    span.text.resize(kSummaryLabel, ' ');
    return span;
  };
  const std::string run = text_in(result, "run");
  const std::string state = text_in(result, "state");
  std::vector<Line> lines(1);  // an empty one
  if (state != "finished" && !run.empty()) {
    append(lines, labelled(wide("run"), run + ", " + state, style));
  }
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (line.size() <= kSummaryLabel) continue;
    const std::string_view name = line.substr(0, kSummaryLabel);
    const bool is_speedup = name.starts_with("faster");
    const bool is_problem = name.starts_with("error") || name.starts_with("slow");
    const Tone tone = is_speedup ? Tone::good : is_problem ? Tone::bad : Tone::plain;
    append(lines,
           labelled({std::string(name), Tone::quiet}, line.substr(kSummaryLabel), style, tone));
  }
  const std::filesystem::path output = text_in(result, "output");
  if (state == "finished" && !output.empty()) {
    // A run with --tune-only has trained nothing.
    if (const Json& training = member(result, "training"); training.contains("steps")) {
      const std::string tested = text_in(training, kTestWeights);
      append(lines, labelled(wide("model"), model_text(output, tested, here), style));
    }
    const std::string described = text_in(result, kFilesOf);
    const std::string recipe =
        described.empty()
            ? path_text(output / "best.yaml", here)
            : "not written: best.yaml and summary.json in " + path_text(output, here) +
                  " stay those of run " + described +
                  ", whose model is there; `autotuned best RECIPE` prints the configuration";
    append(lines, labelled(wide("recipe"), recipe, style));
  }
  if (!run.empty()) {
    append(lines, labelled(wide("next"), next_commands(result), style, Tone::strong));
  }
  return lines;
}

}  // namespace autotuned::daemon
