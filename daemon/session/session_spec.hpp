// SPDX-License-Identifier: Apache-2.0
// Makes the specification of a session's trainers from its request and the machine.
#pragma once

#include <vector>

#include "base/machine/machine.hpp"
#include "base/result.hpp"
#include "daemon/common/installation_paths.hpp"
#include "daemon/common/session_request.hpp"
#include "daemon/trainers/trainer_backend.hpp"
#include "plugins/host/loader.hpp"
#include "recipes/knobs.hpp"

namespace autotuned::daemon {

// Leaves the folder, the device locks and the callbacks empty. Errors are those of libraries_for().
[[nodiscard]] Result<TrainerBackendSpec> session_spec(
    const SessionRequest& request, const Machine& machine, const InstallationPaths& paths,
    const std::vector<recipes::Knob>& knobs,
    const std::vector<plugins::FoundPlugin>& trainer_plugins);

}  // namespace autotuned::daemon
