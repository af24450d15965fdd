// SPDX-License-Identifier: Apache-2.0
// The trials of a run, one after the other: their numbers, their records, and the time that the next one takes.
#pragma once

#include <chrono>
#include <vector>

#include "base/clock.hpp"
#include "base/configuration.hpp"
#include "base/result.hpp"
#include "base/trial.hpp"
#include "tuner/baseline.hpp"
#include "tuner/budget.hpp"
#include "tuner/context.hpp"
#include "tuner/ledger.hpp"
#include "tuner/training_backend.hpp"
#include "tuner/trial.hpp"

namespace autotuned::tuner {

// A trial gets time for at least so many pairs of blocks.
inline constexpr int kMinTrialPairs = 8;
// For the confirmation of a configuration there is time for so many pairs of blocks in one process, or of fresh
// processes. The latter are one more than it takes, for the checks and the profile before it.
inline constexpr int kConfirmationPairs = 10;
inline constexpr int kConfirmationProcessPairs = 8;

// Runs the trials of a run and keeps their records.
class TrialSeries {
 public:
  using nanoseconds = std::chrono::nanoseconds;

  // All arguments must outlive the series.
  TrialSeries(const SessionInput& input, const Baseline& baseline, const Budget& budget,
              TrainingBackend& backend, Ledger& ledger, const Clock& clock);

  // Adds a trial that an earlier process of the run finished.
  void add_earlier(TrialRecord trial);
  // All trials in order, those of earlier processes first.
  [[nodiscard]] const std::vector<TrialRecord>& records() const { return records_; }
  // The numbers of the trials of this process that ended after the budget, in order.
  [[nodiscard]] const std::vector<int>& beyond_budget() const { return beyond_budget_; }

  // A trial that no plugin proposed, without a number.
  [[nodiscard]] TrialRecord new_trial(TrialKind kind, const Configuration& reference,
                                      const Configuration& candidate) const;
  // A plan with these errors and the minimum gain of the recipe. It watches for rare stalls unless blocks are
  // slow. The other fields keep their defaults.
  [[nodiscard]] TrialPlan new_plan(double accept_error_probability,
                                   double reject_error_probability) const;
  // Gives the trial the next number and runs it. Its record is then the last of records(). Errors: those of
  // TrialRunner::run().
  [[nodiscard]] Result<void> run(TrialRecord trial, TrialPlan plan);

  // Whether one process can switch between the two configurations.
  [[nodiscard]] bool is_live(const Configuration& reference, const Configuration& candidate) const {
    return backend_->share_process(reference, candidate);
  }
  // Returns a lower bound for the time of so many pairs of blocks. Blocks of trials can be longer than those of the baseline, because
  // each must contain a checkpoint.
  [[nodiscard]] nanoseconds least_time(int pairs) const;
  // The same for a trial, in which each pair takes fresh processes if the two configurations cannot share
  // one.
  [[nodiscard]] nanoseconds least_time(int pairs, const Configuration& reference,
                                       const Configuration& candidate) const;
  // The time to be left for the confirmation of `kept` against `starting`.
  [[nodiscard]] nanoseconds confirmation_time(const Configuration& starting,
                                              const Configuration& kept) const;
  // The time of a first look at a pair of processes.
  [[nodiscard]] nanoseconds first_look_time() const;
  // What a trial that accepts after so many pairs takes at least, its checks left out. `pairs`: as of least_time();
  // in fresh processes a first look comes before them.
  [[nodiscard]] nanoseconds least_trial_time(int pairs, const Configuration& reference,
                                             const Configuration& candidate) const;
  // TrialRunner::process_start_time().
  [[nodiscard]] nanoseconds process_start_time() const { return runner_.process_start_time(); }

 private:
  // The rate in samples per second at which `reference` was measured when it became the incumbent; of the starting
  // configuration: the baseline. 0: not known.
  [[nodiscard]] double rate_before(const Configuration& reference) const;

  const SessionInput* input_;
  const Baseline* baseline_;
  const Budget* budget_;
  const TrainingBackend* backend_;
  TrialRunner runner_;
  std::vector<TrialRecord> records_;
  std::vector<int> beyond_budget_;
  int next_number_;
};

}  // namespace autotuned::tuner
