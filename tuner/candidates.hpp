// SPDX-License-Identifier: Apache-2.0
// Which of the proposals may be tried, and in which order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/trial.hpp"
#include "tuner/advisors.hpp"
#include "tuner/context.hpp"

namespace autotuned::tuner {

// Who proposes what no plugin did.
inline constexpr const char* kOwnName = "autotuned";

// What a plugin did wrong by proposing this: an unknown knob, one that the trainer does not obey, a
// value outside its domain, a change that the recipe does not permit. Nothing when it may be tried.
[[nodiscard]] std::optional<std::string> fault_of(const Candidate& candidate,
                                                  const SessionInput& input);

// Why this candidate is not tried against `incumbent` now; nothing when it is. `past_incumbents` are
// the configurations that have been incumbent, `trials` all finished ones of the run.
//
// A change that was tried with the same outcome waiting (same incumbent, same candidate) is not
// repeated; one that lost against another incumbent gets a single second chance, when more is expected
// of it than before; a configuration that was beaten does not come back.
[[nodiscard]] std::optional<std::string> why_skipped(
    const Candidate& candidate, const Configuration& incumbent,
    const std::vector<Configuration>& past_incumbents, const std::vector<TrialRecord>& trials);

// Why a candidate that turns a knob of a trainer extension is not tried: a trial that turned one of its knobs
// failed before. An extension that throws, crashes or hangs is left out for the rest of the run; one that
// ran out of memory is not.
[[nodiscard]] std::optional<std::string> why_left_out(const Candidate& candidate,
                                                      const SessionInput& input,
                                                      const std::vector<TrialRecord>& trials);

// Why no trial can accept this candidate, whatever it does: all that its signal explains is less than
// the recipe's min_gain. Nothing where the plugin did not say, or on a GPU, where shares are times of
// the host and bound nothing.
[[nodiscard]] std::optional<std::string> why_hopeless(const Candidate& candidate,
                                                      const SessionInput& input);

// Whether `a` is to be tried before `b`: more expected gain (to the percent), then less risk, then
// without a restart, then fewer knobs, then by name.
[[nodiscard]] bool is_tried_before(const Candidate& a, const Candidate& b,
                                   const SessionInput& input);

}  // namespace autotuned::tuner
