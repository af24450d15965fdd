// SPDX-License-Identifier: Apache-2.0
// Adds the results of a trace of a few steps to a profile.
#pragma once

#include <filesystem>

#include "base/result.hpp"
#include "tuner/training_backend.hpp"

namespace autotuned::daemon {

// Analyses the trace in `file` as `autotuned analyze` does. Adds signals and findings to the profile, and changes no metric
// that is there. If the profile has measured a signal itself, under another name and over more steps (docs/metrics.md,
// "Signals"), the signal gets that figure. Errors: those of traces::read_trace(), and `corrupt` for a trace that ends too
// early or has more than 64 MiB. After an error the profile is unchanged.
[[nodiscard]] Result<void> add_findings(const std::filesystem::path& file,
                                        tuner::StepProfile& profile);

}  // namespace autotuned::daemon
