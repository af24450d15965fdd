// SPDX-License-Identifier: Apache-2.0
// One trial: candidate and reference in interleaved blocks until the comparison knows, then the checks. Where blocks train what
// the user gets, the checks come first.
//
// Knobs that are switched live are compared block by block in one process. Where a knob needs a process of its own, blocks
// of two processes are not exchangeable (placement, heap, what each was born beside), so pairs of fresh processes are
// compared, after a first look at the processes that are there (docs/statistics.md).
#pragma once

#include <chrono>
#include <random>
#include <string>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/trial.hpp"
#include "tuner/comparison.hpp"
#include "tuner/context.hpp"
#include "tuner/ledger.hpp"
#include "tuner/measurement.hpp"
#include "tuner/training_backend.hpp"

namespace autotuned::tuner {

// At most, of a first look at a pair of processes.
inline constexpr int kFirstLookPairs = 10;

// The error that the next trial of a run may accept with, after `tried` others of its sort (knobs that are switched live, or
// that need a process): 0.02 / (k (k + 1)) for the k-th. All of a run together stay below 2 % for each sort.
[[nodiscard]] double accept_error_ratio_after(int tried);

struct TrialPlan {
  ComparisonRules rules;
  BlockRequest block;
  // Measuring stops after the pair that passes this, decided or not. Counted from the end of the first
  // pair, which may have had to start a trainer. Where pairs turn out slow it grows to what the fewest
  // pairs of a verdict take, and for a gain of 1.3 or more in one process to what four times as many take, within most_time.
  std::chrono::nanoseconds time_share{0};
  std::chrono::nanoseconds most_time{0};
  // After acceptance go on until the interval is this narrow (half its width over the estimate) or
  // this much more time has passed; 1 asks for nothing more. Of blocks in one process only.
  double wanted_half_width_ratio = 1.0;
  std::chrono::nanoseconds extra_time{0};
  // Whether the configuration's checks are run before it is accepted.
  bool is_checked = true;
  // Whether a first look may end the trial before fresh processes are started.
  bool has_first_look = true;
  // Whether pairs of fresh processes end early that do not look like a gain. Else they go on until the interval tells.
  bool gives_up_early = true;
  // Whether a small gain needs so many pairs that a stall in one block of ten would have been seen; too many for blocks of
  // seconds, each of which has many steps.
  bool is_watched_for_stalls = true;
  // What earlier trials of the run saw the change cost once.
  std::int64_t known_one_time_ns = 0;
};

class TrialRunner {
 public:
  // Everything must outlive the runner.
  TrialRunner(const SessionInput& input, TrainingBackend& backend, Ledger& ledger,
              const Clock& clock)
      : input_(&input),
        backend_(&backend),
        ledger_(&ledger),
        clock_(&clock),
        process_pair_time_(2 * input.start_time) {}

  // Fills in what is measured and decided, and writes it to the ledger from start to finish. `trial`
  // comes with number, kind, plugin, reference, change, risk and the proposal.
  //
  // Errors end the session: ErrorKind::cancelled (the trial is recorded as interrupted), an error of
  // the ledger, or one of the *reference* that stays when it is run again (of an ablation it is that trial's failure). A
  // candidate that fails is a verdict.
  [[nodiscard]] Result<TrialRecord> run(TrialRecord trial, const TrialPlan& plan);

  // Wall clock of a pair of blocks in the last trial that had two; 0 before. Without the first pair, which may have had to
  // start a trainer.
  [[nodiscard]] std::chrono::nanoseconds pair_time() const { return pair_time_; }
  // Wall clock of a pair of fresh processes with its blocks, by the last one; before the first, by what it took to
  // start the job.
  [[nodiscard]] std::chrono::nanoseconds process_pair_time() const { return process_pair_time_; }

 private:
  // Of one trial.
  struct Course {
    Course(TrialRecord& record, const TrialPlan& trial_plan, std::mt19937_64 seeded)
        : trial(&record), plan(&trial_plan), coins(seeded), measurement(trial_plan.rules) {}

    bool toss() { return (coins() & 1U) != 0; }
    // It has its verdict: nothing more is measured.
    [[nodiscard]] bool is_over() const { return trial->verdict != Verdict::running; }

    TrialRecord* trial;
    const TrialPlan* plan;
    std::mt19937_64 coins;
    Measurement measurement;
    bool is_hopeless = false;          // ended because it did not look like a gain
    bool has_reference_fault = false;  // the error is one of the reference, not of the ledger
  };

  // Each may end the trial. Errors are those of run().
  Result<void> make_ready(Course& course, ProcessChoice process, bool is_candidate_first);
  Result<void> measure_pair(Course& course);
  Result<void> look_first(Course& course);
  Result<void> measure_in_one_process(Course& course);
  Result<void> measure_processes(Course& course);
  Result<void> measure(Course& course);
  Result<void> fail_by_reference(Course& course, const Error& error, const Result<void>& again);
  // Rejects a change that is faster, and costs more once than it saves in this training.
  void charge_one_time(Course& course) const;
  // Of the checks, in words, what a trial that passes them is accepted with. It has its verdict where it does not.
  Result<std::string> check(TrialRecord& trial);
  Result<void> finish(TrialRecord& trial, std::chrono::nanoseconds started);

  const SessionInput* input_;
  TrainingBackend* backend_;
  Ledger* ledger_;
  const Clock* clock_;
  std::chrono::nanoseconds pair_time_{0};
  std::chrono::nanoseconds process_pair_time_{0};
};

}  // namespace autotuned::tuner
