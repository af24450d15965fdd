// SPDX-License-Identifier: Apache-2.0
// The device of a session's run, which nobody else uses meanwhile.
#pragma once

#include "base/machine/machine.hpp"
#include "base/result.hpp"
#include "daemon/session/device_lock.hpp"
#include "daemon/session/session_control.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::daemon {

// Ends what killed runs have left behind, then waits until the device is free or the session is asked to stop;
// both are reported to `control`. Errors are those of lock_device().
[[nodiscard]] Result<DeviceLock> lock_device_of(const recipes::Recipe& recipe,
                                                const Machine& machine, SessionControl& control);

}  // namespace autotuned::daemon
