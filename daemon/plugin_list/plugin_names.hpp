// SPDX-License-Identifier: Apache-2.0
// Checks the names of plugins and folders that a user gave, so that unknown ones are reported before anything starts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace autotuned::daemon {

// Ok when each folder of --plugin-dir can be searched. ErrorKind::invalid says which cannot, and why.
[[nodiscard]] Result<void> check_plugin_folders(const std::vector<std::filesystem::path>& extra);

// The names of all plugins in the folders of --plugin-dir (`extra`), of the environment, of the user and of the
// program, sorted; also of plugins that cannot be used. Runs no code of any plugin.
[[nodiscard]] std::vector<std::string> plugin_names_here(
    const std::vector<std::filesystem::path>& extra);

// Ok when all of `names`, given by `option`, are `known`. ErrorKind::invalid names the first that is not, and
// the nearest that is.
[[nodiscard]] Result<void> check_plugin_names(const std::string& option,
                                              const std::vector<std::string>& names,
                                              const std::vector<std::string>& known);

}  // namespace autotuned::daemon
