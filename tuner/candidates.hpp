// SPDX-License-Identifier: Apache-2.0
// Which candidates get a trial, and in which order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/trial.hpp"
#include "tuner/advisors.hpp"
#include "tuner/ceiling.hpp"
#include "tuner/context.hpp"

namespace autotuned::tuner {

// What a candidate is screened against. Refers to values of the caller.
struct SearchState {
  const SessionInput& input;
  const Configuration& incumbent;
  const std::vector<Configuration>& past_incumbents;  // those that have been incumbent before
  const std::vector<TrialRecord>& trials;             // all finished ones of this run
  const Ceiling& ceiling;
  const Json& metrics;  // of the incumbent's profile
};

// Why a candidate gets no trial.
struct Refusal {
  bool is_fault = false;  // the plugin may not propose this: it is not asked again
  std::string reason;
};

// Why `candidate` is not tried against the incumbent now; nothing when it is. The first of these that applies:
//
// - It is a fault: an unknown knob, one that the trainer does not support, a value outside the knob's domain, a change that
//   the recipe does not permit.
// - The check after an earlier training of the job failed with what it would lead to (SessionInput::refused). A remembered
//   configuration is screened for nothing else.
// - It turns a knob of a trainer extension, and a trial that turned one of its knobs failed before. An extension that
//   throws, crashes or hangs is left out for the rest of the run; one that ran out of memory is not. An undecided change is
//   screened for nothing else.
// - It is at the ceiling: every knob of it is about a part of the input of which the ladder expects that the job would not
//   be faster without it. The profile must not speak against that: a few blocks can err by more on a noisy machine. A near
//   miss is screened for nothing else.
// - All that its signal explains is less than the recipe's min_gain. Not asked on a GPU, where shares are times of the host
//   and bound nothing.
// - It was tried with the same outcome waiting (same incumbent, same candidate). One that lost against another incumbent
//   gets a single second chance, when more is expected of it than before; a configuration that was beaten does not come
//   back.
[[nodiscard]] std::optional<Refusal> screen(const Candidate& candidate, const SearchState& state);

// Whether `a` is to be tried before `b`: more expected gain (to the percent), then less risk, then
// without a restart, then fewer knobs, then by name.
[[nodiscard]] bool is_tried_before(const Candidate& a, const Candidate& b,
                                   const SessionInput& input);

}  // namespace autotuned::tuner
