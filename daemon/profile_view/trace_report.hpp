// SPDX-License-Identifier: Apache-2.0
// The analysis of traces as JSON and as text for people.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "profiler/analysis/trace_analysis.hpp"

namespace autotuned::daemon {

// The contract of `analyze --json` (docs/commands.md). At most `top` operators and kernels; 0: all.
// REQUIRES: `ranks` is not empty, here and below.
[[nodiscard]] Json traces_json(const std::vector<analysis::TraceAnalysis>& ranks, std::size_t top);

// One line for each trace that was read, with its notes.
[[nodiscard]] std::string header_text(const std::vector<analysis::TraceAnalysis>& ranks);
// "GPU 0 (NVIDIA A10G, compute capability 8.6, 22.1 GiB)".
[[nodiscard]] std::string device_title(const analysis::TraceAnalysis& rank, int device);
// The overview: parts of a step, ranks, devices, findings.
[[nodiscard]] std::string overview_text(const std::vector<analysis::TraceAnalysis>& ranks);
[[nodiscard]] Json findings_json(const std::vector<analysis::Finding>& findings);

// The table of rules.
[[nodiscard]] Json rules_json();
[[nodiscard]] std::string rules_text();

}  // namespace autotuned::daemon
