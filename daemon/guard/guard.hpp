// SPDX-License-Identifier: Apache-2.0
// Checks whether a job has become slower. It makes one trial of the tuner with the other side (`against`) as the
// candidate: if the candidate is accepted, the other side is faster, so this side has become slower.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/result.hpp"
#include "base/trial.hpp"
#include "daemon/guard/guard_backend.hpp"
#include "recipes/knobs.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::daemon {

struct GuardSide {
  std::string name;  // for people: a file, "run r-…"
  recipes::Recipe recipe;
  Configuration configuration;    // every knob
  std::filesystem::path trainer;  // the program
};

struct GuardSpec {
  GuardSide own;
  GuardSide against;
  // `against` counts as faster only beyond this share of this side's rate. Above 0: that two sides are equally fast can be
  // shown only within a margin.
  double tolerance_ratio = 0.05;
  std::chrono::nanoseconds budget = std::chrono::minutes(2);

  // Whether the sides differ in more than settings, so that each needs trainers of its own.
  [[nodiscard]] bool has_two_jobs() const;
  // Whether both sides have the same job, trainer and settings, so that there is nothing to measure.
  [[nodiscard]] bool is_of_one() const;
};

// Names are printed and read by programs: never change one.
enum class GuardVerdict {
  not_slower,  // a loss of the tolerance or more is excluded
  slower,      // a loss is shown, and the median is the tolerance or more
  undecided,   // neither in the time that there was
};
[[nodiscard]] const char* to_string(GuardVerdict verdict);

struct GuardResult {
  GuardVerdict verdict = GuardVerdict::undecided;
  Estimate ratio;  // this side's rate over that of the other one
  double own_samples_per_second = 0.0;
  double against_samples_per_second = 0.0;
  int process_pairs = 0;  // 0: both were switched live in one process
  std::string own_build;  // as the trainers tell it: program and LibTorch
  std::string against_build;
  std::string reason;  // why it is undecided, or not measured; else empty
};

// The result if there is nothing to measure (GuardSpec::is_of_one).
[[nodiscard]] GuardResult unmeasured();

// The result of a trial in which `against` was the candidate. REQUIRES: it has a verdict, and did not fail.
[[nodiscard]] GuardResult result_of(const TrialRecord& trial, double tolerance_ratio);

// Measures in turns until the trial decides or the budget is spent. `on_pair` gets the estimate after each
// pair, as the ratio of GuardResult. Errors: those of either side, which it names, and ErrorKind::cancelled.
[[nodiscard]] Result<GuardResult> run_guard(const GuardSpec& spec,
                                            const std::vector<recipes::Knob>& knobs,
                                            const Machine& machine, TrainerBackend& own,
                                            TrainerBackend* against, const Clock& clock,
                                            const std::function<void(const Estimate&)>& on_pair);

// The result as a table with the verdict, and as JSON (docs/guard.md).
[[nodiscard]] std::string guard_text(const GuardSpec& spec, const GuardResult& result);
[[nodiscard]] Json guard_json(const GuardSpec& spec, const GuardResult& result);

}  // namespace autotuned::daemon
