// SPDX-License-Identifier: Apache-2.0
// What was acknowledged, and whether it is still there. Whatever is wrong is printed and counted.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/integration/scene.hpp"

namespace autotuned::faults {

// Counts over the whole program.
[[nodiscard]] int wrong();
void report_wrong(const std::string& what);

// Finished trials of all runs as JSON by id; empty while there is no history yet.
using Trials = std::map<std::string, std::string>;
[[nodiscard]] Trials finished_trials(const Scene& scene);

// The lines in which `autotuned run` said that trials had finished: it says so after they were stored. They name
// what was tried, how it ended and what was measured.
[[nodiscard]] std::vector<std::string> said_trials(const Outcome& outcome);
// How many.
[[nodiscard]] int said_finished(const Outcome& outcome);

// Each of these lines must be that of a trial of its own.
void check_said(const std::vector<std::string>& said, const Trials& trials,
                const std::string& where);

// Each of `before` must be there, unchanged.
void check_kept(const Trials& before, const Trials& now, const std::string& where);

// The history must open and be whole.
void check_whole(const Scene& scene, const std::string& where);

// `outcome` must be that of a run that ended right: trained to its end, and whatever was decided against one
// configuration, for or against it, was decided once.
void check_right(const Outcome& outcome, const std::string& where);

}  // namespace autotuned::faults
