// SPDX-License-Identifier: Apache-2.0
// Which knobs a trainer process keeps for life: those that need a restart, and all knobs of extensions that are away from
// their defaults. What an extension leaves behind when it is switched off would be in the blocks of the other configuration.
#pragma once

#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "recipes/knobs.hpp"

namespace autotuned::daemon {

class ProcessKnobs {
 public:
  // `extension_knobs`: those of `knobs` that trainer extensions obey.
  ProcessKnobs(std::vector<recipes::Knob> knobs, std::vector<std::string> extension_knobs);

  // The settings of these knobs as text. Configurations with the same key can share a process.
  [[nodiscard]] std::string key_of(const Configuration& configuration) const;
  // Whether a knob of an extension is away from its default.
  [[nodiscard]] bool uses_extension(const Configuration& configuration) const;
  // With all knobs of extensions at their defaults.
  [[nodiscard]] Configuration without_extensions(const Configuration& configuration) const;
  // With the knobs of extensions that are switched live at their defaults.
  [[nodiscard]] Configuration without_live_extensions(const Configuration& configuration) const;

 private:
  [[nodiscard]] bool is_of_extension(const std::string& knob) const;
  [[nodiscard]] bool turns_extension(const std::string& name, const KnobValue& value) const;

  std::vector<recipes::Knob> knobs_;
  std::vector<std::string> extension_knobs_;
};

}  // namespace autotuned::daemon
