// SPDX-License-Identifier: Apache-2.0
// What the rules found in the profiles of a run, with what came of trying what they call for.
#pragma once

#include <string>

#include "base/json.hpp"
#include "daemon/report/story.hpp"

namespace autotuned::daemon {

// The findings of a profile of the run (FindingRecord::to_json()). One that a decided trial of the run answers, of its plugin
// or of its knob, has it as `tried`: {"trial", "outcome", "rejection", "is_given_up", "reason"}.
[[nodiscard]] Json findings_json(const RunRecord& record, const Json& profile);
// One a line, behind `heading`: what came of trying it, else who acts on it, or what to do.
[[nodiscard]] std::string findings_text(const RunRecord& record, const Json& profile,
                                        const char* heading);

}  // namespace autotuned::daemon
