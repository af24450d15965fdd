// SPDX-License-Identifier: Apache-2.0
// What came of the trials of bench/placebos: a file of one JSON object a line, and a table of rates.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"

namespace autotuned::bench {

struct PlaceboTrial {
  // What was tried: trials that agree in these are one row.
  std::string recipe;
  std::string kind;  // restart | live
  double gain_ratio = 0.0;
  int disturbers = 0;  // threads of a second job

  std::string verdict;
  std::string reason;
  double ratio = 1.0;
  double low = 0.0;
  double high = 0.0;
  int pairs = 0;
  double seconds = 0.0;
  // The shares of the CPUs' time that other programs used and that the hypervisor gave away meanwhile.
  double others_ratio = 0.0;
  double stolen_ratio = 0.0;
};

[[nodiscard]] Json to_json(const PlaceboTrial& trial);
// ErrorKind::invalid names a missing field.
[[nodiscard]] Result<PlaceboTrial> placebo_trial_from(const Json& value);

// Reads the trials of a file. A file that does not exist yet has none.
[[nodiscard]] Result<std::vector<PlaceboTrial>> read_placebo_trials(
    const std::filesystem::path& file);
[[nodiscard]] Result<void> append_placebo_trial(const std::filesystem::path& file,
                                                const PlaceboTrial& trial);

// A table in Markdown, a row for each sort of trial. A true gain counts as found within `seconds_limit`.
[[nodiscard]] std::string placebo_table(const std::vector<PlaceboTrial>& trials,
                                        double seconds_limit);

}  // namespace autotuned::bench
