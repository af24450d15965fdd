// SPDX-License-Identifier: Apache-2.0
// The ceiling of a job: its rate when more and more of its input is free, measured in turn with its own rate.
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

// The rungs of the ladder, from low to high. Each names what a block keeps from step to step instead of making it anew
// (docs/metrics.md, "Ceilings"), and frees the step of more work than the rung before.
inline constexpr std::string_view kHostBatch = "host_batch";
inline constexpr std::string_view kDeviceBatch = "device_batch";
inline constexpr std::array<std::string_view, 4> kRungs = {"raw_bytes", "made_samples", kHostBatch,
                                                           kDeviceBatch};
// If the rate of a job is within this factor of a rung, the work that the rung leaves out costs the job nothing.
inline constexpr double kAtCeiling = 1.02;

// The rate of a rung over the rate of the job, from pairs of blocks.
struct RungGain {
  double least_ratio = 1.0;   // the smallest of the pairs: a lower bound that is shown to people
  double likely_ratio = 1.0;  // the median of the pairs: the expected ratio
};

// `ratios`: one for each pair of blocks. The lower bound is the smallest of them. If a rung has no effect,
// half of its pairs still show a gain by chance: the median shows one in half of all measurements, but all of
// n pairs do so with probability 2^-n (five pairs: 1 in 32). The smallest ratio is the lower end of a sign
// test's interval, for any distribution of the noise. A gain larger than the noise shows in every pair.
// REQUIRES: not empty.
[[nodiscard]] RungGain gain_of(std::vector<double> ratios);

// A measured rung, as a ratio to the rate of the job.
struct Rung {
  std::string name;    // one of kRungs
  double ratio = 1.0;  // RungGain::least_ratio, raised to 1 and to the ratio of the rung below
  double likely_ratio = ratio;  // RungGain::likely_ratio, raised in the same way
};

// All values except Rung::likely_ratio are lower bounds.
struct Ceiling {
  double samples_per_second = 0.0;  // the rate of the highest rung; 0: not measured
  std::string bound_by;             // the limit if data loading and transfer are free: "compute"
  // The rungs that differ for this job, the lowest first. The last is kDeviceBatch.
  std::vector<Rung> rungs = {};

  [[nodiscard]] std::optional<double> ratio_of(std::string_view rung) const;
  [[nodiscard]] std::optional<double> likely_ratio_of(std::string_view rung) const;
  // The ratio of the highest rung; 0 if it is not known.
  [[nodiscard]] double ratio() const { return rungs.empty() ? 0.0 : rungs.back().ratio; }
};

// The number of pairs of blocks with which a ceiling is measured.
struct CeilingPlan {
  int pairs = 5;  // pairs of blocks for the highest rung
  // Pairs of blocks for each other rung, measured only if the highest rung shows a gain; 0: not measured.
  int rung_pairs = 3;
  // Whether the first block of a rung that was disturbed (Error::is_disturbance) is made once more: one of the highest
  // rung, and one of the others. Else its rung is left out, as one whose block fails otherwise.
  bool repeats_disturbed = true;
};

// Runs blocks of `configuration` and of the rungs in turn. The order within a pair alternates, so that a
// machine whose speed drifts does not look like a gain. Errors: of the blocks without a rung, and
// ErrorKind::cancelled.
[[nodiscard]] Result<Ceiling> measure_ceiling(TrainingBackend& backend,
                                              const Configuration& configuration,
                                              const CeilingPlan& plan);

// Adjusts the ladder to a rate, in samples per second, that the job reached in another measurement, perhaps with another
// configuration. No rung then claims more than its measured ratio or its measured rate, or less than `samples_per_second`.
[[nodiscard]] Ceiling ceiling_above(Ceiling ceiling, double samples_per_second);

// [{"rung", "samples_per_second", "reached_ratio"}], the lowest first.
[[nodiscard]] Json ladder_json(const Ceiling& ceiling);

// Puts "ceiling.RUNG_ratio" into `metrics`: the job's rate over that of the rung, as an upper bound, 0 to 1.
// Also raises "loader.cost_ratio", if it is there, to the share of the step that ready batches save at least:
// if loader threads and the step compete for the same CPUs, the loader costs more than the waits for it.
void add_ceiling_metrics(const Ceiling& ceiling, Json& metrics);

}  // namespace autotuned::tuner
