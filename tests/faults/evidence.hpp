// SPDX-License-Identifier: Apache-2.0
// What was acknowledged, and whether it is still there. Whatever is wrong is printed and counted.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "storage/history.hpp"
#include "tests/integration/scene.hpp"

namespace autotuned::faults {

// Counts over the whole program.
[[nodiscard]] int wrong();
void report_wrong(const std::string& what);

// Finished trials of all runs as JSON by id; empty while there is no history yet.
using Trials = std::map<std::string, std::string>;
[[nodiscard]] Trials finished_trials(const Scene& scene);

// The lines in which `autotuned run --verbose` said that trials had finished: it says so after they were stored. They name
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

// `outcome` must be that of a run that ended right: trained to its end, unless it only tuned, and whatever was decided
// against one configuration, for or against it, was decided once.
void check_right(const Outcome& outcome, const std::string& where, bool has_trained = true);

// What the fake trainers were asked, in order. A line that a killed one has not written to its end is left out.
[[nodiscard]] std::vector<Json> recorded_requests(const Scene& scene);

// The name of the last one; empty while there is none.
[[nodiscard]] std::string last_request(const Scene& scene);

// No step that a checkpoint held is trained again, and no checkpoint is continued by a training of another plan.
void check_trainings(const std::vector<Json>& requests, const std::string& where);

// What runs keep in the folders out and out2 of the scene: results, and checkpoints of trainings. Paths below its folder.
using Files = std::set<std::string>;
[[nodiscard]] Files kept_files(const Scene& scene);

// Each of `before` must be there, except the checkpoint of a run that has finished.
void check_files_kept(const Files& before, const Scene& scene, const std::string& where);

// Nobody will give a command again: what has neither finished nor failed with a reason is lost.
void check_nothing_unfinished(const Scene& scene, const std::string& where);

// The results in that folder must be whole: a model of ten steps of one plan, a recipe, and the summary of a run that has
// finished there.
void check_results(const Scene& scene, const std::string& folder);

// The run as it is stored; nothing, which is wrong, when it is not.
[[nodiscard]] std::optional<storage::RunRow> stored_run(const Scene& scene, const std::string& id);

}  // namespace autotuned::faults
