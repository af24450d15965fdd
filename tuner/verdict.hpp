// SPDX-License-Identifier: Apache-2.0
// From the measurement of a trial to its verdict, with the sentence that gives the reason. Pure: each
// function sets `verdict`, `reason` and, if they apply, `failure`, `rejection` and `is_given_up` of the record, and nothing
// else.
#pragma once

#include <string>

#include "base/result.hpp"
#include "base/trial.hpp"
#include "tuner/measurement.hpp"

namespace autotuned::tuner {

// Records as failed a trial that could not be measured; as undecided one that was disturbed (Error::is_disturbance), which
// says nothing about its change. `context`: what was being done, for the reason; may be empty.
void fail_trial(TrialRecord& trial, const Error& error, const std::string& context);

void reject_trial(TrialRecord& trial, RejectionReason rejection, std::string reason);

// Accepts if the measurement shows a gain, else rejects. If `is_watched_for_stalls`, a small gain needs
// enough pairs to show a rare stall. `is_hopeless`: measuring ended early because it did not look like a
// gain; unless the interval excludes one, the trial `is_given_up`.
void decide_trial(TrialRecord& trial, const Measurement& measurement, bool is_watched_for_stalls,
                  bool is_hopeless);

}  // namespace autotuned::tuner
