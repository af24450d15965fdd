// SPDX-License-Identifier: Apache-2.0
#include "recipes/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace autotuned::recipes {
namespace {

// Where a warm-up starts. Not 0, at which the first step would change nothing.
constexpr double kWarmupStart = 0.01;

double cosine_factor(double warmup, double least, double progress) {
  if (progress < warmup) return kWarmupStart + (1.0 - kWarmupStart) * progress / warmup;
  if (warmup >= 1.0) return 1.0;
  const double descended = (progress - warmup) / (1.0 - warmup);
  return least + (1.0 - least) * (1.0 + std::cos(std::numbers::pi * descended)) / 2.0;
}

}  // namespace

double schedule_factor(const Typed& schedule, std::int64_t samples_seen,
                       const CourseLength& length) {
  const Json& parameters = schedule.parameters;
  if (schedule.type == "step") {
    const std::int64_t epochs = samples_seen / length.samples_per_epoch;
    const std::int64_t drops = epochs / parameters.at("step_epochs").get<std::int64_t>();
    return std::pow(parameters.at("gamma").get<double>(), static_cast<double>(drops));
  }
  if (schedule.type == "cosine") {
    const double progress = static_cast<double>(samples_seen) / static_cast<double>(length.samples);
    return cosine_factor(parameters.at("warmup_ratio"), parameters.at("min_lr_ratio"),
                         std::min(progress, 1.0));
  }
  return 1.0;
}

Result<void> check_schedule(const Typed& schedule) {
  const auto require = [&](const char* name, double least, double most) -> Result<void> {
    const Result<double> value = get_number(schedule.parameters, name);
    if (!value) return tl::unexpected(value.error());
    if (*value >= least && *value <= most) return {};
    return fail(ErrorKind::invalid, std::string(name) + " is out of range", "schedule");
  };
  if (schedule.type == "constant") return {};
  if (schedule.type == "step") {
    if (auto epochs = get_integer(schedule.parameters, "step_epochs"); !epochs) {
      return tl::unexpected(epochs.error());
    }
    if (auto epochs = require("step_epochs", 1, 1e9); !epochs) return epochs;
    return require("gamma", 0, 1);
  }
  if (schedule.type == "cosine") {
    if (auto warmup = require("warmup_ratio", 0, 1); !warmup) return warmup;
    return require("min_lr_ratio", 0, 1);
  }
  return fail(ErrorKind::invalid, "expected constant, step or cosine", "schedule");
}

}  // namespace autotuned::recipes
