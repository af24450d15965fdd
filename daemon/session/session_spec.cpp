// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/session_spec.hpp"

#include <utility>

#include "daemon/common/trainer_plugins.hpp"

namespace autotuned::daemon {

Result<TrainerBackendSpec> session_spec(const SessionRequest& request, const Machine& machine,
                                        const InstallationPaths& paths,
                                        const std::vector<recipes::Knob>& knobs,
                                        const std::vector<plugins::FoundPlugin>& trainer_plugins) {
  auto libraries = libraries_for(request.recipe, trainer_plugins, request.without);
  if (!libraries) return tl::unexpected(libraries.error());
  TrainerBackendSpec spec;
  spec.recipe = request.recipe;
  spec.knobs = knobs;
  spec.extension_knobs = extension_knobs(trainer_plugins);
  spec.plugins = *std::move(libraries);
  spec.trainer = paths.trainer;
  spec.block_limit = request.block_limit;
  spec.measurement_lock = measurement_lock_file();
  spec.memory_limit_bytes = host_memory_limit_bytes(request.recipe, machine);
  return spec;
}

}  // namespace autotuned::daemon
