// SPDX-License-Identifier: Apache-2.0
// The figures of a run as points for other programs to plot: a value with a name at a step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/trial.hpp"

namespace autotuned::daemon {

struct LogPoint {
  std::string name;       // "train/loss", "test/accuracy", "trials/ratio"
  std::int64_t step = 0;  // of the training; for trials, the number of the trial
  std::int64_t unix_ns = 0;
  double value = 0.0;

  friend bool operator==(const LogPoint&, const LogPoint&) = default;
};

// The points of read_training_log(). Figures of a test data set have names that begin with "test/".
[[nodiscard]] std::vector<LogPoint> training_points(const std::vector<Json>& log);

// The points of trials with a measurement, at the time of their ends: the ratio with both ends of its
// interval, the rates, and whether the trial was accepted (1 or 0).
[[nodiscard]] std::vector<LogPoint> trial_points(const std::vector<TrialRecord>& trials);

// A heading and a line for each point: run,name,step,unix_seconds,value.
[[nodiscard]] std::string csv_of(std::string_view run, const std::vector<LogPoint>& points);

// A line for each line of the training's log, as it is, and for each trial, as TrialRecord::to_json().
[[nodiscard]] std::string jsonl_of(std::string_view run, const std::vector<Json>& log,
                                   const std::vector<TrialRecord>& trials);

}  // namespace autotuned::daemon
