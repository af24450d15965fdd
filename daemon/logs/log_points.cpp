// SPDX-License-Identifier: Apache-2.0
#include "daemon/logs/log_points.hpp"

#include <fmt/format.h>

#include "tuner/comparison.hpp"

namespace autotuned::daemon {
namespace {

constexpr double kNsInSecond = 1e9;

bool has_measurement(const TrialRecord& trial) {
  return trial.estimate.pairs > 0 && trial.verdict != Verdict::running;
}

}  // namespace

std::vector<LogPoint> training_points(const std::vector<Json>& log) {
  std::vector<LogPoint> points;
  for (const Json& line : log) {
    const std::int64_t step = get_integer(line, "step").value_or(0);
    const std::int64_t unix_ns = get_integer(line, "unix_ns").value_or(0);
    for (const auto& [name, value] : line.items()) {
      if (!value.is_number() || name == "step" || name == "unix_ns") continue;
      // The samples of an evaluation are those of the step before, which has told them or will not.
      if (name == "samples" && !line.contains("loss")) continue;
      const bool is_test = name.starts_with("test_");
      points.push_back({.name = is_test ? "test/" + name.substr(5) : "train/" + name,
                        .step = step,
                        .unix_ns = unix_ns,
                        .value = value.get<double>()});
    }
  }
  return points;
}

std::vector<LogPoint> trial_points(const std::vector<TrialRecord>& trials) {
  std::vector<LogPoint> points;
  for (const TrialRecord& trial : trials) {
    if (!has_measurement(trial)) continue;
    const auto add = [&](const char* name, double value) {
      points.push_back({.name = std::string("trials/") + name,
                        .step = trial.number,
                        .unix_ns = trial.started_unix_ns + trial.duration_ns,
                        .value = value});
    };
    add("ratio", trial.estimate.ratio);
    // An end that too few pairs have shown would only stretch the axis.
    if (trial.estimate.low > 0.0) add("ratio_low", trial.estimate.low);
    if (trial.estimate.high < tuner::kNoUpperEnd) add("ratio_high", trial.estimate.high);
    add("reference_samples_per_second", trial.reference_samples_per_second);
    add("candidate_samples_per_second", trial.candidate_samples_per_second);
    add("accepted", trial.verdict == Verdict::accepted ? 1.0 : 0.0);
  }
  return points;
}

std::string csv_of(std::string_view run, const std::vector<LogPoint>& points) {
  std::string text = "run,name,step,unix_seconds,value\n";
  for (const LogPoint& point : points) {
    text += fmt::format("{},{},{},{:.3f},{}\n", run, point.name, point.step,
                        static_cast<double>(point.unix_ns) / kNsInSecond, point.value);
  }
  return text;
}

std::string jsonl_of(std::string_view run, const std::vector<Json>& log,
                     const std::vector<TrialRecord>& trials) {
  std::string text;
  for (const Json& line : log)
    text += to_line(line) + "\n";
  for (const TrialRecord& trial : trials)
    text += to_line(trial.to_json(run)) + "\n";
  return text;
}

}  // namespace autotuned::daemon
