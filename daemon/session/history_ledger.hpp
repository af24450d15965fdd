// SPDX-License-Identifier: Apache-2.0
// The ledger of a session: each fact is stored in the history first, then sent to watchers.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "base/clock.hpp"
#include "base/json.hpp"
#include "plugins/host/loader.hpp"
#include "storage/history.hpp"
#include "tuner/ledger.hpp"

namespace autotuned::daemon {

// Receives events (docs/architecture.md, "Events of a session").
using EventSink = std::function<void(const Json&)>;

class HistoryLedger final : public tuner::Ledger {
 public:
  // All references must outlive the ledger. `run` is kept up to date in the history.
  HistoryLedger(storage::History& history, storage::RunRow& run,
                const std::vector<plugins::FoundPlugin>& plugins, const Clock& clock,
                EventSink events);

  void warned(const std::string& text) override;
  void progressed(const tuner::TuningProgress& progress) override;
  Result<void> baseline(const Configuration& starting, double samples_per_second) override;
  Result<void> ceiling(const tuner::Ceiling& ceiling) override;
  Result<void> profiled(const Configuration& incumbent, const tuner::StepProfile& profile) override;
  Result<void> not_profiled(const Error& error) override;
  Result<void> asking(const std::string& plugin) override;
  Result<void> answered(const std::string& plugin, const std::string& outcome,
                        bool is_failure) override;
  Result<void> trial_started(const TrialRecord& trial) override;
  Result<void> block_measured(const TrialRecord& trial, const TrialBlock& block,
                              const Estimate& estimate) override;
  Result<void> checked(const TrialRecord& trial, const CheckRecord& check) override;
  Result<void> trial_finished(const TrialRecord& trial) override;

 private:
  [[nodiscard]] TrialId id_of(const TrialRecord& trial) const { return {run_->id, trial.number}; }

  storage::History* history_;
  storage::RunRow* run_;
  const std::vector<plugins::FoundPlugin>* plugins_;
  const Clock* clock_;
  EventSink events_;
  std::set<std::string> told_;  // notes of profiles
};

}  // namespace autotuned::daemon
