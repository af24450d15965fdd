// SPDX-License-Identifier: Apache-2.0
// Extensions and workloads as a session and the commands see them: by what their files say. Their code runs
// in the trainer alone.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "plugins/host/loader.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::daemon {

// Those of the folders of --plugin-dir (`extra`), the environment and the program, save `without`.
[[nodiscard]] std::vector<plugins::FoundPlugin> trainer_plugins_here(
    const std::vector<std::filesystem::path>& extra, const std::vector<std::string>& without = {});

// The built-in knobs and those of the extensions that are ready, sorted by name.
[[nodiscard]] std::vector<recipes::Knob> knobs_with(
    std::vector<recipes::Knob> built_in, const std::vector<plugins::FoundPlugin>& trainer_plugins);
[[nodiscard]] std::vector<std::string> extension_knobs(
    const std::vector<plugins::FoundPlugin>& trainer_plugins);
// Whether the two differ in what a trainer extension does: in one of `extension_knobs`.
[[nodiscard]] bool differ_in_extensions(const std::vector<std::string>& extension_knobs,
                                        const Configuration& one, const Configuration& other);

// The files that a trainer of this recipe is to know: the extensions that are ready and the workloads that
// the recipe names. ErrorKind::invalid where a workload is not there or was refused; says why.
[[nodiscard]] Result<Json> libraries_for(const recipes::Recipe& recipe,
                                         const std::vector<plugins::FoundPlugin>& trainer_plugins);

// What of libraries_for() is wrong with a recipe, with its line.
[[nodiscard]] std::vector<recipes::Diagnostic> workload_problems(
    const recipes::Recipe& recipe, const std::vector<plugins::FoundPlugin>& trainer_plugins);

}  // namespace autotuned::daemon
