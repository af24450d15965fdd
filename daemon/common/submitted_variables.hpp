// SPDX-License-Identifier: Apache-2.0
// Which variables of the environment a session gets of the shell in which its run was asked for, with a daemon or without.
#pragma once

#include <string>
#include <vector>

namespace autotuned::daemon {

// Their names.
[[nodiscard]] const std::vector<std::string>& submitted_variables();

}  // namespace autotuned::daemon
