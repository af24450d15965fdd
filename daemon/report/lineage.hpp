// SPDX-License-Identifier: Apache-2.0
// Runs that are parts of one training: each goes on from the end of the one before it (`run --extend`).
#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// The id of the run whose training this run continues; empty: it began its own.
[[nodiscard]] std::string extended_run(const storage::RunRow& run);

// The runs that this one continues, oldest first. A run that the history no longer has ends the search.
[[nodiscard]] Result<std::vector<storage::RunRow>> runs_before(const storage::History& history,
                                                               const storage::RunRow& run);

// The ids of `before`, the answer of runs_before(). Where that begins with a sequel whose predecessor the history no
// longer has, the id of the predecessor stands first.
[[nodiscard]] std::vector<std::string> ids_before(const std::vector<storage::RunRow>& before,
                                                  const storage::RunRow& run);

// runs_before(), this run and the runs that continue it. Where several continue a run: the newest that has not failed.
[[nodiscard]] Result<std::vector<storage::RunRow>> lineage_of(const storage::History& history,
                                                              const storage::RunRow& run);

// An object for each run: {"run", "length": "20 epochs", "steps": null if it has not trained, "state",
// "is_interrupted"}; an empty list for fewer than two runs. "7 of 20 epochs": evaluate.patience has ended the training.
[[nodiscard]] Json lineage_json(const std::vector<storage::RunRow>& lineage);

// A table of these runs; empty for fewer than two.
[[nodiscard]] std::string lineage_text(const std::vector<storage::RunRow>& lineage);

// What a run that extends a training takes over of the tuning, as lines of a summary. It has measured nothing itself.
[[nodiscard]] std::string tuning_before_text(const storage::RunRow& run);

}  // namespace autotuned::daemon
