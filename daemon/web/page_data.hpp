// SPDX-License-Identifier: Apache-2.0
// The JSON that the page shows of the history: the reports of the commands in a smaller form, because a page of 200
// trials is also saved as a file.
#pragma once

#include <string>

#include "base/json.hpp"
#include "base/result.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// {"runs": summaries, newest first, "has_more", "machines": {key: {"name", "facts"}}}.
[[nodiscard]] Result<Json> runs_page_json(const storage::History& history);

// The story of a run (`explain --json`). Each trial tells its change as [{"knob", "from", "to"}], and "pair_ratios":
// the ratio of each pair of blocks in thousandths, as they were measured. Members of a trial that are null, 0 or empty
// are left out, and so is the verdict beside the outcome. ErrorKind::not_found or invalid as find_named_run().
[[nodiscard]] Result<Json> run_page_json(const storage::History& history, const std::string& name);

// The same run in few lines, for a reader without scripts: what it was, and the card with which `run` ends.
[[nodiscard]] Result<std::string> run_page_text(const storage::History& history,
                                                const std::string& name);

// `compare --json`.
[[nodiscard]] Result<Json> comparison_page_json(const storage::History& history,
                                                const std::string& a, const std::string& b);

}  // namespace autotuned::daemon
