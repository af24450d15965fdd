// SPDX-License-Identifier: Apache-2.0
// Receives the reports of a session as they happen, for the history and for those who watch the run.
#pragma once

#include <chrono>
#include <string>

#include "base/result.hpp"
#include "base/trial.hpp"
#include "tuner/ceiling.hpp"
#include "tuner/training_backend.hpp"

namespace autotuned::tuner {

// The progress of the tuning.
struct TuningProgress {
  int trials_done = 0;  // trials with a verdict, those of earlier processes of the run included
  // An estimate of the trials still to come: waiting proposals and the confirmation. 0: not known yet.
  int trials_expected = 0;
  std::chrono::nanoseconds budget{0};
  std::chrono::nanoseconds budget_spent{0};
};

// Every call that returns a Result records one fact, which is durable when the call returns. An error (disk full, history locked) ends
// the session, because it must not act on a fact that is not recorded. The other calls only inform those who watch the run.
class Ledger {
 public:
  Ledger() = default;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;
  virtual ~Ledger() = default;

  // A warning for people; not stored.
  virtual void warned(const std::string& text) = 0;
  virtual void progressed(const TuningProgress& progress) = 0;

  virtual Result<void> baseline(const Configuration& starting, double samples_per_second) = 0;
  // The ceiling of each incumbent when it was measured; the last is that of the outcome (SessionOutcome::ceiling).
  virtual Result<void> ceiling(const Ceiling& ceiling) = 0;
  virtual Result<void> profiled(const Configuration& incumbent, const StepProfile& profile) = 0;
  // The profile failed. Plugins that read its metrics will propose nothing.
  virtual Result<void> not_profiled(const Error& error) = 0;
  // Call it before a plugin is asked. If the plugin crashes or hangs this process, the record names it.
  virtual Result<void> asking(const std::string& plugin) = 0;
  // `outcome`: "" if the plugin proposed candidates; else why there are none, or the error in the answer.
  virtual Result<void> answered(const std::string& plugin, const std::string& outcome,
                                bool is_failure) = 0;

  // Stores the trial with verdict `running`, before its first block runs.
  virtual Result<void> trial_started(const TrialRecord& trial) = 0;
  virtual Result<void> block_measured(const TrialRecord& trial, const TrialBlock& block,
                                      const Estimate& estimate) = 0;
  virtual Result<void> checked(const TrialRecord& trial, const CheckRecord& check) = 0;
  virtual Result<void> trial_finished(const TrialRecord& trial) = 0;
};

}  // namespace autotuned::tuner
