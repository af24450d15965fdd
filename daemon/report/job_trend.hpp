// SPDX-License-Identifier: Apache-2.0
// Answers questions about the whole history: what each plugin gained on which job, and whether a job has become slower.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// What became of the proposals of a plugin for one job on one machine. Each decided trial of a proposal counts
// once, in one of them.
struct PluginGain {
  // Empty: no plugin; joint changes, which the tuner tried together after each had its own trial.
  std::string plugin;
  std::string job;
  std::string machine;        // "AMD EPYC 9V74, 2 CPUs"
  std::int64_t tried = 0;     // trials that were decided
  std::int64_t won = 0;       // accepted trials whose change the run kept at its end
  double median_ratio = 0.0;  // the median ratio of the won trials; 0: none won
};

// The gains of all plugins: first those with a won trial, by falling gain, then the others. Reads all runs.
[[nodiscard]] Result<std::vector<PluginGain>> plugin_gains(const storage::History& history);
[[nodiscard]] Json gains_json(const std::vector<PluginGain>& gains);
[[nodiscard]] std::string gains_text(const std::vector<PluginGain>& gains);

// What disturbed the machine while a run was tuned, such as "load: other programs used 1.2 of the 2 CPUs ..."; its
// rates may then be too low. Clock governors are left out: they are the same for all runs. Nothing: not recorded,
// because the search did not end or the job is a script.
using Disturbances = std::optional<std::vector<std::string>>;

struct MeasuredRun {
  storage::RunRow run;
  Disturbances disturbances;

  [[nodiscard]] bool is_quiet() const;  // known to be undisturbed
};

// The newest measured run of a job on a machine, and the fastest run before it (an undisturbed one, if there is any).
// The two were measured at different times.
struct JobTrend {
  std::string job;
  std::string machine;
  MeasuredRun newest;
  MeasuredRun fastest_before;

  // Whether the difference may be due to the job: both runs are known to be undisturbed.
  [[nodiscard]] bool is_comparable() const;
};

// `runs` are those of History::runs(), newest first; runs without a rate and jobs with one run are left out.
[[nodiscard]] Result<std::vector<JobTrend>> job_trends(const storage::History& history,
                                                       const std::vector<storage::RunRow>& runs);
[[nodiscard]] Json trends_json(const std::vector<JobTrend>& trends);
// A table that leaves out units, machines and days as far as needed to fit `columns`; 0: no terminal, nothing is left
// out.
[[nodiscard]] std::string trends_text(const std::vector<JobTrend>& trends, int columns = 0);

// "AMD EPYC 9V74, 2 CPUs, NVIDIA H200" of the facts of an environment.
[[nodiscard]] std::string machine_name(const Json& facts);

}  // namespace autotuned::daemon
