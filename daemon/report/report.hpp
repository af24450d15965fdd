// SPDX-License-Identifier: Apache-2.0
// Runs and trials as JSON and as text for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/trial.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// "finished"; of a run whose process has ended meanwhile "tuning, interrupted".
[[nodiscard]] std::string state_text(const storage::RunRow& run);

// A run without its trials: an element of `history --json`.
[[nodiscard]] Json run_summary_json(const storage::RunRow& run);

// What the best configuration of a run costs once in a training, beside the rates that are told of it: as the trial saw
// it that decided. 0: nothing, or not known.
[[nodiscard]] std::int64_t one_time_ns(const std::vector<TrialRecord>& trials);

// Of these profiles (History::profiles()), the last of this configuration with what a trace told, else the last; null when there is none.
[[nodiscard]] const Json* profile_of(const std::vector<Json>& profiles,
                                     const Configuration& configuration);

// The contract of `run --json` (docs/history.md), also the answer of `show --json`. Each trial has how its trainers ended
// before their time, the run those that were in none; start and best have what rules found in their profiles.
[[nodiscard]] Json run_json(const storage::RunRow& run, const std::vector<TrialRecord>& trials,
                            const std::vector<storage::TrialTrainerEnd>& ends,
                            const std::vector<Json>& profiles);

// Outcome, evidence and time.
[[nodiscard]] Json trainer_end_json(const TrainerEnd& end);
[[nodiscard]] Json check_json(const CheckRecord& check);

// "loader.workers 0 → 2, batch_size 32 → 256".
[[nodiscard]] std::string change_text(const Configuration& reference, const Configuration& change);

// "1.23 x (1.18 to 1.29)". An end that too few pairs have not shown yet is left out: "1.23 x (at least 1.18)".
[[nodiscard]] std::string estimate_text(const Estimate& estimate);
// "1.18 to 1.29"; "too few pairs for an interval" where neither end is known.
[[nodiscard]] std::string interval_text(const Estimate& estimate, int decimals);
// Whether one end is known.
[[nodiscard]] bool has_interval(const Estimate& estimate);
// "+23.4 % (between +18.0 % and +29.1 %, 22 pairs of blocks)".
[[nodiscard]] std::string gain_text(const Estimate& estimate);
// The rate at which a run really trained; nothing when that is not known.
[[nodiscard]] std::optional<double> trained_samples_per_second(const storage::RunRow& run);

// Whether the run trained faster than its measured ceiling, which is a lower limit and says nothing then.
[[nodiscard]] bool has_passed_ceiling(const storage::RunRow& run);

// Whether tuning ended without a measurement, because there was no budget for one.
[[nodiscard]] bool is_unsearched(const storage::RunRow& run);

// That the speed-up is not the quotient of the two rates beside it, and what it is; empty where they agree.
[[nodiscard]] std::string quotient_note(const storage::RunRow& run);

// What rates of this run count: "samples", or "steps" of a script whose samples cannot be counted.
[[nodiscard]] std::string_view unit_of(const storage::RunRow& run);
// "1,234 samples/s".
[[nodiscard]] std::string rate_text(double samples_per_second, std::string_view unit = "samples");

// What is free on a rung of a ladder, for people: "with its files in memory". Empty for no rung of ours.
[[nodiscard]] std::string_view rung_text(std::string_view rung);
// What a job reaches of each rung of a ladder (tuner::ladder_json()): "at most 98 % of the rate with its files in memory, 25 %
// with ready batches on the device". Nothing for a ladder of one rung, which is the ceiling itself.
[[nodiscard]] std::string ladder_text(const Json& ladder);

// The check after the training of this run failed; false where there was none.
[[nodiscard]] bool has_failed_check(const storage::RunRow& run);
// What must be said of that check; nothing where it passed or there was nothing to check.
[[nodiscard]] std::string trained_check_text(const storage::RunRow& run);

// What must be said beside every result of this recipe (Recipe::to_json()), or nothing.
[[nodiscard]] std::string stand_in_note(const Json& recipe);

// What each kept change gives at the end, as a table; empty when nobody asked.
[[nodiscard]] std::string ablation_text(const std::vector<TrialRecord>& trials);
// What came of a run, without its trials: lines that begin with a label of nine columns. Of a run that keeps nothing yet no
// more than its error.
[[nodiscard]] std::string summary_text(const storage::RunRow& run,
                                       const std::vector<TrialRecord>& trials);
// The whole of a run: what it was, its trials, the outcome.
[[nodiscard]] std::string run_text(const storage::RunRow& run,
                                   const std::vector<TrialRecord>& trials);

// "26.0 s: 8.0 s in 14 blocks; the rest went into ...": how long a trial took, and of what.
[[nodiscard]] std::string time_of_trial_text(const TrialRecord& trial,
                                             const std::vector<TrialBlock>& blocks,
                                             bool is_of_script);

// "2026-11-21 10:15:03" in local time.
[[nodiscard]] std::string time_text(std::int64_t unix_time_ns);

// Rows of cells as columns that line up; the first row is the heading. Counts UTF-8 characters. Cells are made
// printable(): they may be texts of others.
[[nodiscard]] std::string table_text(std::vector<std::vector<std::string>> rows);

}  // namespace autotuned::daemon
