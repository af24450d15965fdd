// SPDX-License-Identifier: Apache-2.0
// Which proposals get a trial, and in which order.
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

// What screen() compares a proposal with. Refers to values of the caller.
struct SearchState {
  const SessionInput& input;
  const Configuration& incumbent;
  const std::vector<Configuration>&
      past_incumbents;                     // configurations that were the incumbent before
  const std::vector<TrialRecord>& trials;  // all finished trials of this run
  const Ceiling& ceiling;
  const Json& metrics;  // of the incumbent's profile
};

// Why a proposal gets no trial.
struct Refusal {
  bool is_fault = false;  // the plugin may not propose this; it is not asked again
  std::string reason;
};

// Why `proposal` gets no trial against the incumbent now; nothing if it gets one. Applies these rules in
// order; the first that refuses gives the answer:
//
// - Fault: the change names an unknown knob, a knob that the trainer does not support, a value outside the
//   knob's domain, or a change that the recipe does not permit.
// - Refused before: the change would bring settings of SessionInput::refused into the configuration; the
//   check after an earlier training of this job failed with them. For a stored best configuration no further
//   rule applies.
// - Failed extension: the change turns a knob of a trainer extension, and an earlier trial that turned a knob
//   of the same extension failed. An extension that threw, crashed or hung is left out for the rest of the
//   run; one that ran out of memory is not. For an undecided change no further rule applies.
// - At the ceiling: every knob of the change is about a part of the input whose rung of the ladder shows no
//   gain, and the profile does not contradict the ladder. (On a noisy machine the few blocks of a rung can be
//   wrong by more than the rung's threshold.) For a near miss no further rule applies.
// - Too small: the whole signal behind the proposal is worth less than the recipe's min_gain. This rule is
//   skipped on a GPU, where a signal is a share of host time and bounds nothing.
// - Tried already: the same change was tried against the same incumbent. A change that lost against
//   another incumbent gets one second trial, if more gain is expected than before. A configuration that was
//   beaten is not tried again.
[[nodiscard]] std::optional<Refusal> screen(const Proposal& proposal, const SearchState& state);

// Why it is not known what a plugin's own change gives: a trial of it against `incumbent` was disturbed, and no later
// one of the change decided. Nothing if there is no such trial. It stands for what the plugin says of that change,
// which for a plugin has not won.
[[nodiscard]] std::optional<std::string> why_undecided(const std::string& plugin,
                                                       const Configuration& incumbent,
                                                       const std::vector<TrialRecord>& trials);

// Whether `a` is tried before `b` where the budget suffices for both: more expected gain (rounded to a percent) first, then
// lower risk, then no restart, then fewer knobs, then the name of the plugin.
[[nodiscard]] bool is_tried_before(const Proposal& a, const Proposal& b, const SessionInput& input);

}  // namespace autotuned::tuner
