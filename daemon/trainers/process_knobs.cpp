// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/process_knobs.hpp"

#include <algorithm>
#include <utility>

namespace autotuned::daemon {

ProcessKnobs::ProcessKnobs(std::vector<recipes::Knob> knobs,
                           std::vector<std::string> extension_knobs)
    : knobs_(std::move(knobs)), extension_knobs_(std::move(extension_knobs)) {}

bool ProcessKnobs::is_of_extension(const std::string& knob) const {
  return std::ranges::find(extension_knobs_, knob) != extension_knobs_.end();
}

bool ProcessKnobs::turns_extension(const std::string& name, const KnobValue& value) const {
  if (!is_of_extension(name)) return false;
  const auto knob = recipes::find_knob(knobs_, name);
  return !knob || value != knob->default_value;
}

std::string ProcessKnobs::key_of(const Configuration& configuration) const {
  Configuration kept;
  for (const auto& [name, value] : configuration.values()) {
    const auto knob = recipes::find_knob(knobs_, name);
    const bool is_restart = knob && knob->how == recipes::KnobSwitch::restart;
    if (is_restart || turns_extension(name, value)) kept.set(name, value);
  }
  return kept.canonical_text();
}

bool ProcessKnobs::uses_extension(const Configuration& configuration) const {
  return std::ranges::any_of(configuration.values(), [this](const auto& setting) {
    return turns_extension(setting.first, setting.second);
  });
}

Configuration ProcessKnobs::without_extensions(const Configuration& configuration) const {
  Configuration rest;
  for (const auto& [name, value] : configuration.values()) {
    const auto knob = recipes::find_knob(knobs_, name);
    rest.set(name, knob && is_of_extension(name) ? knob->default_value : value);
  }
  return rest;
}

Configuration ProcessKnobs::without_live_extensions(const Configuration& configuration) const {
  Configuration rest;
  for (const auto& [name, value] : configuration.values()) {
    const auto knob = recipes::find_knob(knobs_, name);
    const bool is_live = knob && knob->how == recipes::KnobSwitch::live;
    rest.set(name, is_live && is_of_extension(name) ? knob->default_value : value);
  }
  return rest;
}

}  // namespace autotuned::daemon
