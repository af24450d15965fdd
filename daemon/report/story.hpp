// SPDX-License-Identifier: Apache-2.0
// The story of a run: what was slow, what was tried, the outcomes, what remains and what it cost.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/trial.hpp"
#include "daemon/report/plugin_tally.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// Everything that the history holds of one run.
struct RunRecord {
  storage::RunRow run;
  std::optional<storage::EnvironmentRow> environment;
  std::vector<TrialRecord> trials;                 // by number
  std::map<int, std::vector<CheckRecord>> checks;  // by trial number
  std::vector<storage::PluginAnswerRow> answers;   // as they were asked
  std::vector<Json> profiles;                      // oldest first, see History::profiles()
  // Where this run has no profile of its start: the newest earlier run of the job into the same folder that has one, whose trace is
  // the one there. Empty: none, or not looked for (find_profiling_run()).
  std::string profiled_by;
};

// Reads all but `profiled_by`.
[[nodiscard]] Result<RunRecord> read_run(const storage::History& history,
                                         const storage::RunRow& run,
                                         std::vector<TrialRecord> trials);

// Sets `profiled_by`, which only story_text() shows: it may read the profiles of many runs.
[[nodiscard]] Result<void> find_profiling_run(const storage::History& history, RunRecord& record);

// What became of a trial, finer than its verdict. The names are part of `explain --json`.
enum class Outcome {
  kept,          // a change in the best configuration
  dropped,       // accepted, and given up when the whole did not hold
  held,          // a confirmation or verification that was accepted
  did_not_hold,  // a confirmation or verification that was refuted or failed
  undecided,     // a confirmation or verification whose time ended before it was decided
  slower,
  no_gain,
  wrong_result,  // it does not train the same model
  rejected,      // for another reason, which the trial tells
  failed,
  interrupted,
};
[[nodiscard]] std::string_view to_string(Outcome outcome);

// The outcome of every trial, by number.
[[nodiscard]] std::map<int, Outcome> outcomes_of(const RunRecord& record);

// The accepted change that was given up because this confirmation did not hold; null for none.
[[nodiscard]] const TrialRecord* dropped_by(const RunRecord& record,
                                            const TrialRecord& confirmation);

// The ablation or confirmation because of which this accepted change was given up; null for none.
[[nodiscard]] const TrialRecord* dropper_of(const RunRecord& record, const TrialRecord& dropped);

// A plugin without a trial, and the last thing it said.
struct Silence {
  std::string plugin;
  std::string because;
  bool is_failure = false;
  storage::AnswerKind kind = storage::AnswerKind::asked;
};
[[nodiscard]] std::vector<Silence> silent_plugins(const RunRecord& record);

// Counts the plugins that the run asked.
[[nodiscard]] PluginCounts plugin_counts(const RunRecord& record);

// What disturbed the measurements of a run: each once, as they were found.
[[nodiscard]] std::vector<std::string> machine_findings(
    const std::vector<storage::PluginAnswerRow>& answers);

// How much training repays the tuning. After `seconds` of training with the best configuration (after `samples`),
// tuning and training have taken as long as training with the starting configuration would. The interval follows that
// of the speed-up; without an upper end it may never be repaid. Samples are steps if the run counts steps (unit_of()).
struct BreakEven {
  double seconds = 0.0;
  double samples = 0.0;
  double samples_low = 0.0;
  std::optional<double> samples_high;
};
// What the tuning has cost, in seconds: all of its time or, for a script, its time less that of its steps at the rate
// of the start, because these are steps of the training.
[[nodiscard]] double tuning_cost_s(const storage::RunRow& run);
// Nothing when the run is not confirmed to be faster, or its training left out an extension that was.
[[nodiscard]] std::optional<BreakEven> break_even(const storage::RunRow& run);

// What the training of a run saved compared with the starting configuration: the time that its samples would take at
// the rate of the start in the confirmation, less the time that they took.
struct TrainingSavings {
  double samples = 0.0;
  double samples_per_second = 0.0;  // at which it really trained
  double saved_s = 0.0;             // negative: it was slower than the start
  bool is_repaid = false;           // no less than the tuning took
};
// Nothing when the run is not confirmed to be faster, or has not trained.
[[nodiscard]] std::optional<TrainingSavings> savings_of(const storage::RunRow& run);

// Where the time of a profiled step went, largest first; shares add up to 1.
struct Share {
  std::string metric;  // "step.forward_ratio"
  std::string text;    // "forward pass"
  double ratio = 0.0;
};
[[nodiscard]] std::vector<Share> shares_of(const Json& profile);
// Operators by their share of the step, largest first, at most `limit`.
[[nodiscard]] std::vector<Share> operators_of(const Json& profile, std::size_t limit);

// The part of the story about what tuning cost and when that is repaid.
[[nodiscard]] Json cost_json(const storage::RunRow& run);
[[nodiscard]] std::string cost_text(const storage::RunRow& run,
                                    const std::vector<TrialRecord>& trials);

[[nodiscard]] Json story_json(const RunRecord& record);
// The story as plain sentences under headings, one on each line. If many plugins proposed nothing, or many proposals
// had no time left, only their number is told, unless `is_whole`.
[[nodiscard]] std::string story_text(const RunRecord& record, bool is_whole = false);

}  // namespace autotuned::daemon
