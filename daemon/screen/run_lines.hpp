// SPDX-License-Identifier: Apache-2.0
// The lines that show a run to a person: lines that stay, the panel below them, and the card at the end. Pure: the
// result depends on the arguments alone.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "daemon/screen/run_progress.hpp"
#include "daemon/screen/styled_line.hpp"

namespace autotuned::daemon {

// The lines that stay on the screen for an event. REQUIRES: take() has applied `event` to `progress`.
[[nodiscard]] std::vector<Line> lasting_lines(const Json& event, const RunProgress& progress,
                                              const LineStyle& style);

// The panel at the time `now`: at most seven lines, none once the run has ended. REQUIRES: style.columns > 0.
[[nodiscard]] std::vector<Line> panel_lines(const RunProgress& progress,
                                            std::chrono::nanoseconds now, const LineStyle& style);

// The card at the end of a run. `result` is that of `run --json`, `text` its summary (summary_text() of daemon/report).
// Paths below `here` are shown relative to it.
[[nodiscard]] std::vector<Line> card_lines(const Json& result, const std::string& text,
                                           const std::filesystem::path& here,
                                           const LineStyle& style);

}  // namespace autotuned::daemon
