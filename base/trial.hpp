// SPDX-License-Identifier: Apache-2.0
// The record of a trial: what the tuner decides, the history stores and the commands print.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/result.hpp"

namespace autotuned {

// The outcome of a trial. The names are stored and printed: never change one.
enum class Verdict {
  running,         // stored before the trial starts; found after a crash, such as a power cut
  accepted,        // faster, and checked to train the same model
  rejected,        // no gain shown, slower, or not the same model
  failed,          // out of memory, crash, timeout, ...: `failure` says which
  not_applicable,  // no longer written; may be in rows of older versions
  interrupted,     // stopped from outside; tried again when the run continues
};
[[nodiscard]] std::string_view to_string(Verdict verdict);
[[nodiscard]] std::optional<Verdict> verdict_from(std::string_view name);

// Why a trial was rejected.
enum class RejectionReason {
  slower,   // the interval lies below 1
  no_gain,  // the interval lies below 1 + minimum gain, or the trial was given up (is_given_up)
  undecided_in_time,  // its time ended before the interval decided, or it was disturbed
  totals,             // faster by the median block, but not by all samples over all time
  memory_limit,       // needs more memory than the job may use
  not_repaid,         // faster, but this training does not repay the one-time cost
  not_same_model,     // a check failed
};
[[nodiscard]] std::string_view to_string(RejectionReason reason);
[[nodiscard]] std::optional<RejectionReason> rejection_reason_from(std::string_view name);

enum class TrialKind {
  proposal,      // a plugin's change against the incumbent
  confirmation,  // the final configuration against the starting one
  verification,  // a stored best configuration against the starting one
  ablation,      // the final configuration against itself without one change
};
[[nodiscard]] std::string_view to_string(TrialKind kind);
[[nodiscard]] std::optional<TrialKind> trial_kind_from(std::string_view name);

// A ratio of rates, candidate over reference, with its confidence sequence: an interval that holds at every
// look (docs/statistics.md). `pairs` is 0 if nothing was measured; the other values mean nothing then.
struct Estimate {
  double ratio = 1.0;
  double low = 0.0;
  double high = 0.0;
  int pairs = 0;

  friend bool operator==(const Estimate&, const Estimate&) = default;
};

// A block: consecutive steps under one configuration, as a trainer reports it.
struct Block {
  std::int64_t start_ns = 0;  // CLOCK_MONOTONIC
  std::int64_t duration_ns = 0;
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  double first_loss = 0.0;
  double last_loss = 0.0;
  std::vector<double> losses;  // one for each step, if they were requested
  std::int64_t data_wait_ns = 0;
  std::int64_t cpu_ns = 0;
  std::int64_t peak_host_memory_bytes = 0;
  std::int64_t peak_device_memory_bytes = 0;
  // The time of work that this configuration does once in a process and that no block shows, such as filling a cache; and the
  // number of samples that this work made.
  std::int64_t one_time_ns = 0;
  std::int64_t one_time_samples = 0;

  [[nodiscard]] double samples_per_second() const;  // 0 for a block without duration
  // ErrorKind::invalid names the field. A loss that is not finite is sent as null and read as NaN. `losses`,
  // `data_wait_ns`, `cpu_ns`, the peaks and the one-time fields may be missing.
  [[nodiscard]] static Result<Block> from_json(const Json& value);
  [[nodiscard]] Json to_json() const;
};

// A block within a trial.
struct TrialBlock {
  int pair = 0;  // from 1
  bool is_candidate = false;
  bool is_first = false;  // ran before the other block of its pair
  Block block;
  // The pair of processes in which it was measured, from 1; always 1 if both arms share a process.
  int process_pair = 1;
};

// A check of a change (docs/architecture.md, "Checks").
struct CheckRecord {
  std::string risk;  // exact | numerics | semantics
  bool passed = false;
  std::int64_t steps = 0;
  std::string detail;  // one sentence with the numbers that decided
  // The first hundred parameters whose updates failed, in the order of the model; the number that failed; and the number that were
  // compared.
  std::vector<std::string> parameters;
  std::int64_t failed = 0;
  std::int64_t compared = 0;
};

struct TrialRecord {
  int number = 0;  // within the run, from 1
  TrialKind kind = TrialKind::proposal;
  std::string plugin;       // the plugin that proposed it; "autotuned" for the tuner itself
  Configuration reference;  // complete: the configuration that the candidate was compared with
  Configuration change;     // the knobs in which the candidate differs from it
  std::string risk;         // exact | numerics | semantics
  double expected_gain_ratio = 1.0;
  std::string proposal_reason;  // one sentence of the plugin
  Verdict verdict = Verdict::running;
  // The kind of the error that ended the trial: of a failed trial, and of an undecided one that something disturbed, whose
  // few pairs say nothing.
  std::optional<ErrorKind> failure;
  std::string reason;  // one sentence: why this verdict
  // Set for a rejected trial, except in some rows of older versions, which stored only `reason`.
  std::optional<RejectionReason> rejection;
  // Whether a trial with the rejection `no_gain` ended before its interval excluded a gain worth having.
  bool is_given_up = false;
  Estimate estimate;
  double reference_samples_per_second = 0.0;
  double candidate_samples_per_second = 0.0;
  // The total ratio: samples per time over all blocks of the candidate, divided by the same for the reference. It shows rare
  // stalls, which a median hides. 0: not known.
  double total_ratio = 0.0;
  // The number of pairs of processes behind `estimate`, each with several pairs of blocks. 0: both arms ran
  // in one process, and `estimate` is from pairs of blocks.
  int process_pairs = 0;
  double noise_ratio = 0.0;  // robust standard deviation of the log-ratios behind `estimate`
  std::int64_t peak_memory_bytes = 0;  // largest peak of the candidate's blocks
  // The one-time cost of the change in a training, which no block shows (docs/statistics.md). 0: none, or not
  // known.
  std::int64_t one_time_ns = 0;
  std::int64_t started_unix_ns = 0;
  std::int64_t duration_ns = 0;
  // The check that the trial failed. Not stored in the row of the trial, so only trials of this process have it.
  std::optional<CheckRecord> failed_check;

  // The form in `run --json`, with further fields. Figures are null if nothing was measured.
  [[nodiscard]] Json to_json(std::string_view run_id) const;
};

// What a trial that was given up (TrialRecord::is_given_up) is called, and what that means.
inline constexpr std::string_view kGivenUpWords = "gain unlikely";
inline constexpr std::string_view kGivenUpMeaning =
    "the interval does not exclude a gain, but the pairs so far make one too unlikely to go on";

// Whether a disturbance ended the trial, so that it decided nothing (docs/statistics.md, "How trainers are scheduled").
[[nodiscard]] bool was_disturbed(const TrialRecord& trial);

// Whether an ablation before the confirmation drops its change. If the ablation ends undecided with a median
// that shows a gain, the change is kept: the ablation agrees with the trial that accepted the change, and
// only the noise was too large to show it again. The confirmation then includes the change. One that was disturbed says
// nothing.
[[nodiscard]] bool drops_its_change(const TrialRecord& ablation);

}  // namespace autotuned
