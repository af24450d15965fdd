// SPDX-License-Identifier: Apache-2.0
// Questions to the whole history: what each plugin gave where, and whether a job became slower since.
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
  // Empty: of none, changes that were tried together after each had its trial alone.
  std::string plugin;
  std::string job;
  std::string machine;     // "AMD EPYC 9V74, 2 CPUs"
  std::int64_t tried = 0;  // trials that were decided
  std::int64_t won = 0;
  double gain_ratio =
      0.0;  // the median of those that won, over what they were compared with; 0: none won
};

// Those that won somewhere, the largest gain first, then the others. Reads all runs.
[[nodiscard]] Result<std::vector<PluginGain>> plugin_gains(const storage::History& history);
[[nodiscard]] Json gains_json(const std::vector<PluginGain>& gains);
[[nodiscard]] std::string gains_text(const std::vector<PluginGain>& gains);

// A run, and what disturbed the machine while it was tuned: "load: other programs used 1.2 of the 2 CPUs ...". Clock governors
// are left out, for they are the same for all runs. Its rates are lower than those of the job if there is anything.
// Nothing where that was not recorded: the search did not end, or it was a script.
using Disturbances = std::optional<std::vector<std::string>>;

struct MeasuredRun {
  storage::RunRow run;
  Disturbances disturbances;

  [[nodiscard]] bool is_quiet() const;  // known to be undisturbed
};

// The newest measured run of a job on a machine beside the one that was fastest before it, of those known to be undisturbed if there
// are any. The two were measured at different times.
struct JobTrend {
  std::string job;
  std::string machine;
  MeasuredRun newest;
  MeasuredRun fastest_before;

  // Whether the difference can be one of the job: both runs are known to be undisturbed.
  [[nodiscard]] bool is_comparable() const;
};

// `runs` are those of History::runs(), newest first; runs without a rate and jobs with one run are left out.
[[nodiscard]] Result<std::vector<JobTrend>> job_trends(const storage::History& history,
                                                       const std::vector<storage::RunRow>& runs);
[[nodiscard]] Json trends_json(const std::vector<JobTrend>& trends);
// In a terminal of so many columns units, machines and days give way; 0: no terminal, and nothing gives way.
[[nodiscard]] std::string trends_text(const std::vector<JobTrend>& trends, int columns = 0);

// "AMD EPYC 9V74, 2 CPUs, NVIDIA H200" of the facts of an environment.
[[nodiscard]] std::string machine_name(const Json& facts);

}  // namespace autotuned::daemon
