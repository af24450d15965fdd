// SPDX-License-Identifier: Apache-2.0
// One trial: candidate and reference in interleaved blocks until the comparison knows, then the checks.
#pragma once

#include <chrono>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/trial.hpp"
#include "tuner/comparison.hpp"
#include "tuner/job.hpp"
#include "tuner/ledger.hpp"
#include "tuner/session.hpp"

namespace autotuned::tuner {

struct TrialPlan {
  ComparisonRules rules;
  BlockRequest block;
  // Measuring stops after the pair that passes this, decided or not. Counted from the end of the first
  // pair, which may have had to start a trainer. Where pairs turn out slow it grows to what the fewest
  // pairs of a verdict take, within most_time.
  std::chrono::nanoseconds time_share{0};
  std::chrono::nanoseconds most_time{0};
  // After acceptance go on until the interval is this narrow (half its width over the estimate) or
  // this much more time has passed; 1 asks for nothing more.
  double wanted_half_width_ratio = 1.0;
  std::chrono::nanoseconds extra_time{0};
  // Whether the configuration's checks are run before it is accepted.
  bool is_checked = true;
};

class TrialRunner {
 public:
  // Everything must outlive the runner.
  TrialRunner(const SessionInput& input, Job& job, Ledger& ledger, const Clock& clock)
      : input_(&input), job_(&job), ledger_(&ledger), clock_(&clock) {}

  // Fills in what is measured and decided, and writes it to the ledger from start to finish. `trial`
  // comes with number, kind, plugin, reference, change, risk and the proposal.
  //
  // Errors end the session: ErrorKind::cancelled (the trial is recorded as interrupted), an error of
  // the ledger, or one of the *reference* that stays when it is run again. A candidate that fails is a
  // verdict.
  [[nodiscard]] Result<TrialRecord> run(TrialRecord trial, const TrialPlan& plan);

  // Wall clock of a pair in the last trial that had two; 0 before. Without the first pair, which may have had to
  // start a trainer.
  [[nodiscard]] std::chrono::nanoseconds pair_time() const { return pair_time_; }

 private:
  struct Measurement;

  Result<void> measure(TrialRecord& trial, const TrialPlan& plan, Measurement& measurement);
  Result<bool> measure_pair(TrialRecord& trial, const TrialPlan& plan, Measurement& measurement,
                            bool is_candidate_first);
  Result<void> check(TrialRecord& trial);
  Result<void> finish(TrialRecord& trial, std::chrono::nanoseconds started);

  const SessionInput* input_;
  Job* job_;
  Ledger* ledger_;
  const Clock* clock_;
  std::chrono::nanoseconds pair_time_{0};
};

}  // namespace autotuned::tuner
