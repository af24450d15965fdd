// SPDX-License-Identifier: Apache-2.0
// The state of a session and its steps. Only session.cpp and search.cpp include this.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tuner/candidates.hpp"
#include "tuner/session.hpp"
#include "tuner/trial.hpp"

namespace autotuned::tuner {

class SessionRun {
 public:
  SessionRun(const SessionInput& input, TrainingBackend& backend, Advisors& advisors,
             Ledger& ledger, const Clock& clock);

  Result<SessionOutcome> run();

 private:
  using nanoseconds = std::chrono::nanoseconds;

  // At least, of a pair of processes.
  static constexpr int kBlockPairsOfProcesses = 3;

  // --- session.cpp ---
  void restore();
  Result<void> measure_baseline();
  Result<std::optional<SessionOutcome>> use_known_best();
  Result<void> verify_known_best();
  Result<void> confirm();
  // The confirmation of what is kept that holds, or the verification of it where nothing was added; or null. Valid until the next trial.
  [[nodiscard]] const TrialRecord* confirmed() const;
  [[nodiscard]] std::vector<std::pair<std::string, Configuration>> kept_changes() const;
  Result<void> ablate();
  // Before the confirmation, in what is left of the budget: what was accepted by little is taken out of the whole, and
  // given up when the whole is not shown to be faster with it.
  Result<void> drop_marginal();
  void drop_change(const Configuration& change);
  // The final configuration without one of the changes it keeps.
  [[nodiscard]] TrialRecord new_ablation(const std::string& plugin, const Configuration& change);
  [[nodiscard]] bool is_measured(const TrialRecord& ablation) const;
  void warn_of_budget();
  [[nodiscard]] SessionOutcome outcome_of(const TrialRecord* decisive) const;
  [[nodiscard]] nanoseconds elapsed() const;
  [[nodiscard]] nanoseconds remaining() const;
  // Blocks of trials can be longer than those of the baseline: a checkpoint has to come in each.
  [[nodiscard]] nanoseconds least_time(int pairs) const {
    return pairs * std::max(baseline_pair_time_, runner_.pair_time());
  }
  // The same of a trial of `change` to `reference`, each pair of which may take fresh processes.
  [[nodiscard]] nanoseconds least_time(int pairs, const Configuration& reference,
                                       const Configuration& candidate) const {
    if (backend_->share_process(reference, candidate)) return least_time(pairs);
    return pairs * std::max(runner_.process_pair_time(), least_time(kBlockPairsOfProcesses));
  }
  [[nodiscard]] TrialRecord new_trial(TrialKind kind, const Configuration& reference,
                                      const Configuration& candidate);
  [[nodiscard]] const Configuration& incumbent() const {
    return accepted_.empty() ? input_->starting : accepted_.back();
  }

  // --- search.cpp ---
  // Profiles the incumbent and measures its ceiling. The first look in a session adds a trace; later ones only where
  // is_trace_due(), since a trainer of its own for each would cost the trials their budget.
  Result<void> look_at_incumbent();
  // On the CPU the metrics of a profile say what signals say. On a GPU they are times of the host, and what kernels hide
  // only a trace knows: so each incumbent gets one as long as that takes little of what is left.
  [[nodiscard]] bool is_trace_due() const;
  // Profile and trace of what the session ends with, where it has none yet. A job that could not be recorded within
  // its time is not tried again.
  Result<void> look_at_best();
  Result<void> take_profile(bool is_traced);
  Result<void> add_trace();
  Result<void> measure_ceiling();
  Result<void> search();
  Result<void> ask(const std::string& plugin);
  Result<void> leave_out(const std::string& plugin, const std::string& fault);
  // What candidates are screened against.
  [[nodiscard]] SearchState state() const {
    return {*input_, incumbent(), past_incumbents_, trials_, ceiling_, profile_.metrics};
  }
  // Pending proposals, the most promising first.
  [[nodiscard]] std::vector<const Candidate*> pending() const;
  // What is tried next, with its time; nothing when there is nothing that fits into what is left.
  struct Next {
    Candidate candidate;
    TrialPlan plan;
    bool is_second_look = false;
  };
  [[nodiscard]] std::optional<Next> next_trial();
  [[nodiscard]] std::optional<Candidate> second_look() const;
  // The time and the error that a trial of this change may take; nothing when that does not fit into what is left.
  [[nodiscard]] std::optional<TrialPlan> plan_trial(const Configuration& change,
                                                    bool is_second_look) const;
  // The error that the next trial may accept with.
  [[nodiscard]] double accept_error_ratio(bool is_live) const;

  const SessionInput* input_;
  TrainingBackend* backend_;
  Advisors* advisors_;
  Ledger* ledger_;
  const Clock* clock_;
  TrialRunner runner_;

  nanoseconds started_{0};
  std::optional<nanoseconds> tuning_time_;  // set when what follows is no tuning
  nanoseconds baseline_pair_time_{
      0};  // wall clock of a pair of the starting configuration's blocks
  bool has_slow_blocks_ = false;
  int next_number_ = 1;
  std::vector<TrialRecord> trials_;
  std::vector<Configuration> accepted_;  // each builds on the one before
  std::vector<Configuration> past_incumbents_;
  double baseline_rate_ = 0.0;
  Ceiling ceiling_;
  std::optional<Configuration> ceiling_of_;
  Profile profile_;
  // Of the last trace: no knob moves an operator into another module.
  Json places_ = Json::object();
  std::optional<Configuration> profiled_;  // that profile_ is of
  std::optional<Configuration> traced_;    // the last one that was recorded, or could not be
  std::optional<nanoseconds>
      trace_time_;  // of the last one, its trainer's start included; none: it failed
  bool is_trace_too_slow_ = false;              // the last one ran out of its time
  std::map<std::string, Candidate> proposals_;  // one per plugin that has any
  std::set<std::string> left_out_;
  bool is_searched_ = false;
  bool is_budget_spent_ = false;
  bool is_complete_ = false;  // the search ended, and no proposal was left untried
  std::optional<Configuration>
      verified_;  // a remembered configuration from which the search goes on
};

}  // namespace autotuned::tuner
