// SPDX-License-Identifier: Apache-2.0
// Extensions and workloads as their files describe them, for sessions and commands. Only the trainer runs their code.
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

// The trainer plugins in the folders of --plugin-dir (`extra`), of the environment and of the program. Plugins named in
// `without` are left out.
[[nodiscard]] std::vector<plugins::FoundPlugin> trainer_plugins_here(
    const std::vector<std::filesystem::path>& extra, const std::vector<std::string>& without = {});

// The built-in knobs and those of the extensions that are ready, sorted by name.
[[nodiscard]] std::vector<recipes::Knob> knobs_with(
    std::vector<recipes::Knob> built_in, const std::vector<plugins::FoundPlugin>& trainer_plugins);
[[nodiscard]] std::vector<std::string> extension_knobs(
    const std::vector<plugins::FoundPlugin>& trainer_plugins);
// Whether the two configurations differ in one of `extension_knobs`.
[[nodiscard]] bool differ_in_extensions(const std::vector<std::string>& extension_knobs,
                                        const Configuration& one, const Configuration& other);
// The names of the extensions in whose knobs the two configurations differ.
[[nodiscard]] std::vector<std::string> differing_extensions(
    const std::vector<plugins::FoundPlugin>& trainer_plugins, const Configuration& one,
    const Configuration& other);

// The library files that a trainer of this recipe gets: the extensions that are ready, and the workloads that the
// recipe names. ErrorKind::invalid says why a workload is missing, was refused, or is one of those that were left out
// (`without`, as for trainer_plugins_here()).
[[nodiscard]] Result<Json> libraries_for(const recipes::Recipe& recipe,
                                         const std::vector<plugins::FoundPlugin>& trainer_plugins,
                                         const std::vector<std::string>& without = {});

// The errors of libraries_for() for a recipe, each with the recipe's line. `without`: what a command was given as
// --without.
[[nodiscard]] std::vector<recipes::Diagnostic> workload_problems(
    const recipes::Recipe& recipe, const std::vector<plugins::FoundPlugin>& trainer_plugins,
    const std::vector<std::string>& without = {});

}  // namespace autotuned::daemon
