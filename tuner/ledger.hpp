// SPDX-License-Identifier: Apache-2.0
// Where a session writes what happens, as it happens: the history, and whoever watches.
#pragma once

#include <chrono>
#include <string>

#include "base/result.hpp"
#include "base/trial.hpp"
#include "tuner/ceiling.hpp"
#include "tuner/training_backend.hpp"

namespace autotuned::tuner {

// Where the tuning stands.
struct TuningProgress {
  int trials_done = 0;  // with a verdict, by earlier processes of the run too
  int trials_expected =
      0;  // about so many more: proposals that wait, and the confirmation. 0: not known yet
  std::chrono::nanoseconds budget{0};
  std::chrono::nanoseconds budget_spent{0};
};

// Every call is one fact and durable when it returns. An error (disk full, history locked) ends the
// session: what cannot be remembered must not be acted upon.
class Ledger {
 public:
  Ledger() = default;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;
  virtual ~Ledger() = default;

  // For people; not kept.
  virtual void warned(const std::string& text) = 0;
  virtual void progressed(const TuningProgress& progress) = 0;

  virtual Result<void> baseline(const Configuration& starting, double samples_per_second) = 0;
  virtual Result<void> ceiling(const Ceiling& ceiling) = 0;
  virtual Result<void> profiled(const Configuration& incumbent, const Profile& profile) = 0;
  // There is none, so plugins that go by its metrics will have nothing to propose.
  virtual Result<void> not_profiled(const Error& error) = 0;
  // The plugin is going to be asked: should it crash or hang this process, it will be known whom.
  virtual Result<void> asking(const std::string& plugin) = 0;
  // What came of it: "" for candidates, else why there is none, or what was wrong with the answer.
  virtual Result<void> answered(const std::string& plugin, const std::string& outcome,
                                bool is_failure) = 0;

  // The row exists, with verdict `running`, before the first block runs.
  virtual Result<void> trial_started(const TrialRecord& trial) = 0;
  virtual Result<void> block_measured(const TrialRecord& trial, const TrialBlock& block,
                                      const Estimate& estimate) = 0;
  virtual Result<void> checked(const TrialRecord& trial, const CheckRecord& check) = 0;
  virtual Result<void> trial_finished(const TrialRecord& trial) = 0;
};

}  // namespace autotuned::tuner
