// SPDX-License-Identifier: Apache-2.0
// The rows of the history as fields to store, and back. One function per table and direction.
#pragma once

#include "base/identifier.hpp"
#include "base/trial.hpp"
#include "storage/history.hpp"
#include "storage/sql.hpp"

namespace autotuned::storage {

// The columns of a run in three groups: keys, which never change; the ceiling, which has its own call (History::put_ceiling()); and
// progress, which is rewritten while the run goes on.
[[nodiscard]] Fields key_fields(const RunRow& run);
[[nodiscard]] Fields ceiling_fields(double samples_per_second, const std::string& bound_by,
                                    const Json& ladder);
[[nodiscard]] Fields progress_fields(const RunRow& run);
// Checks the configurations in `training` of a run; throws DamagedRow as reading the row does.
void check_configurations(const Json& training);
[[nodiscard]] RunRow run_from(const Row& row);

[[nodiscard]] Fields fields_of(const RunId& run, const TrialRecord& trial);
[[nodiscard]] TrialRecord trial_from(const Row& row);

[[nodiscard]] Fields fields_of(const TrialId& trial, const TrialBlock& block);
[[nodiscard]] TrialBlock block_from(const Row& row);

[[nodiscard]] Fields fields_of(const TrialId& trial, const CheckRecord& check);
[[nodiscard]] CheckRecord check_from(const Row& row);

[[nodiscard]] Fields fields_of(const RunId& run, std::int64_t profile,
                               const FindingRecord& finding);
[[nodiscard]] FindingRecord finding_from(const Row& row);

[[nodiscard]] Fields fields_of(const BestRow& best);
[[nodiscard]] BestRow best_from(const Row& row);

}  // namespace autotuned::storage
