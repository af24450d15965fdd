// SPDX-License-Identifier: Apache-2.0
// Functions that a session calls before it continues a run that another process began.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "daemon/common/session_request.hpp"
#include "daemon/session/session_control.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

struct ClaimedRun {
  std::optional<storage::RunRow> run;  // nothing: a new one is to begin
  Descriptor claim;                    // of that run, see History::claim()
};

// The plan of a run (RunRow::plan): seed, length and output folder. The plan of a sequel also has the run that it continues,
// and what becomes of a schedule that depends on the length (Sequel).
[[nodiscard]] std::string plan_of(const recipes::Recipe& recipe, const std::string& extends = {},
                                  const std::string& schedule = {});

// A line for people: another run of the job is unfinished, this request does not continue it, and which command does.
[[nodiscard]] std::string other_run_text(const storage::RunRow& run);

// A line for people: the model in the output folder is that of another training, or the model or the summary is of no run of
// the history, and `run` will replace it. Empty if there is no model, if `run` continues a training, if it trains the same
// again, or if it cannot be found out.
[[nodiscard]] std::string replaced_model_text(const storage::History& history,
                                              const storage::RunRow& run);

// The key of RunRow::training for what identifies the data of the training, as a trainer sends it when a training begins
// (docs/trainer-protocol.md). Runs of older versions have none.
inline constexpr const char* kTrainedData = "data";

// A line for people: the model in the output folder is that of the same training on other data, whose files have the same names
// and sizes, and `run` will replace it. `data` identifies the data of this run. Empty if replaced_model_text() has said so, or
// if it cannot be found out.
[[nodiscard]] std::string other_data_text(const storage::History& history,
                                          const storage::RunRow& run, const Json& data);

// A line for people about a new run: files of its data or weights have other names or sizes than in the last run of this recipe
// into the same folder, so this run is of another job, and begins without the results of that one. Empty if no file has changed,
// or if there is no such run.
[[nodiscard]] std::string changed_files_text(const storage::History& history,
                                             const storage::RunRow& run);

// The run that the request continues, read after no other process owns it: the earlier owner may have
// finished it while the claim waited, and then another run, or none, is to be continued.
[[nodiscard]] Result<ClaimedRun> claim_run(const storage::History& history,
                                           const SessionRequest& request,
                                           const storage::RunKey& key);

// What the run has measured so far, with the check that a rejected trial failed.
[[nodiscard]] Result<std::vector<TrialRecord>> trials_of(const storage::History& history,
                                                         const RunId& run);

// The time that earlier processes spent on the tuning of the run: what RunRow has of one that was stopped, with all that lies
// between trials, or what the trials took, for one that was killed could store no more. Ablations are no part of it.
[[nodiscard]] std::chrono::nanoseconds earlier_tuning_time(const storage::RunRow& run,
                                                           const std::vector<TrialRecord>& trials);

// How long a session waits for a lock of the history: minutes, longer than a command, because a running copy or a
// stopped program must not cost a search. It reports once that it waits; a cancel ends the wait. `control` must outlive
// the result.
[[nodiscard]] storage::LockPatience patience_of(SessionControl& control,
                                                const std::filesystem::path& history);
// Stores the end of a run that an error ended; its running trials become interrupted. Waits for a lock as long as any
// command does, also after a cancel. Each part is stored if possible, even if another part fails.
[[nodiscard]] Result<void> store_end(storage::History& history, const storage::RunRow& run);

// The message if store_end() failed.
[[nodiscard]] std::string unstored_end_text(const storage::RunRow& run, const Error& error);

// Settles the checkpoints of finished trainings in this folder (settle_checkpoint()), which a process leaves if it is killed
// after it saved the model. REQUIRES: the folder is locked.
void remove_spent_checkpoints(const storage::History& history, const std::filesystem::path& folder);

// Stores as failed those of these trials of the run that were interrupted, so that they are not tried again.
[[nodiscard]] Result<void> fail_lost_trials(storage::History& history, const RunId& run,
                                            const std::vector<int>& numbers);

// Stores the faults that the run has not recorded yet: the same fault may be reported more than once.
[[nodiscard]] Result<void> put_faults(storage::History& history, const RunId& run,
                                      const std::vector<PluginFault>& faults,
                                      std::int64_t asked_unix_ns);

}  // namespace autotuned::daemon
