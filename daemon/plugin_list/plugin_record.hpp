// SPDX-License-Identifier: Apache-2.0
// Counts what each plugin has proposed and gained so far, in all runs of the history, also those of other machines.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/json.hpp"
#include "base/result.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

struct PluginRecord {
  std::int64_t asked = 0;     // questions
  std::int64_t proposed = 0;  // trials of its proposals
  std::int64_t accepted = 0;  // accepted ones of these
  std::int64_t used = 0;      // runs whose model or data are a workload's
  std::int64_t failed =
      0;  // questions that it crashed, hung or threw at, or answered with nonsense
  std::int64_t failed_trials = 0;  // of an extension's knobs: the trainer crashed, hung or gave up
  std::string last_failure;        // the last of these failures, of either kind

  [[nodiscard]] Json to_json() const;
  // "asked 12, proposed 3, accepted 1, failed 2, 1 trial failed", "used in 4 runs"; "-" for nothing at all.
  [[nodiscard]] std::string text() const;
};

// The records by plugin name, over all versions. Reads all runs.
[[nodiscard]] Result<std::map<std::string, PluginRecord>> plugin_records(
    const storage::History& history);

}  // namespace autotuned::daemon
