// SPDX-License-Identifier: Apache-2.0
// What a person reads of a run: lines that stay, the panel below them, and the card at the end. Pure: the same state at the
// same time gives the same lines for a look.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "daemon/screen/run_progress.hpp"
#include "daemon/screen/styled_line.hpp"

namespace autotuned::daemon {

// What is said of an event for good. `progress` has taken it.
[[nodiscard]] std::vector<Line> lasting_lines(const Json& event, const RunProgress& progress,
                                              const Look& look);

// What goes on at `now`: at most seven lines, none once the run has ended. `look` has a width.
[[nodiscard]] std::vector<Line> panel_lines(const RunProgress& progress,
                                            std::chrono::nanoseconds now, const Look& look);

// The end of a run: `result` is that of `run --json`, `text` its summary (summary_text() of daemon/report). Paths below `here`
// are shown from there.
[[nodiscard]] std::vector<Line> card_lines(const Json& result, const std::string& text,
                                           const std::filesystem::path& here, const Look& look);

}  // namespace autotuned::daemon
