// SPDX-License-Identifier: Apache-2.0
// The lines about findings in the profiles of a run. Used by run_lines.cpp alone.
#pragma once

#include <vector>

#include "base/json.hpp"
#include "daemon/screen/run_progress.hpp"
#include "daemon/screen/styled_line.hpp"

namespace autotuned::daemon {

// The findings of the start, once the plugins have answered (Said::findings), each with its plugin if that has proposed a
// change. One is shown, or all of them (`is_verbose`): of those that are as severe as the first, one whose plugin declined
// comes last. None for other events.
[[nodiscard]] std::vector<Line> finding_lines(const RunProgress& progress, const LineStyle& style);

// What the event `profiled` of another configuration than the start still finds; only with `is_verbose`.
[[nodiscard]] std::vector<Line> left_finding_lines(const Json& event, const LineStyle& style);

}  // namespace autotuned::daemon
