// SPDX-License-Identifier: Apache-2.0
// Compares two runs or trials of the history: what differs, and how much.
//
// Their rates were not measured side by side, so their ratio says less than that of a trial.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/trial.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/story.hpp"

namespace autotuned::daemon {

// One side of the comparison. A run stands for its best configuration as it was confirmed, a trial for its candidate.
struct ComparedSide {
  std::string name;  // "r-20261121-7f3a9c.3"
  std::string what;  // "fashion-cnn, trial of set_to_none, accepted"
  Json environment;  // the machine's facts
  Json recipe;
  bool is_extension = false;     // of another run, whose configuration it keeps without tuning
  std::string recipe_hash;       // sides with the same are of one job
  std::string unit = "samples";  // of the rates, unit_of()
  Configuration configuration;
  double samples_per_second = 0.0;  // 0: not measured
  double reference_samples_per_second =
      0.0;            // of the start, or of what the trial was compared with
  Estimate estimate;  // one over the other, measured side by side
  bool lacks_confirmation =
      false;             // a run whose whole was compared with the start, and not confirmed
  std::string left_out;  // left_out_text() of a run: what it measured and then trained without
  std::vector<CheckRecord> checks;  // of the trial, or of the changes that were kept
  Json metrics = Json::object();    // by name; of the profile and of the measured blocks
  Json spans = Json::object();      // ns per step by name
};

// `blocks` are those of measured_trial().
[[nodiscard]] ComparedSide side_of(const RunRecord& record, const std::optional<TrialRecord>& trial,
                                   const std::vector<TrialBlock>& blocks);
// The trial whose candidate blocks measure this side: `trial`, or the trial that decided the run.
[[nodiscard]] std::optional<TrialRecord> measured_trial(const RunRecord& record,
                                                        const std::optional<TrialRecord>& trial);

// Reads everything that the history holds about the named run or trial.
[[nodiscard]] Result<ComparedSide> read_side(const storage::History& history, NamedRun named);

// A field that differs; null where it is missing.
struct Difference {
  std::string field;  // "optimizer.lr"
  Json a;
  Json b;
};
// The differences of two JSON values, leaf by leaf: `field` is the path.
[[nodiscard]] std::vector<Difference> differences_between(const Json& a, const Json& b);

// Those of the recipes. An extension has a budget of 0 that nobody chose, so it is no difference.
[[nodiscard]] std::vector<Difference> recipe_differences(const ComparedSide& a,
                                                         const ComparedSide& b);

// Why the ratio of these two rates means nothing, as a clause: "they train different models (mlp and resnet)". Empty if
// both are of one job, or of jobs that differ in settings only.
[[nodiscard]] std::string different_jobs_text(const ComparedSide& a, const ComparedSide& b);

// The comparison as JSON. The ratio of the rates and the differences of metrics and spans are null if
// different_jobs_text() gives a reason.
[[nodiscard]] Json comparison_json(const ComparedSide& a, const ComparedSide& b);
// A summary in five lines (differences, rates, gains), with one more line for each side that needs a note.
[[nodiscard]] std::string comparison_summary(const ComparedSide& a, const ComparedSide& b);
// The whole comparison for people.
[[nodiscard]] std::string comparison_text(const ComparedSide& a, const ComparedSide& b);

}  // namespace autotuned::daemon
