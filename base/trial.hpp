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

// Names are stored and printed: never change one.
enum class Verdict {
  running,   // written before the trial starts; found later: nobody could end it (a power cut)
  accepted,  // faster, and checked to train the same model
  rejected,  // no gain shown, slower, or not the same model
  failed,    // out of memory, crash, timeout, ...: `failure` says which
  not_applicable,  // the plugin has nothing to propose here
  interrupted,     // stopped from outside; tried again when the run continues
};
[[nodiscard]] std::string_view to_string(Verdict verdict);
[[nodiscard]] std::optional<Verdict> verdict_from(std::string_view name);

// Why a trial was rejected.
enum class RejectionReason {
  slower,             // its interval lies below 1
  no_gain,            // its interval lies below the least gain worth having
  undecided_in_time,  // its time ended before either was shown
  totals,             // faster by the median block, not by all samples over all time
  memory_limit,
  not_repaid,      // faster, and this training is too short for what the change costs once
  not_same_model,  // a check failed
};
[[nodiscard]] std::string_view to_string(RejectionReason reason);
[[nodiscard]] std::optional<RejectionReason> rejection_reason_from(std::string_view name);

enum class TrialKind {
  proposal,      // a plugin's change against the incumbent
  confirmation,  // the final configuration against the starting one
  verification,  // a remembered best configuration against the starting one
  ablation,  // what a kept change gives at the end: the final configuration against itself without it
};
[[nodiscard]] std::string_view to_string(TrialKind kind);
[[nodiscard]] std::optional<TrialKind> trial_kind_from(std::string_view name);

// A ratio of rates, candidate over reference, with the interval that holds at every look
// (docs/statistics.md). `pairs` is 0 when nothing was measured; then the numbers mean nothing.
struct Estimate {
  double ratio = 1.0;
  double low = 0.0;
  double high = 0.0;
  int pairs = 0;

  friend bool operator==(const Estimate&, const Estimate&) = default;
};

// A stretch of steps under one configuration, as a trainer reports it.
struct Block {
  std::int64_t start_ns = 0;  // CLOCK_MONOTONIC
  std::int64_t duration_ns = 0;
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  double first_loss = 0.0;
  double last_loss = 0.0;
  std::vector<double> losses;  // every step's, where they were asked for
  std::int64_t data_wait_ns = 0;
  std::int64_t cpu_ns = 0;
  std::int64_t peak_host_memory_bytes = 0;
  std::int64_t peak_device_memory_bytes = 0;
  // The time of work that this configuration does once in a process and that no block shows, such as filling a cache, and
  // the samples that this work has made.
  std::int64_t one_time_ns = 0;
  std::int64_t one_time_samples = 0;

  [[nodiscard]] double samples_per_second() const;  // 0 for an empty block
  // ErrorKind::invalid names the field. A loss that is not finite travels as null and reads as NaN;
  // `losses`, `data_wait_ns`, `cpu_ns`, the peaks and what is needed once may be left out.
  [[nodiscard]] static Result<Block> from_json(const Json& value);
  [[nodiscard]] Json to_json() const;
};

// A block within a trial. `pair` counts from 1; `is_first` tells which of the pair ran first.
struct TrialBlock {
  int pair = 0;
  bool is_candidate = false;
  bool is_first = false;
  Block block;
  // The pair of processes that it was measured in, from 1; stays 1 where both arms share a process.
  int process_pair = 1;
};

// A check of a change (docs/architecture.md, "Checks").
struct CheckRecord {
  std::string risk;  // exact | numerics | semantics
  bool passed = false;
  std::int64_t steps = 0;
  std::string detail;  // one sentence with the numbers that decided
  // Whose updates failed, in the model's order (the first hundred); how many did, of how many.
  std::vector<std::string> parameters;
  std::int64_t failed = 0;
  std::int64_t compared = 0;
};

struct TrialRecord {
  int number = 0;  // within the run, from 1
  TrialKind kind = TrialKind::proposal;
  std::string plugin;       // who proposed it; "autotuned" for nobody
  Configuration reference;  // whole: what it was compared with
  Configuration change;     // what differs
  std::string risk;         // exact | numerics | semantics
  double expected_gain_ratio = 1.0;
  std::string proposal_reason;  // the plugin's sentence
  Verdict verdict = Verdict::running;
  std::optional<ErrorKind> failure;
  std::string reason;  // one sentence: why this verdict
  // Of a rejected trial; nothing in rows of versions that only knew the sentence.
  std::optional<RejectionReason> rejection;
  Estimate estimate;
  double reference_samples_per_second = 0.0;
  double candidate_samples_per_second = 0.0;
  // All samples over all time of the candidate's blocks, over the same of the reference's: what rare
  // stalls cost, which a median does not see. 0: not known.
  double total_ratio = 0.0;
  // Pairs of processes that `estimate` is from, each with several pairs of blocks; 0 where both arms were
  // switched live in one process, and `estimate` is from pairs of blocks.
  int process_pairs = 0;
  double noise_ratio = 0.0;            // robust spread of the log-ratios that `estimate` is from
  std::int64_t peak_memory_bytes = 0;  // of the candidate's blocks
  // What the change costs once in a training and no block shows (docs/statistics.md). 0: nothing, or not known.
  std::int64_t one_time_ns = 0;
  std::int64_t started_unix_ns = 0;
  std::int64_t duration_ns = 0;
  // The check that it did not pass; of this run's trials only, and not in their rows.
  std::optional<CheckRecord> failed_check;

  // The contract of `run --json`, and more. Figures are null when nothing was measured.
  [[nodiscard]] Json to_json(std::string_view run_id) const;
};

// Whether the change of an ablation before the confirmation is given up. An ablation that ends undecided with a median that
// shows a gain keeps its change: it agrees with the trial that accepted the change, and only the noise was too large to show
// it again. The confirmation then includes the change.
[[nodiscard]] bool drops_its_change(const TrialRecord& ablation);

}  // namespace autotuned
