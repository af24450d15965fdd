// SPDX-License-Identifier: Apache-2.0
// What was acknowledged, and whether it is still there. Whatever is wrong is printed and counted.
#pragma once

#include <map>
#include <string>

#include "tests/integration/scene.hpp"

namespace autotuned::faults {

// Counts over the whole program.
[[nodiscard]] int wrong();
void report_wrong(const std::string& what);

// Finished trials of all runs as JSON by id; empty while there is no history yet.
using Trials = std::map<std::string, std::string>;
[[nodiscard]] Trials finished_trials(const Scene& scene);

// Trials that `autotuned run` said had finished: it says so after they were stored.
[[nodiscard]] int said_finished(const Outcome& outcome);

// Each of `before` must be there, unchanged.
void check_kept(const Trials& before, const Trials& now, const std::string& where);

// The history must open and be whole.
void check_whole(const Scene& scene, const std::string& where);

// `outcome` must be that of a run that ended right: trained to its end, each proposal decided once.
void check_right(const Outcome& outcome, const std::string& where);

}  // namespace autotuned::faults
