// SPDX-License-Identifier: Apache-2.0
// One trial: candidate and reference in interleaved blocks until the comparison decides, then the checks. If
// the blocks are part of the user's training (TrainingBackend::trains_for_real()), the checks come first.
//
// Knobs that are switched live are compared block by block in one process. If a knob needs a process of its
// own, blocks of two processes are not exchangeable (CPU placement, heap layout, state of the machine at
// their start). Then pairs of fresh processes are compared, after a first look at the running processes
// (docs/statistics.md).
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

// The most pairs of blocks of a first look.
inline constexpr int kFirstLookPairs = 10;

// The acceptance error of the next trial of a run, after `tried` others of the same kind (knobs that are
// switched live, or knobs that need a process): 0.02 / (k (k + 1)) for the k-th. The sum over a run stays
// below 2 % for each kind.
[[nodiscard]] double accept_error_probability_after(int tried);

// Returns the least time of a pair of fresh processes that is evidence: the two take `starting` to start and to become
// warm, and a pair of their blocks takes `pair_time`.
[[nodiscard]] std::chrono::nanoseconds least_process_pair_time(std::chrono::nanoseconds starting,
                                                               std::chrono::nanoseconds pair_time);

// The rules and limits of one trial.
struct TrialPlan {
  ComparisonRules rules;
  BlockRequest block;
  // Measuring stops after the pair that exceeds this time, decided or not. Counted from the end of the first pair,
  // which may have started a trainer. If pairs are slow, it grows to the time of the fewest pairs that a
  // verdict needs, up to most_time.
  std::chrono::nanoseconds time_share{0};
  std::chrono::nanoseconds most_time{0};
  // The limit to which most_time grows for a gain of 1.3 or more in one process, for four times as many pairs.
  std::chrono::nanoseconds most_time_for_large_gain{0};
  // What must still be possible after the trial: so many pairs, of blocks in one process or of fresh processes. most_time leaves
  // `time_afterwards` for them. If they turn out to need more time, the trial gets so much less.
  int pairs_afterwards = 0;
  int process_pairs_afterwards = 0;
  std::chrono::nanoseconds time_afterwards{0};
  // What the next trial of the run needs: so many pairs of blocks, and no less than this time. If less of most_time
  // is left at the end of time_share, this one goes on to the end of most_time. 0: it ends with its share.
  int pairs_of_next_trial = 0;
  std::chrono::nanoseconds time_of_next_trial{0};
  // The blocks of pairs of processes last so long that about ten pairs fit into this; 0: into most_time.
  std::chrono::nanoseconds time_for_processes{0};
  // After the comparison accepts, measuring goes on until half the width of the interval over the estimate is
  // at most this, until `extra_time` has passed, or until the trial has taken `most_time_to_tighten`. 1: it stops at once. Only
  // for blocks in one process.
  double wanted_relative_half_width = 1.0;
  std::chrono::nanoseconds extra_time{0};
  std::chrono::nanoseconds most_time_to_tighten = std::chrono::nanoseconds::max();
  // Whether the candidate must pass its checks before it is accepted.
  bool is_checked = true;
  // Whether a first look may end the trial before fresh processes are started.
  bool has_first_look = true;
  // Whether pairs of fresh processes end early if they do not look like a gain. Else they go on until the
  // interval decides.
  bool gives_up_early = true;
  // Whether a small gain needs enough pairs to show a stall in one block of ten. Off for blocks of seconds: there are too
  // few of them, and each has many steps.
  bool is_watched_for_stalls = true;
  // The one-time cost of the change, in nanoseconds, as measured in earlier trials of the run.
  std::int64_t known_one_time_ns = 0;
  // The rate of the reference in samples per second, as measured before the trial; 0: not known. A gain of an extension over a
  // reference that is far slower now is not believed.
  double reference_rate_before = 0.0;
};

// Runs trials, one after the other.
class TrialRunner {
 public:
  // All arguments must outlive the runner. Made after the baseline, because that warms the first process of the
  // backend.
  TrialRunner(const SessionInput& input, TrainingBackend& backend, Ledger& ledger,
              const Clock& clock)
      : input_(&input),
        backend_(&backend),
        ledger_(&ledger),
        clock_(&clock),
        process_start_time_(2 * (input.start_time + backend.warm_up_time())) {}

  // Runs the trial: fills in what is measured and decided, and writes it to the ledger from start to finish.
  // `trial` comes with number, kind, plugin, reference, change, risk and the proposal.
  //
  // An error ends the session: ErrorKind::cancelled (the trial is recorded as interrupted), an error of the ledger,
  // or an error of the *reference* that occurs again when it is run again. (In an ablation an error of the reference
  // fails only the trial.) A candidate that fails is a verdict, not an error. A trial whose reference is disturbed
  // both times is undecided, and so is one whose candidate is disturbed (Error::is_disturbance).
  [[nodiscard]] Result<TrialRecord> run(TrialRecord trial, const TrialPlan& plan);

  // Wall-clock time of a pair of blocks in the last trial with at least two pairs, without its first pair,
  // which may have started a trainer; 0 before such a trial.
  [[nodiscard]] std::chrono::nanoseconds pair_time() const { return pair_time_; }
  // Wall-clock time to start and warm a pair of fresh processes: the mean of the last trial that did; after one that
  // ended with its first look the time that this took, but at least twice the start time of the job; before any, twice
  // what the job's own process took to start and to become warm.
  [[nodiscard]] std::chrono::nanoseconds process_start_time() const { return process_start_time_; }

 private:
  // The state of one trial.
  struct Course {
    Course(TrialRecord& record, const TrialPlan& trial_plan, std::mt19937_64 seeded)
        : trial(&record), plan(&trial_plan), coins(seeded), measurement(trial_plan.rules) {}

    bool toss() { return (coins() & 1U) != 0; }
    // Whether the trial has its verdict, so that nothing more is measured.
    [[nodiscard]] bool is_over() const { return trial->verdict != Verdict::running; }

    TrialRecord* trial;
    const TrialPlan* plan;
    std::mt19937_64 coins;
    Measurement measurement;
    std::chrono::nanoseconds begun{0};     // when the trial did, with its checks and starts
    std::chrono::nanoseconds starting{0};  // start and warming of the two of the first look
    bool is_hopeless = false;          // measuring ended early because it did not look like a gain
    bool has_reference_fault = false;  // the error comes from the reference, not from the ledger
  };

  // Each of these may give the trial its verdict. Errors are those of run().
  Result<void> make_ready(Course& course, ProcessChoice process, bool is_candidate_first);
  Result<void> measure_pair(Course& course);
  Result<void> look_first(Course& course);
  Result<void> measure_in_one_process(Course& course);
  Result<void> measure_processes(Course& course);
  Result<void> measure(Course& course);
  Result<void> fail_by_reference(Course& course, const Error& error, const Result<void>& again);
  // Fails an accepted trial beside an extension whose gain may be a reference that something slows.
  void doubt_reference(Course& course) const;
  // Rejects a faster change whose one-time cost this training does not repay.
  void charge_one_time(Course& course) const;
  // Runs the checks. If one fails, gives the trial its verdict. Else returns a sentence about them for the reason of the trial.
  Result<std::string> check(TrialRecord& trial);
  Result<void> finish(TrialRecord& trial, std::chrono::nanoseconds started);

  const SessionInput* input_;
  TrainingBackend* backend_;
  Ledger* ledger_;
  const Clock* clock_;
  std::chrono::nanoseconds pair_time_{0};
  std::chrono::nanoseconds process_start_time_{0};
};

}  // namespace autotuned::tuner
