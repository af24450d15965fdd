// SPDX-License-Identifier: Apache-2.0
#include "tuner/measurement.hpp"

#include <algorithm>
#include <cmath>

#include "base/statistics.hpp"

namespace autotuned::tuner {
namespace {

// In a trial that is watched for stalls, a gain below this ratio is accepted only after so many stretches. By then a stall in one of ten
// stretches has been seen (docs/statistics.md).
struct StallWatch {
  double below_ratio;
  int stretches;
};
constexpr double kStretchNs = 100e6;
// The total ratio must show half of the median's gain; for a large gain this much is enough (do_totals_agree()).
// tests/tuner/protocol_test.cpp simulates this value and those below.
constexpr double kMaxTotalGain = 0.02;
constexpr StallWatch kStallWatches[] = {{1.10, 45}, {1.30, 22}};

}  // namespace

int least_stretches_for(double ratio) {
  for (const StallWatch& watch : kStallWatches) {
    if (ratio < watch.below_ratio) return watch.stretches;
  }
  return 0;
}

double PairRates::log_ratio() const {
  return std::log(candidate / reference);
}

double PairRates::log_level() const {
  return std::log(candidate * reference) / 2.0;
}

ProcessRates process_rates(const std::vector<PairRates>& pairs) {
  std::vector<double> candidates;
  std::vector<double> references;
  for (const PairRates& pair : pairs) {
    candidates.push_back(std::log(pair.candidate));
    references.push_back(std::log(pair.reference));
  }
  const UpperHalf candidate = upper_half(std::move(candidates));
  const UpperHalf reference = upper_half(std::move(references));
  return {.log_ratio = candidate.mean - reference.mean,
          .log_level = (candidate.mean + reference.mean) / 2.0,
          .standard_error = std::hypot(candidate.standard_error, reference.standard_error)};
}

void Measurement::begin_process_pair(bool is_evidence) {
  ++process_pairs_;
  is_evidence_ = is_evidence;
  has_processes_ = has_processes_ || is_evidence;
  of_this_process_.clear();
}

void Measurement::add(const PairRates& pair) {
  ++pairs_;
  candidate_rates_.push_back(pair.candidate);
  reference_rates_.push_back(pair.reference);
  if (is_evidence_) {
    of_this_process_.push_back(pair);
    return;
  }
  if (process_pairs_ > 0) first_look_.push_back(pair);
  blocks_.add(pair.log_ratio(), pair.log_level());
}

void Measurement::end_process_pair() {
  if (of_this_process_.empty()) return;
  const ProcessRates rates = process_rates(of_this_process_);
  processes_.add(rates.log_ratio, rates.log_level);
}

void Measurement::add_total(bool is_candidate, const Block& block) {
  Total& total = is_candidate ? candidate_total_ : reference_total_;
  total.samples += static_cast<double>(block.samples);
  total.duration_ns += static_cast<double>(block.duration_ns);
  total.steps += static_cast<double>(block.steps);
}

void Measurement::add_one_time(bool is_candidate, const Block& block) {
  OneTimeCosts& costs = is_candidate ? candidate_once_ : reference_once_;
  costs.ns.push_back(static_cast<double>(block.one_time_ns));
  costs.samples.push_back(static_cast<double>(block.one_time_samples));
}

OneTimeCost Measurement::one_time() const {
  return {
      .ns = std::max(0.0, median(candidate_once_.ns) - median(reference_once_.ns)),
      .samples = std::max(0.0, median(candidate_once_.samples) - median(reference_once_.samples))};
}

double Measurement::likely_ratio() const {
  if (observations() > 0) return std::exp(median(processes_.log_ratios()));
  if (!first_look_.empty()) return std::exp(process_rates(first_look_).log_ratio);
  return std::exp(median(blocks_.log_ratios()));
}

Estimate Measurement::estimate() const {
  Estimate estimate = comparison().estimate();
  if (process_pairs_ > 0 && (observations() == 0 || estimate.high >= kNoUpperEnd)) {
    estimate = blocks_.estimate();
    estimate.low /= kProcessAllowance;
    if (estimate.high < kNoUpperEnd) estimate.high *= kProcessAllowance;
    // Fresh processes may contradict the blocks of the first pair.
    estimate.ratio = likely_ratio();
    estimate = widened_to_ratio(estimate);
  }
  estimate.pairs = pairs_;
  return estimate;
}

double Measurement::noise_ratio() const {
  return observations() > 1 ? processes_.noise_ratio() : blocks_.noise_ratio();
}

double Measurement::process_standard_error() const {
  return process_rates(of_this_process_).standard_error;
}

double Measurement::total_ratio() const {
  const double reference = reference_total_.rate();
  return reference > 0.0 ? candidate_total_.rate() / reference : 0.0;
}

// The bound is above 1, because the total ratio is tested after every pair: without an effect it would be just above 1 by
// luck too often.
bool Measurement::do_totals_agree() const {
  const double gain = comparison().plausible_ratio() - 1.0;
  return total_ratio() > 1.0 + std::clamp(gain / 2.0, 0.0, kMaxTotalGain);
}

Decision Measurement::decision() const {
  const Decision decision = comparison().decision();
  const bool is_first_look = process_pairs_ > 0 && !has_processes_;
  return is_first_look && decision == Decision::accept ? Decision::undecided : decision;
}

int Measurement::pairs_to_watch(double ratio) const {
  const int stretches = least_stretches_for(ratio);
  if (pairs_ == 0) return stretches;
  const auto stretches_of = [](const Total& total) {
    return std::min(total.steps, total.duration_ns / kStretchNs);
  };
  const double per_pair =
      std::min(stretches_of(candidate_total_), stretches_of(reference_total_)) / pairs_;
  return static_cast<int>(std::ceil(stretches / std::max(per_pair, 1.0)));
}

bool Measurement::is_faster(bool is_watched_for_stalls) const {
  return decision() == Decision::accept && do_totals_agree() &&
         (!is_watched_for_stalls || pairs_ >= pairs_to_watch(comparison().plausible_ratio()));
}

double Measurement::candidate_rate() const {
  return median(candidate_rates_);
}

double Measurement::reference_rate() const {
  return median(reference_rates_);
}

}  // namespace autotuned::tuner
