// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/plugin_advisors.hpp"

#include <algorithm>

namespace autotuned::daemon {

PluginAdvisors::PluginAdvisors(const std::vector<plugins::FoundPlugin>& plugins,
                               const std::optional<std::vector<std::string>>& only) {
  for (const plugins::FoundPlugin& plugin : plugins) {
    if (plugin.state != plugins::FoundPlugin::State::ready || !plugin.policy) continue;
    if (only && std::find(only->begin(), only->end(), plugin.name) == only->end()) continue;
    taking_part_.push_back(&plugin);
  }
}

std::vector<std::string> PluginAdvisors::names() const {
  std::vector<std::string> names;
  for (const plugins::FoundPlugin* plugin : taking_part_)
    names.push_back(plugin->name);
  return names;
}

std::map<std::string, PluginIdentity> PluginAdvisors::identities() const {
  std::map<std::string, PluginIdentity> identities;
  for (const plugins::FoundPlugin* plugin : taking_part_)
    identities[plugin->name] = {.version = plugin->version, .sha256 = plugin->build_digest()};
  return identities;
}

Result<Json> PluginAdvisors::ask(const std::string& plugin, const Json& situation) {
  for (const plugins::FoundPlugin* candidate : taking_part_) {
    if (candidate->name == plugin) return candidate->policy->propose(situation);
  }
  return fail(ErrorKind::not_found, "there is no plugin '" + plugin + "'");
}

}  // namespace autotuned::daemon
