// SPDX-License-Identifier: Apache-2.0
// The diagnosis of the incumbent: its ceiling, its profile, and a trace of some of its steps show where its time goes.
#pragma once

#include <chrono>
#include <optional>

#include "base/clock.hpp"
#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "tuner/baseline.hpp"
#include "tuner/budget.hpp"
#include "tuner/ceiling.hpp"
#include "tuner/context.hpp"
#include "tuner/ledger.hpp"
#include "tuner/training_backend.hpp"

namespace autotuned::tuner {

// Returns the plan for the ceiling of this job, with fewer pairs if its blocks are slow.
[[nodiscard]] CeilingPlan ceiling_plan_of(const Baseline& baseline);

// Finds out where the time goes. Every result is also written to the ledger. If the job cannot be profiled or traced, the diagnosis goes on
// without that part. Errors: of the ledger, of the blocks of the ceiling without a rung, and
// ErrorKind::cancelled.
class Diagnosis {
 public:
  // All arguments must outlive the diagnosis.
  Diagnosis(const SessionInput& input, const Baseline& baseline, const Budget& budget,
            TrainingBackend& backend, Ledger& ledger, const Clock& clock);

  [[nodiscard]] Result<void> measure_ceiling(const Configuration& incumbent);
  // Measures the ceiling and takes a profile of a new incumbent. The first incumbent of a session also gets a
  // trace, later ones only if is_trace_due(): each trace needs a trainer of its own, whose time the trials
  // would lack.
  [[nodiscard]] Result<void> examine(const Configuration& incumbent);
  // Takes the profile and the trace of the final configuration, if they are missing. If a trace of it ran out
  // of its time, no other is tried.
  [[nodiscard]] Result<void> complete(const Configuration& incumbent);

  [[nodiscard]] const Ceiling& ceiling() const { return ceiling_; }
  // The metrics of the last profile; empty if there is none.
  [[nodiscard]] const Json& metrics() const { return profile_.metrics; }
  // Whether the last profile is missing because it was disturbed both times (Error::is_disturbance) or ran out of its
  // time, such as on a busy machine. What plugins answer without its metrics does not hold for the next run.
  [[nodiscard]] bool is_profile_missing_by_chance() const { return is_profile_missing_by_chance_; }
  // StepProfile::places of the last trace. It stays valid for later incumbents: no knob moves an operator into
  // another module.
  [[nodiscard]] const Json& places() const { return places_; }

 private:
  // Whether this incumbent gets a trace. On the CPU the metrics of a profile contain what signals say. On a
  // GPU metrics are host times, and only a trace shows the time of kernels; so each incumbent gets a trace if
  // that takes a small part of the remaining budget.
  [[nodiscard]] bool is_trace_due(const Configuration& incumbent) const;
  // On a GPU, after the first trace: removes the metrics of operators that come from times of the host, and adds the shares of the last
  // trace (kernel_shares_) that the profile lacks.
  void use_kernel_shares();
  Result<void> take_profile(const Configuration& incumbent, bool is_traced);
  Result<void> add_trace(const Configuration& incumbent);

  const SessionInput* input_;
  const Baseline* baseline_;
  const Budget* budget_;
  TrainingBackend* backend_;
  Ledger* ledger_;
  const Clock* clock_;

  Ceiling ceiling_;
  std::optional<Configuration> ceiling_of_;
  StepProfile profile_;
  std::optional<Configuration> profiled_;  // the configuration of profile_
  bool is_profile_missing_by_chance_ = false;
  Json places_ = Json::object();
  // The signals of the last trace that are shares of the time of kernels or operators. A change of the loading does not affect them.
  // Other changes affect them by less than the error of host times.
  Json kernel_shares_ = Json::object();
  std::optional<Configuration> traced_;  // the last one that was traced or could not be traced
  // The time of the last trace, including the start of its trainer; nothing if it failed.
  std::optional<std::chrono::nanoseconds> trace_time_;
  bool is_trace_too_slow_ = false;  // the last trace ran out of its time
};

}  // namespace autotuned::tuner
