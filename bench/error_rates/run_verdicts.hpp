// SPDX-License-Identifier: Apache-2.0
// Whole runs of a session over recorded noise: how often does any of a run's placebos win, and how often is one kept?
#pragma once

#include <filesystem>

#include "base/result.hpp"

namespace autotuned::bench {

struct RunVerdictsPlan {
  int runs = 1000;    // of each row
  int placebos = 10;  // of each sort: live knobs, and restart knobs
};

// Prints two rows for each trace below `folder`, as Markdown: runs of placebos alone, and of placebos beside one true
// gain. Fails if a trace is too short.
[[nodiscard]] Result<void> print_run_verdicts(const std::filesystem::path& folder,
                                              const RunVerdictsPlan& plan);

}  // namespace autotuned::bench
