// SPDX-License-Identifier: Apache-2.0
#include "tuner/trial_series.hpp"

#include <algorithm>
#include <utility>

#include "tuner/advisors.hpp"

namespace autotuned::tuner {
namespace {

using std::chrono::nanoseconds;

}  // namespace

TrialSeries::TrialSeries(const SessionInput& input, const Baseline& baseline, const Budget& budget,
                         TrainingBackend& backend, Ledger& ledger, const Clock& clock)
    : input_(&input),
      baseline_(&baseline),
      budget_(&budget),
      backend_(&backend),
      runner_(input, backend, ledger, clock),
      next_number_(input.next_trial_number) {}

void TrialSeries::add_earlier(TrialRecord trial) {
  next_number_ = std::max(next_number_, trial.number + 1);
  records_.push_back(std::move(trial));
}

TrialRecord TrialSeries::new_trial(TrialKind kind, const Configuration& reference,
                                   const Configuration& candidate) const {
  TrialRecord trial;
  trial.kind = kind;
  trial.plugin = kOwnName;
  trial.reference = reference;
  trial.change = reference.change_to(candidate);
  trial.risk = recipes::to_string(recipes::risk_of(input_->knobs, trial.change));
  return trial;
}

TrialPlan TrialSeries::new_plan(double accept_error_probability,
                                double reject_error_probability) const {
  TrialPlan plan;
  plan.rules = {.accept_error_probability = accept_error_probability,
                .reject_error_probability = reject_error_probability,
                .min_gain_ratio = input_->recipe.tune.min_gain_ratio};
  plan.is_watched_for_stalls = !baseline_->has_slow_blocks;
  return plan;
}

Result<void> TrialSeries::run(TrialRecord trial, TrialPlan plan) {
  trial.number = next_number_++;
  plan.reference_rate_before = rate_before(trial.reference);
  auto done = runner_.run(std::move(trial), plan);
  if (!done) return forward_error(done);
  if (budget_->elapsed() > budget_->whole()) beyond_budget_.push_back(done->number);
  records_.push_back(std::move(*done));
  return {};
}

double TrialSeries::rate_before(const Configuration& reference) const {
  const auto kept =
      std::find_if(records_.rbegin(), records_.rend(), [&reference](const TrialRecord& trial) {
        return trial.kind != TrialKind::ablation && trial.verdict == Verdict::accepted &&
               trial.reference.with(trial.change) == reference;
      });
  if (kept != records_.rend()) return kept->candidate_samples_per_second;
  if (reference != input_->starting) return 0.0;
  return baseline_->samples_per_second * (1.0 - backend_->checkpoint_share_ratio());
}

nanoseconds TrialSeries::least_time(int pairs) const {
  return pairs * std::max(baseline_->pair_time, runner_.pair_time());
}

nanoseconds TrialSeries::least_time(int pairs, const Configuration& reference,
                                    const Configuration& candidate) const {
  if (is_live(reference, candidate)) return least_time(pairs);
  return pairs * least_process_pair_time(runner_.process_start_time(), least_time(1));
}

nanoseconds TrialSeries::confirmation_time(const Configuration& starting,
                                           const Configuration& kept) const {
  const int pairs = is_live(starting, kept) ? kConfirmationPairs : kConfirmationProcessPairs;
  return least_time(pairs, starting, kept);
}

nanoseconds TrialSeries::first_look_time() const {
  return runner_.process_start_time() + least_time(kFirstLookPairs);
}

nanoseconds TrialSeries::least_trial_time(int pairs, const Configuration& reference,
                                          const Configuration& candidate) const {
  const nanoseconds of_pairs = least_time(pairs, reference, candidate);
  return is_live(reference, candidate) ? of_pairs : first_look_time() + of_pairs;
}

}  // namespace autotuned::tuner
