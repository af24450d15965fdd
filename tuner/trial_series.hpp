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
#include "tuner/context.hpp"
#include "tuner/ledger.hpp"
#include "tuner/training_backend.hpp"
#include "tuner/trial.hpp"

namespace autotuned::tuner {

inline constexpr int kLeastTrialPairs = 8;  // the fewest that a trial is given time for

class TrialSeries {
 public:
  using nanoseconds = std::chrono::nanoseconds;

  // All of it must outlive the series.
  TrialSeries(const SessionInput& input, const Baseline& baseline, TrainingBackend& backend,
              Ledger& ledger, const Clock& clock);

  // One that an earlier process of the run finished.
  void add_earlier(TrialRecord trial);
  // In order, those of earlier processes first.
  [[nodiscard]] const std::vector<TrialRecord>& records() const { return records_; }

  // A trial that nobody has proposed, with no number yet.
  [[nodiscard]] TrialRecord new_trial(TrialKind kind, const Configuration& reference,
                                      const Configuration& candidate) const;
  // With these errors and the run's own least gain, watched for rare stalls unless blocks are slow. All else is as in
  // TrialPlan.
  [[nodiscard]] TrialPlan new_plan(double accept_error_ratio, double reject_error_ratio) const;
  // Gives it the next number and runs it: its record is the last one then. Errors: those of TrialRunner::run().
  [[nodiscard]] Result<void> run(TrialRecord trial, const TrialPlan& plan);

  // Whether the two are switched live, in one process.
  [[nodiscard]] bool is_live(const Configuration& reference, const Configuration& candidate) const {
    return backend_->share_process(reference, candidate);
  }
  // The least that so many pairs of blocks take. Blocks of trials can be longer than those of the baseline: a checkpoint
  // has to come in each.
  [[nodiscard]] nanoseconds least_time(int pairs) const;
  // The same of a trial, each pair of which takes fresh processes where the two do not share one.
  [[nodiscard]] nanoseconds least_time(int pairs, const Configuration& reference,
                                       const Configuration& candidate) const;
  // What a first look at a pair of processes takes.
  [[nodiscard]] nanoseconds first_look_time() const;

 private:
  const SessionInput* input_;
  const Baseline* baseline_;
  const TrainingBackend* backend_;
  TrialRunner runner_;
  std::vector<TrialRecord> records_;
  int next_number_;
};

}  // namespace autotuned::tuner
