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
#include "daemon/report/figures.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// In `training` of a run: the subject (MachineFinding) of each text in `disturbances`.
inline constexpr const char* kDisturbanceSubjects = "disturbance_subjects";

// The state, such as "finished"; "tuning, interrupted" if the run's process has ended meanwhile.
[[nodiscard]] std::string state_text(const storage::RunRow& run);

// A run without its trials: an element of `history --json`.
[[nodiscard]] Json run_summary_json(const storage::RunRow& run);

// The one-time cost of a run's best configuration, which its rates do not contain, as the deciding trial measured it.
// 0: none, or not known.
[[nodiscard]] std::int64_t one_time_ns(const std::vector<TrialRecord>& trials);

// The last of these profiles (History::profiles()) of this configuration, preferably one with results of a trace; null if
// there is none.
[[nodiscard]] const Json* profile_of(const std::vector<Json>& profiles,
                                     const Configuration& configuration);

// The contract of `run --json` (docs/history.md), also the answer of `show --json`. Each trial lists the trainers that
// ended early in it, the run those that ended early outside of trials; `start` and `best` have the findings in their
// profiles.
[[nodiscard]] Json run_json(const storage::RunRow& run, const std::vector<TrialRecord>& trials,
                            const std::vector<storage::TrialTrainerEnd>& ends,
                            const std::vector<Json>& profiles);

// The end of a trainer: outcome, evidence and time.
[[nodiscard]] Json trainer_end_json(const TrainerEnd& end);
[[nodiscard]] Json check_json(const CheckRecord& check);

// The rate at which a run really trained; nothing when that is not known.
[[nodiscard]] std::optional<double> trained_samples_per_second(const storage::RunRow& run);

// Whether the run trained faster than its measured ceiling, a lower confidence limit that then says nothing. Up to half
// a per cent more counts as reached.
[[nodiscard]] bool has_passed_ceiling(const storage::RunRow& run);
// The share of the ceiling that the best configuration reaches; nothing if the ceiling or the rate is unknown.
[[nodiscard]] std::optional<double> reached_ceiling_ratio(const storage::RunRow& run);
// Whether that share is 100 %, rounded. The rungs below are then reached as well.
[[nodiscard]] bool has_reached_ceiling(const storage::RunRow& run);
// The ceiling as every answer in JSON has it: `samples_per_second`, `bound_by`, `ladder`, `reached_ratio` (null: unknown), and
// `is_passed` (has_passed_ceiling()).
[[nodiscard]] Json ceiling_json(const storage::RunRow& run);

// Whether tuning ended without a measurement, because there was no budget for one.
[[nodiscard]] bool is_unsearched(const storage::RunRow& run);

// A note that the speed-up is not the quotient of the two rates beside it, and how it was measured; empty if they
// agree.
[[nodiscard]] std::string quotient_note(const storage::RunRow& run);
// "other work took 43 % of the CPU time while it trained, and 3 % while it was tuned"; empty if the machine was not
// busier in the training.
[[nodiscard]] std::string busier_text(const storage::RunRow& run);

// Whether the time of a trial ended before its interval decided (glossary: undecided).
[[nodiscard]] bool is_undecided(const TrialRecord& trial);
// The same of a confirmation or a verification: where the run kept nothing, the next one tries it again.
[[nodiscard]] bool is_undecided_whole(const TrialRecord& trial);
// "undecided", "gain unlikely", "slower" or "no gain", for a trial that was rejected because of its rates.
[[nodiscard]] std::string no_gain_text(const TrialRecord& trial);

// Whether the whole was compared with the start, in a confirmation or a verification, and was not shown to be faster.
[[nodiscard]] bool lacks_confirmation(const std::vector<TrialRecord>& trials);
// estimate_text() of the speed-up of a run with these trials; "not confirmed" if there is none and `is_unproven`: see
// lacks_confirmation().
[[nodiscard]] std::string speedup_text(const Estimate& speedup, bool is_unproven);
// The unit that this run's rates count: "samples", or "steps" for a script whose samples cannot be counted.
[[nodiscard]] std::string_view unit_of(const storage::RunRow& run);
// Whether the check after the training of this run failed; false if there was none.
[[nodiscard]] bool has_failed_check(const storage::RunRow& run);
// The message about that check; empty if it passed or there was nothing to check.
[[nodiscard]] std::string trained_check_text(const storage::RunRow& run);

// A note that belongs beside every result of this recipe (Recipe::to_json()), such as that its data are synthetic; or
// empty.
[[nodiscard]] std::string stand_in_note(const Json& recipe);

// A table of what each kept change gives at the end (`--ablate`); empty if that was not measured.
[[nodiscard]] std::string ablation_text(const std::vector<TrialRecord>& trials);
// The result of a run, without its trials: lines that begin with a label of nine columns. For a run that keeps nothing
// yet, only its error.
[[nodiscard]] std::string summary_text(const storage::RunRow& run,
                                       const std::vector<TrialRecord>& trials);
// The whole report of a run: the job, its trials, the result.
[[nodiscard]] std::string run_text(const storage::RunRow& run,
                                   const std::vector<TrialRecord>& trials);

// How long a trial took, and for what: "26.0 s: 8.0 s in 14 blocks; the rest went into ...".
[[nodiscard]] std::string time_of_trial_text(const TrialRecord& trial,
                                             const std::vector<TrialBlock>& blocks,
                                             bool is_of_script);

}  // namespace autotuned::daemon
