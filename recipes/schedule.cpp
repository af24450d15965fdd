// SPDX-License-Identifier: Apache-2.0
#include "recipes/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

namespace autotuned::recipes {
namespace {

// The factor at the start of a warm-up. With 0 the first step would change nothing.
constexpr double kWarmupStart = 0.01;

// The end of the warm-up as a share of the training; 0 without one.
double warmup_share(const Json& parameters, const CourseLength& length) {
  const auto samples = static_cast<double>(length.samples);
  if (const auto steps = get_number(parameters, "warmup_steps")) {
    return *steps * static_cast<double>(length.samples_per_step) / samples;
  }
  if (const auto epochs = get_number(parameters, "warmup_epochs")) {
    return *epochs * static_cast<double>(length.samples_per_epoch) / samples;
  }
  return get_number(parameters, "warmup_ratio").value_or(0.0);
}

// The factor in the warm-up. REQUIRES: progress < warmup.
double rise(double warmup, double progress) {
  return kWarmupStart + (1.0 - kWarmupStart) * progress / warmup;
}

// The factor in the warm-up of a schedule that does not depend on the length of the training. A warm-up with a length of its own is
// counted in samples, so that a longer training has the same factors, bit for bit.
double warmup_factor(const Json& parameters, std::int64_t samples_seen,
                     const CourseLength& length) {
  double samples = 0.0;
  if (const auto steps = get_number(parameters, "warmup_steps")) {
    samples = *steps * static_cast<double>(length.samples_per_step);
  } else if (const auto epochs = get_number(parameters, "warmup_epochs")) {
    samples = *epochs * static_cast<double>(length.samples_per_epoch);
  } else {
    const double share = get_number(parameters, "warmup_ratio").value_or(0.0);
    samples = share * static_cast<double>(length.samples);
  }
  const auto seen = static_cast<double>(samples_seen);
  return seen < samples ? rise(samples, seen) : 1.0;
}

double cosine_factor(double least, double descended) {
  return least + (1.0 - least) * (1.0 + std::cos(std::numbers::pi * descended)) / 2.0;
}

// The number of whole epochs that are done.
double epochs_factor(const Component& schedule, std::int64_t epochs) {
  if (schedule.type == "constant" || schedule.type == "plateau") return 1.0;
  const Json& parameters = schedule.parameters;
  std::int64_t drops = epochs;
  if (schedule.type == "step") {
    drops = epochs / parameters.at("step_epochs").get<std::int64_t>();
  } else if (schedule.type == "multi_step") {
    const Json& given = parameters.at("epochs");
    const Json all = given.is_array() ? given : Json::array({given});
    drops = std::ranges::count_if(all, [&](const Json& milestone) { return milestone <= epochs; });
  }
  return std::pow(parameters.at("gamma").get<double>(), static_cast<double>(drops));
}

// PyTorch counts the steps of both phases from 0 and lets the second one end at the last step.
double one_cycle_factor(const Json& parameters, std::int64_t samples_seen,
                        const CourseLength& length) {
  const auto per_step = static_cast<double>(length.samples_per_step);
  const double steps = static_cast<double>(length.samples) / per_step;
  const double last = std::max(steps - 1.0, 0.0);
  const double peak = parameters.at("pct_start").get<double>() * steps - 1.0;
  const double step = std::min(static_cast<double>(samples_seen) / per_step, last);
  const double first_factor = 1.0 / parameters.at("div_factor").get<double>();
  const double last_factor = first_factor / parameters.at("final_div_factor").get<double>();
  const auto between = [&](double from, double to, double share) {
    if (parameters.at("anneal") == "linear") return from + (to - from) * share;
    return to + (from - to) / 2.0 * (1.0 + std::cos(std::numbers::pi * share));
  };
  if (peak > 0.0 && step <= peak) return between(first_factor, 1.0, step / peak);
  if (peak >= last) return 1.0;
  return between(1.0, last_factor, (step - peak) / (last - peak));
}

}  // namespace

double schedule_factor(const Component& schedule, std::int64_t samples_seen,
                       const CourseLength& length) {
  const Json& parameters = schedule.parameters;
  if (schedule.type == "one_cycle") return one_cycle_factor(parameters, samples_seen, length);
  if (schedule.type == "cosine" || schedule.type == "polynomial") {
    const double progress =
        std::min(static_cast<double>(samples_seen) / static_cast<double>(length.samples), 1.0);
    const double warmup = warmup_share(parameters, length);
    if (progress < warmup) return rise(warmup, progress);
    if (warmup >= 1.0) return 1.0;
    const double done = (progress - warmup) / (1.0 - warmup);
    if (schedule.type == "polynomial") {
      return std::pow(1.0 - done, parameters.at("power").get<double>());
    }
    return cosine_factor(parameters.at("min_lr_ratio"), done);
  }
  return epochs_factor(schedule, samples_seen / length.samples_per_epoch) *
         warmup_factor(parameters, samples_seen, length);
}

LengthDependence length_dependence(const Component& schedule) {
  for (const char* const type : {"cosine", "polynomial", "one_cycle"})
    if (schedule.type == type) return LengthDependence::course;
  const double share = get_number(schedule.parameters, "warmup_ratio").value_or(0.0);
  return share > 0.0 ? LengthDependence::warmup : LengthDependence::none;
}

Result<void> check_schedule(const Component& schedule) {
  const Json& parameters = schedule.parameters;
  const auto out_of_range = [](const char* name) -> Result<void> {
    return fail(ErrorKind::invalid, std::string(name) + " is out of range", "schedule");
  };
  const auto require = [&](const char* name, double least, double most) -> Result<void> {
    const Result<double> value = get_number(parameters, name);
    if (!value) return tl::unexpected(value.error());
    if (*value >= least && *value <= most) return {};
    return out_of_range(name);
  };
  constexpr double kMax = 1e12;
  for (const auto& [name, most] : {std::pair{"warmup_ratio", 1.0}, std::pair{"warmup_epochs", kMax},
                                   std::pair{"warmup_steps", kMax}}) {
    if (member(parameters, name).is_null()) continue;
    if (auto warmup = require(name, 0, most); !warmup) return warmup;
  }
  if (schedule.type == "constant") return {};
  if (schedule.type == "step") {
    if (auto epochs = get_integer(parameters, "step_epochs"); !epochs) {
      return tl::unexpected(epochs.error());
    }
    if (auto epochs = require("step_epochs", 1, 1e9); !epochs) return epochs;
    return require("gamma", 0, 1);
  }
  if (schedule.type == "multi_step") {
    const Json& given = member(parameters, "epochs");
    const Json all = given.is_array() ? given : Json::array({given});
    for (const Json& epochs : all)
      if (!epochs.is_number_integer() || epochs < 1) return out_of_range("epochs");
    return require("gamma", 0, 1);
  }
  if (schedule.type == "exponential") return require("gamma", 0, 1);
  if (schedule.type == "cosine") {
    if (auto warmup = require("warmup_ratio", 0, 1); !warmup) return warmup;
    return require("min_lr_ratio", 0, 1);
  }
  if (schedule.type == "polynomial") return require("power", 0, kMax);
  if (schedule.type == "one_cycle") {
    if (auto start = require("pct_start", 0, 1); !start) return start;
    for (const char* name : {"div_factor", "final_div_factor"})
      if (auto factor = require(name, 1, kMax); !factor) return factor;
    const Json& anneal = member(parameters, "anneal");
    return anneal == "cos" || anneal == "linear" ? Result<void>() : out_of_range("anneal");
  }
  if (schedule.type == "plateau") {
    if (auto patience = get_integer(parameters, "patience"); !patience) {
      return tl::unexpected(patience.error());
    }
    for (const auto& [name, most] : {std::pair{"patience", kMax}, std::pair{"factor", 1.0},
                                     std::pair{"threshold", 1.0}, std::pair{"min_lr_ratio", 1.0}}) {
      if (auto value = require(name, 0, most); !value) return value;
    }
    return {};
  }
  return fail(ErrorKind::invalid,
              "expected constant, step, multi_step, exponential, cosine, polynomial, one_cycle or "
              "plateau",
              "schedule");
}

}  // namespace autotuned::recipes
