// SPDX-License-Identifier: Apache-2.0
// Where the time of the incumbent goes: its ceiling, its profile, and a trace of a few of its steps.
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

// Whatever is found goes to the ledger as well. A job that cannot be profiled or recorded is diagnosed without. Errors are
// those of the ledger, of the ceiling's own blocks, and `cancelled`.
class Diagnosis {
 public:
  // All of it must outlive the diagnosis.
  Diagnosis(const SessionInput& input, const Baseline& baseline, const Budget& budget,
            TrainingBackend& backend, Ledger& ledger, const Clock& clock);

  [[nodiscard]] Result<void> measure_ceiling(const Configuration& incumbent);
  // Ceiling and profile of another incumbent. The first in a session gets a trace, later ones only where is_trace_due(),
  // since a trainer of its own for each would cost the trials their budget.
  [[nodiscard]] Result<void> examine(const Configuration& incumbent);
  // Profile and trace of what the session ends with, where it has none yet. A job that could not be recorded
  // within its time is not tried again.
  [[nodiscard]] Result<void> complete(const Configuration& incumbent);

  [[nodiscard]] const Ceiling& ceiling() const { return ceiling_; }
  // Of the last profile; empty where there is none.
  [[nodiscard]] const Json& metrics() const { return profile_.metrics; }
  // Of the last trace: no knob moves an operator into another module.
  [[nodiscard]] const Json& places() const { return places_; }

 private:
  // On the CPU the metrics of a profile say what signals say. On a GPU they are times of the host, and what kernels hide
  // only a trace knows: so each incumbent gets one as long as that takes little of what is left.
  [[nodiscard]] bool is_trace_due(const Configuration& incumbent) const;
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
  Profile profile_;
  std::optional<Configuration> profiled_;  // that profile_ is of
  Json places_ = Json::object();
  std::optional<Configuration> traced_;  // the last one that was recorded, or could not be
  // Of the last trace, its trainer's start included; none: it failed.
  std::optional<std::chrono::nanoseconds> trace_time_;
  bool is_trace_too_slow_ = false;  // the last one ran out of its time
};

}  // namespace autotuned::tuner
