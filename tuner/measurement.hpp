// SPDX-License-Identifier: Apache-2.0
// What the blocks of a trial say so far, or pairs of timings that another process takes. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "base/trial.hpp"
#include "tuner/comparison.hpp"
#include "tuner/one_time_cost.hpp"

namespace autotuned::tuner {

// A gain is only believed after so many pairs of blocks: below them a stall in one block of ten, which eats the whole gain,
// can have been missed (docs/statistics.md, "Rare stalls"). 0: the comparison's own least.
[[nodiscard]] int least_pairs_for(double ratio);

// Two processes of one configuration differ by no more than this, as a factor: what an interval of the blocks of a single
// pair of processes is widened by, to either side.
inline constexpr double kProcessAllowance = 1.10;

// A pair of blocks, or several of them, of one pair of processes.
struct PairRates {
  double candidate = 0.0;  // samples per second
  double reference = 0.0;

  [[nodiscard]] double log_ratio() const;
  [[nodiscard]] double log_level() const;  // of the geometric mean
};

class Measurement {
 public:
  explicit Measurement(const ComparisonRules& rules) : blocks_(rules), processes_(rules) {}

  // From now on blocks belong to the next pair of processes. `is_evidence`: the pair's median becomes one
  // observation at end_process_pair(); else it is only a first look.
  void begin_process_pair(bool is_evidence);
  void add(const PairRates& pair);
  void add_total(bool is_candidate, const Block& block);
  void add_one_time(bool is_candidate, const Block& block);
  void end_process_pair();

  // What decides: pairs of processes where there are any that are evidence, else pairs of blocks.
  [[nodiscard]] const Comparison& comparison() const {
    return has_processes_ ? processes_ : blocks_;
  }
  // Of the trial: as long as pairs of processes are too few for an interval, it is that of the first pair's
  // blocks, widened by kProcessAllowance. `pairs` counts pairs of blocks.
  [[nodiscard]] Estimate estimate() const;
  [[nodiscard]] double noise_ratio() const;
  // Of the pair of processes that is measured: the standard error of the median log-ratio of its blocks. It depends on how far
  // the ratios are from each other and not on where they are, so that blocks may end by it (docs/statistics.md).
  // 0 before the second pair of blocks.
  [[nodiscard]] double process_error_ratio() const;
  // All samples over all time, candidate over reference; 0 before the first pair.
  [[nodiscard]] double total_ratio() const;
  // Whether the totals show a gain, too: half of what the median does, or 2 %.
  [[nodiscard]] bool do_totals_agree() const;
  // Whether the comparison accepts, the totals agree and there are pairs enough.
  [[nodiscard]] bool is_faster(bool is_watched_for_stalls) const;

  [[nodiscard]] int pairs() const { return pairs_; }
  [[nodiscard]] int process_pairs() const { return process_pairs_; }
  // Of the pairs of processes that are evidence.
  [[nodiscard]] int observations() const { return processes_.estimate().pairs; }
  // The median over pairs of processes that are evidence, or of the blocks of the first one.
  [[nodiscard]] double likely_ratio() const;
  [[nodiscard]] double candidate_rate() const;  // median of the blocks, samples per second
  [[nodiscard]] double reference_rate() const;
  [[nodiscard]] double candidate_total_rate() const { return candidate_total_.rate(); }
  [[nodiscard]] double reference_total_rate() const { return reference_total_.rate(); }
  // Of the change: what the candidate's blocks tell (their median) beyond the reference's.
  [[nodiscard]] OneTimeCost one_time() const;

 private:
  struct Total {
    double samples = 0.0;
    double duration_ns = 0.0;

    [[nodiscard]] double rate() const {
      return duration_ns > 0.0 ? samples * 1e9 / duration_ns : 0.0;
    }
  };

  struct OneTimeCosts {
    std::vector<double> ns;
    std::vector<double> samples;
  };

  Comparison blocks_;     // of one process, or of the first look
  Comparison processes_;  // one observation per pair of processes
  bool has_processes_ = false;
  bool is_evidence_ = false;
  int pairs_ = 0;
  int process_pairs_ = 0;
  std::vector<PairRates> of_this_process_;
  std::vector<double> candidate_rates_;
  std::vector<double> reference_rates_;
  Total candidate_total_;
  Total reference_total_;
  OneTimeCosts candidate_once_;
  OneTimeCosts reference_once_;
};

}  // namespace autotuned::tuner
