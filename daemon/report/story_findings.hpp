// SPDX-License-Identifier: Apache-2.0
// The findings in the profiles of a run, with the outcomes of the trials that answer them.
#pragma once

#include <string>

#include "base/json.hpp"
#include "daemon/report/story.hpp"

namespace autotuned::daemon {

// The findings of a profile of the run (FindingRecord::to_json()). One that a decided trial of the run answers, of its plugin
// or of its knob, has it as `tried`: {"trial", "outcome", "rejection", "is_given_up", "reason"}. If instead its
// plugin proposed nothing in the end, or was left out (`is_failure`), it has `declined`: {"because", "is_failure"}.
[[nodiscard]] Json findings_json(const RunRecord& record, const Json& profile);
// A line for each finding, behind `heading`: the outcome of its trial, or else the plugin that acts on it or why that one
// proposed nothing, or what to do.
[[nodiscard]] std::string findings_text(const RunRecord& record, const Json& profile,
                                        const char* heading);

}  // namespace autotuned::daemon
