// SPDX-License-Identifier: Apache-2.0
// Runs that are parts of one training: each goes on from the end of the one before it (`run --extend`).
#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// The id of the run with whose training this one goes on; empty: it began its own.
[[nodiscard]] std::string extended_run(const storage::RunRow& run);

// The runs before this one, the first of them first. It begins behind a run that the history no longer has.
[[nodiscard]] Result<std::vector<storage::RunRow>> runs_before(const storage::History& history,
                                                               const storage::RunRow& run);

// The ids of these, of which `before` is what runs_before() found, and of the run behind which they begin.
[[nodiscard]] std::vector<std::string> ids_before(const std::vector<storage::RunRow>& before,
                                                  const storage::RunRow& run);

// runs_before() with this run and those that go on with it: of several the newest that has not failed.
[[nodiscard]] Result<std::vector<storage::RunRow>> lineage_of(const storage::History& history,
                                                              const storage::RunRow& run);

// Of each: {"run", "length": "20 epochs", "steps": null if it has not trained, "state",
// "is_interrupted"}; empty for fewer than two.
[[nodiscard]] Json lineage_json(const std::vector<storage::RunRow>& lineage);

// A table of these runs; empty for fewer than two.
[[nodiscard]] std::string lineage_text(const std::vector<storage::RunRow>& lineage);

}  // namespace autotuned::daemon
