// SPDX-License-Identifier: Apache-2.0
// Names of plugins and folders that a user gave: unknown ones are reported before anything starts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace autotuned::daemon {

// Ok when each folder of --plugin-dir can be searched. ErrorKind::invalid says which cannot, and why.
[[nodiscard]] Result<void> check_plugin_folders(const std::vector<std::filesystem::path>& extra);

// Of the folders of --plugin-dir (`extra`), the environment, the user and the program; sorted. Those of
// plugins that cannot be used too. No code of any plugin runs.
[[nodiscard]] std::vector<std::string> plugin_names_here(
    const std::vector<std::filesystem::path>& extra);

// Ok when all of `names`, given by `option`, are `known`. ErrorKind::invalid names the first that is not, and
// the nearest that is.
[[nodiscard]] Result<void> check_plugin_names(const std::string& option,
                                              const std::vector<std::string>& names,
                                              const std::vector<std::string>& known);

}  // namespace autotuned::daemon
