// SPDX-License-Identifier: Apache-2.0
#include "tuner/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>

#include "recipes/environment_variables.hpp"

namespace autotuned::tuner {
namespace {

using recipes::RiskClass;

// More expected of a change than when it lost: this many times the gain that was expected then.
constexpr double kGrownSignal = 1.5;
constexpr std::string_view kEnvironment = "env.";

bool is_supported(const std::string& name, const SessionInput& input) {
  // The environment is set when the trainer starts, whatever the trainer.
  return name.starts_with(kEnvironment) ||
         std::ranges::find(input.supported_knobs, name) != input.supported_knobs.end();
}

std::optional<std::string> fault_of_value(const std::string& name, const KnobValue& value,
                                          const SessionInput& input) {
  const auto knob = recipes::find_knob(input.knobs, name);
  if (!knob) return "it proposed the unknown knob " + name;
  if (name.starts_with(kEnvironment) &&
      !recipes::is_variable_for_plugins(std::string_view(name).substr(kEnvironment.size()))) {
    return "it proposed " + name +
           ", which plugins may not set: docs/knobs.md lists those they may";
  }
  if (!is_supported(name, input))
    return "it proposed " + name + ", which this trainer does not obey";
  if (auto checked = recipes::check_value(*knob, value); !checked) {
    return "it proposed " + name + "=" + to_text(value) + ": " + checked.error().what;
  }
  const std::int64_t* size = std::get_if<std::int64_t>(&value);
  if (name == "batch_size" && size != nullptr && *size > input.recipe.tune.batch_size_max) {
    return "it proposed a batch of " + to_text(value) + ", the recipe permits " +
           std::to_string(input.recipe.tune.batch_size_max);
  }
  return std::nullopt;
}

// The extension that brought a knob; empty for a knob of the program.
std::string_view extension_of(const std::string& knob, const SessionInput& input) {
  if (std::ranges::find(input.extension_knobs, knob) == input.extension_knobs.end()) return {};
  return std::string_view(knob).substr(0, knob.find('.'));
}

bool turns(const Configuration& change, std::string_view extension, const SessionInput& input) {
  return std::ranges::any_of(change.values(), [&](const auto& entry) {
    return extension_of(entry.first, input) == extension;
  });
}

bool has_lost(const TrialRecord& trial) {
  return trial.kind == TrialKind::proposal &&
         (trial.verdict == Verdict::rejected || trial.verdict == Verdict::failed);
}

}  // namespace

std::optional<std::string> fault_of(const Candidate& candidate, const SessionInput& input) {
  for (const auto& [name, value] : candidate.change.values()) {
    if (auto fault = fault_of_value(name, value, input)) return fault;
  }
  const RiskClass risk = recipes::risk_of(input.knobs, candidate.change);
  if (!input.recipe.allows(risk, candidate.change)) {
    return "it proposed " + candidate.change.canonical_text() + ", a change of class " +
           std::string(recipes::to_string(risk)) + " that the recipe does not permit";
  }
  return std::nullopt;
}

std::optional<std::string> why_skipped(const Candidate& candidate, const Configuration& incumbent,
                                       const std::vector<Configuration>& past_incumbents,
                                       const std::vector<TrialRecord>& trials) {
  const Configuration target = incumbent.with(candidate.change);
  const std::string what = candidate.change.canonical_text();
  if (target == incumbent) return what + " is what the job runs with already";
  if (std::ranges::find(past_incumbents, target) != past_incumbents.end()) {
    return what + " leads back to a configuration that was beaten";
  }
  const Configuration change = incumbent.change_to(target);
  int losses = 0;
  double expected_then = 1.0;
  for (const TrialRecord& trial : trials) {
    if (!has_lost(trial)) continue;
    if (trial.reference.with(trial.change) == target) {
      return fmt::format("{} was tried already as trial {}", what, trial.number);
    }
    if (trial.change != change) continue;
    ++losses;
    expected_then = std::max(expected_then, trial.expected_gain_ratio);
  }
  if (losses == 0) return std::nullopt;
  if (losses > 1) return what + " lost twice";
  const double grown = 1.0 + kGrownSignal * (expected_then - 1.0);
  if (candidate.expected_gain_ratio <= grown) {
    return what + " lost before and no more is expected of it now";
  }
  return std::nullopt;
}

std::optional<std::string> why_left_out(const Candidate& candidate, const SessionInput& input,
                                        const std::vector<TrialRecord>& trials) {
  for (const auto& [name, value] : candidate.change.values()) {
    const std::string_view extension = extension_of(name, input);
    if (extension.empty()) continue;
    for (const TrialRecord& trial : trials) {
      if (trial.kind != TrialKind::proposal || trial.verdict != Verdict::failed ||
          trial.failure == ErrorKind::out_of_memory || !turns(trial.change, extension, input)) {
        continue;
      }
      return fmt::format("the extension {} is left out since trial {} failed: {}", extension,
                         trial.number, trial.reason);
    }
  }
  return std::nullopt;
}

std::optional<std::string> why_hopeless(const Candidate& candidate, const SessionInput& input) {
  if (!candidate.signal_share_ratio || is_on_gpu(input)) return std::nullopt;
  const double share = *candidate.signal_share_ratio;
  const double least = input.recipe.tune.min_gain_ratio;
  if (share >= 1.0 || 1.0 / (1.0 - share) >= 1.0 + least) return std::nullopt;
  return fmt::format(
      "{} is about {:.1f} % of the step: without all of it the job would not gain the {:.1f} % "
      "that "
      "tune.min_gain asks for",
      candidate.change.canonical_text(), share * 100.0, least * 100.0);
}

bool is_tried_before(const Candidate& a, const Candidate& b, const SessionInput& input) {
  const auto key = [&](const Candidate& candidate) {
    return std::tuple(-std::round(candidate.expected_gain_ratio * 100.0),
                      static_cast<int>(recipes::risk_of(input.knobs, candidate.change)),
                      recipes::needs_restart(input.knobs, candidate.change),
                      candidate.change.values().size(), candidate.plugin);
  };
  return key(a) < key(b);
}

}  // namespace autotuned::tuner
