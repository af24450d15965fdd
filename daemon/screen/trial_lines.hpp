// SPDX-License-Identifier: Apache-2.0
// The lines about trials that are decided. Used by run_lines.cpp alone.
#pragma once

#include <vector>

#include "base/json.hpp"
#include "daemon/screen/run_progress.hpp"
#include "daemon/screen/styled_line.hpp"

namespace autotuned::daemon {

// The verdict of a trial with its change and its ratio, and the changes that it withdraws, each with the reason.
[[nodiscard]] std::vector<Line> finished_trial_lines(const Json& trial,
                                                     const std::vector<KeptChange>& withdrawn,
                                                     const LineStyle& style);

// Rejected proposals (Said::rejections) in one line, their changes by reason; one alone as finished_trial_lines() has it.
[[nodiscard]] std::vector<Line> rejection_lines(const std::vector<Json>& trials,
                                                const LineStyle& style);

}  // namespace autotuned::daemon
