// SPDX-License-Identifier: Apache-2.0
// The result of the blocks of a trial so far. Also used for pairs of timings that another process takes. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "base/trial.hpp"
#include "tuner/comparison.hpp"
#include "tuner/one_time_cost.hpp"

namespace autotuned::tuner {

// Returns how many stretches each arm must have trained before a gain of this ratio is accepted; 0 if the comparison's own minimum of
// pairs suffices. A stretch is 100 ms, or one step if that is longer. With fewer stretches, a stall in one of ten, which would cancel
// the gain, could have been missed (docs/statistics.md, "Rare stalls").
[[nodiscard]] int least_stretches_for(double ratio);

// Two processes of one configuration differ in rate by at most this factor. The interval of the blocks of a
// single pair of processes is widened by it on both sides.
inline constexpr double kProcessAllowance = 1.10;

// The rates of a pair of blocks, in samples per second.
struct PairRates {
  double candidate = 0.0;
  double reference = 0.0;

  [[nodiscard]] double log_ratio() const;
  [[nodiscard]] double log_level() const;  // log of the geometric mean of the two rates
};

// Compares two processes by the geometric mean rate of the faster half of each one's blocks. On a shared machine other programs slow
// some blocks down, and by much. The faster half is least affected (docs/statistics.md).
struct ProcessRates {
  double log_ratio = 0.0;
  double log_level = 0.0;
  double standard_error =
      0.0;  // standard error of log_ratio; 0 for fewer than three pairs of blocks
};
[[nodiscard]] ProcessRates process_rates(const std::vector<PairRates>& pairs);

// Collects the pairs of blocks of one trial.
class Measurement {
 public:
  explicit Measurement(const ComparisonRules& rules) : blocks_(rules), processes_(rules) {}

  // Blocks that are added after this call belong to the next pair of processes. If `is_evidence`, their
  // process_rates() become one observation at end_process_pair(); else the pair is only a first look.
  void begin_process_pair(bool is_evidence);
  void add(const PairRates& pair);
  void add_total(bool is_candidate, const Block& block);
  void add_one_time(bool is_candidate, const Block& block);
  void end_process_pair();

  // The comparison that decides: that of pairs of processes if any of them is evidence, else that of pairs of
  // blocks.
  [[nodiscard]] const Comparison& comparison() const {
    return has_processes_ ? processes_ : blocks_;
  }
  // The decision of that comparison, except that a single pair of processes, the first look, never accepts.
  [[nodiscard]] Decision decision() const;
  // The estimate of the trial. While there are too few pairs of processes for an interval, the interval is
  // that of the first pair's blocks, widened by kProcessAllowance, and further to likely_ratio() where that lies outside. `pairs` counts
  // pairs of blocks.
  [[nodiscard]] Estimate estimate() const;
  [[nodiscard]] double noise_ratio() const;
  // ProcessRates::standard_error of the current pair of processes. It stays the same if the two are exchanged, so it may decide when to
  // stop (docs/statistics.md).
  [[nodiscard]] double process_standard_error() const;
  // The total ratio: samples per time over all blocks, candidate over reference; 0 before the first pair.
  [[nodiscard]] double total_ratio() const;
  // Whether the total ratio shows a gain, too: at least half of the median's gain, or 2 %.
  [[nodiscard]] bool do_totals_agree() const;
  // The number of pairs of blocks that have least_stretches_for() this ratio. It is lower if blocks have several stretches.
  [[nodiscard]] int pairs_to_watch(double ratio) const;
  // Whether the comparison accepts, the totals agree, and there are enough pairs to have seen rare stalls.
  [[nodiscard]] bool is_faster(bool is_watched_for_stalls) const;

  [[nodiscard]] int pairs() const { return pairs_; }
  [[nodiscard]] int process_pairs() const { return process_pairs_; }
  // The number of pairs of processes that are evidence.
  [[nodiscard]] int observations() const { return processes_.estimate().pairs; }
  // The expected ratio: the median over the pairs of processes that are evidence, or else that of the first look. In one process: the
  // median over the pairs of blocks.
  [[nodiscard]] double likely_ratio() const;
  [[nodiscard]] double candidate_rate() const;  // median of the blocks, samples per second
  [[nodiscard]] double reference_rate() const;
  [[nodiscard]] double candidate_total_rate() const { return candidate_total_.rate(); }
  [[nodiscard]] double reference_total_rate() const { return reference_total_.rate(); }
  // The one-time cost of the change: the median over the candidate's blocks less that of the reference's.
  [[nodiscard]] OneTimeCost one_time() const;

 private:
  struct Total {
    double samples = 0.0;
    double duration_ns = 0.0;
    double steps = 0.0;

    [[nodiscard]] double rate() const {
      return duration_ns > 0.0 ? samples * 1e9 / duration_ns : 0.0;
    }
  };

  struct OneTimeCosts {
    std::vector<double> ns;
    std::vector<double> samples;
  };

  Comparison blocks_;     // pairs of blocks in one process or in the first look
  Comparison processes_;  // one observation per pair of processes
  bool has_processes_ = false;
  bool is_evidence_ = false;
  int pairs_ = 0;
  int process_pairs_ = 0;
  std::vector<PairRates> first_look_;
  std::vector<PairRates> of_this_process_;
  std::vector<double> candidate_rates_;
  std::vector<double> reference_rates_;
  Total candidate_total_;
  Total reference_total_;
  OneTimeCosts candidate_once_;
  OneTimeCosts reference_once_;
};

}  // namespace autotuned::tuner
