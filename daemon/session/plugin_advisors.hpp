// SPDX-License-Identifier: Apache-2.0
// The loaded plugins behind the interface through which the tuner asks for proposals.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plugins/host/loader.hpp"
#include "tuner/advisors.hpp"

namespace autotuned::daemon {

// What tells whether a plugin of some name is still the one that was asked.
struct PluginIdentity {
  std::string version;
  std::string sha256;  // of its files: one that was built again may have kept its version
};

class PluginAdvisors final : public tuner::Advisors {
 public:
  // `plugins` must outlive this. Uses the plugins that are ready and, if `only` is given, named in it.
  PluginAdvisors(const std::vector<plugins::FoundPlugin>& plugins,
                 const std::optional<std::vector<std::string>>& only);

  [[nodiscard]] std::vector<std::string> names() const override;
  // The identity of each plugin, by its name.
  [[nodiscard]] std::map<std::string, PluginIdentity> identities() const;
  Result<Json> ask(const std::string& plugin, const Json& situation) override;

 private:
  std::vector<const plugins::FoundPlugin*> taking_part_;
};

}  // namespace autotuned::daemon
