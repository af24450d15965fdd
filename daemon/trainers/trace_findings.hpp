// SPDX-License-Identifier: Apache-2.0
// What a run learns from a trace of a few of its steps.
#pragma once

#include <filesystem>

#include "base/result.hpp"
#include "tuner/training_backend.hpp"

namespace autotuned::daemon {

// Analyses the trace in `file` as `autotuned analyze` does. Adds its signals under their names to the profile's metrics,
// of which none changes, and what the rules find. Where the profile has measured a signal itself, under another name
// and over more steps (docs/metrics.md, "Signals"), its figure is the signal's. Errors, after which the profile is as it
// was: those of traces::read_trace(), and `corrupt` for a trace that ends too early or one of more than 64 MiB.
[[nodiscard]] Result<void> add_findings(const std::filesystem::path& file, tuner::Profile& profile);

}  // namespace autotuned::daemon
