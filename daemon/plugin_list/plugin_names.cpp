// SPDX-License-Identifier: Apache-2.0
#include "daemon/plugin_list/plugin_names.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "daemon/common/installation_paths.hpp"
#include "plugins/host/loader.hpp"
#include "plugins/host/trust.hpp"

namespace autotuned::daemon {

Result<void> check_plugin_folders(const std::vector<std::filesystem::path>& extra) {
  for (const std::filesystem::path& folder : extra) {
    const auto trusted = plugins::trusted_folder(std::filesystem::absolute(folder));
    if (!trusted) {
      return fail(ErrorKind::invalid, trusted.error().message(), "--plugin-dir " + folder.string());
    }
  }
  return {};
}

std::vector<std::string> plugin_names_here(const std::vector<std::filesystem::path>& extra) {
  std::vector<std::filesystem::path> absolute;
  for (const std::filesystem::path& folder : extra)
    absolute.push_back(std::filesystem::absolute(folder));
  return plugins::plugin_names(
      plugins::plugin_folders(absolute, find_installation_paths().built_in_plugins));
}

Result<void> check_plugin_names(const std::string& option, const std::vector<std::string>& names,
                                const std::vector<std::string>& known) {
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const auto near = nearest_name(name, known);
    const std::string shown = short_for_message(name);
    return fail(ErrorKind::invalid, "there is no plugin '" + shown + "'", option + " " + shown,
                near ? "did you mean '" + *near + "'?"
                     : "`autotuned plugins` lists them; --plugin-dir names a further folder");
  }
  return {};
}

}  // namespace autotuned::daemon
