// SPDX-License-Identifier: Apache-2.0
// From what a trial has measured to its verdict, with the sentence that says why. Pure: each function fills in `verdict`,
// `reason` and, where they apply, `failure` and `rejection` of the record, and nothing else.
#pragma once

#include <string>

#include "base/result.hpp"
#include "base/trial.hpp"
#include "tuner/measurement.hpp"

namespace autotuned::tuner {

// What is kept of a trial that could not be measured. `context`, which may be empty, says what was going on.
void fail_trial(TrialRecord& trial, const Error& error, const std::string& context);

void reject_trial(TrialRecord& trial, RejectionReason rejection, std::string reason);

// Accepts where the measurement shows a gain, and rejects everywhere else. `is_watched_for_stalls` asks a small gain for so
// many pairs that a rare stall would have been seen. `is_hopeless`: measuring stopped because it did not look like a gain.
void decide_trial(TrialRecord& trial, const Measurement& measurement, bool is_watched_for_stalls,
                  bool is_hopeless);

}  // namespace autotuned::tuner
