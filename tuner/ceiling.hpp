// SPDX-License-Identifier: Apache-2.0
// How fast a job could be: its rate with more and more of its input for free, measured beside its
// own.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "tuner/training_backend.hpp"

namespace autotuned::tuner {

// What a block of each rung keeps from step to step (docs/metrics.md, "Ceilings"); each frees the
// step of more than the one before.
inline constexpr std::string_view kHostBatch = "host_batch";
inline constexpr std::string_view kDeviceBatch = "device_batch";
inline constexpr std::array<std::string_view, 4> kRungs = {"raw_bytes", "made_samples", kHostBatch,
                                                           kDeviceBatch};
// Within 2 % of a rung there is nothing to gain from what it frees.
inline constexpr double kAtCeiling = 1.02;

// What pairs of blocks say of a rung: its rate over the job's own.
struct RungGain {
  double least_ratio = 1.0;   // what is claimed
  double likely_ratio = 1.0;  // the median, what is expected
};

// `ratios`: of each pair. The least of them is claimed: of a rung that gives nothing half of the pairs say by chance that it
// does, so the median says it one time in two, and all of n pairs with 2^-n (five: 1 in 32). That is the lower end of a
// sign test's interval, whatever the noise looks like. A gain that is larger than what pairs err by shows in each of them.
// REQUIRES: not empty.
[[nodiscard]] RungGain gain_of(std::vector<double> ratios);

struct Rung {
  std::string name;             // one of kRungs
  double ratio = 1.0;           // RungGain::least_ratio: at least 1, and that of the rung below
  double likely_ratio = ratio;  // in the same bounds
};

// Lower ends, all of it but Rung::likely_ratio.
struct Ceiling {
  double samples_per_second = 0.0;  // of the highest rung; 0: the trainer could not tell
  std::string bound_by;  // what limits the job when data loading and transfer are free: "compute"
  // Those that the trainer can tell apart here, the lowest first; the last is kDeviceBatch.
  std::vector<Rung> rungs = {};

  [[nodiscard]] std::optional<double> ratio_of(std::string_view rung) const;
  [[nodiscard]] std::optional<double> likely_ratio_of(std::string_view rung) const;
  // Of the highest rung; 0 when it is not known.
  [[nodiscard]] double ratio() const { return rungs.empty() ? 0.0 : rungs.back().ratio; }
};

struct CeilingPlan {
  int pairs = 5;  // of blocks, for the highest rung
  int rung_pairs =
      3;  // for the others, where the highest shows that there is something to gain; 0: none
};

// Blocks of `configuration` and of the rungs in turn; which of them comes first alternates, so that a machine that gets
// faster meanwhile does not look like a gain. Errors: those of its own blocks, and
// `cancelled`.
[[nodiscard]] Result<Ceiling> measure_ceiling(TrainingBackend& backend,
                                              const Configuration& configuration,
                                              const CeilingPlan& plan);

// The ladder beside a rate that the job had elsewhere, perhaps under another configuration: no rung claims more than the
// ratio that was measured, nor than the rate that was measured, nor less than that rate of the job.
[[nodiscard]] Ceiling ceiling_above(Ceiling ceiling, double samples_per_second);

// [{"rung", "samples_per_second", "reached_ratio"}], the lowest first.
[[nodiscard]] Json ladder_json(const Ceiling& ceiling);

// Puts "ceiling.RUNG_ratio" into `metrics`: the share that the job reaches of that rung's rate, at most.
// Raises "loader.cost_ratio", if it is there, to what a step is shorter by with ready batches at least: loader threads cost more
// than the waits for them where the step needs the same CPUs.
void add_ceiling_metrics(const Ceiling& ceiling, Json& metrics);

}  // namespace autotuned::tuner
