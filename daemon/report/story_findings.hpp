// SPDX-License-Identifier: Apache-2.0
// The findings in the profiles of a run, with the outcomes of the trials that answer them.
#pragma once

#include <string>

#include "base/json.hpp"
#include "daemon/report/story.hpp"

namespace autotuned::daemon {

// The findings of one profile of the run (FindingRecord::to_json()). A finding whose plugin or knob had a decided trial
// in the run gets that trial as `tried`: {"trial", "outcome", "rejection", "reason"}.
[[nodiscard]] Json findings_json(const RunRecord& record, const Json& profile);
// A line for each finding, behind `heading`: the outcome of its trial, or else the plugin that acts on it, or what to
// do.
[[nodiscard]] std::string findings_text(const RunRecord& record, const Json& profile,
                                        const char* heading);

}  // namespace autotuned::daemon
