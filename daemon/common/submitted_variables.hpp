// SPDX-License-Identifier: Apache-2.0
// Which variables of the environment a session gets of the shell in which its run was asked for, with a daemon or without,
// and which of these a trainer gets of its session.
#pragma once

#include <string>
#include <vector>

namespace autotuned::daemon {

// Their names.
[[nodiscard]] const std::vector<std::string>& submitted_variables();
// Those of them that a trainer gets: a training may depend on them.
[[nodiscard]] const std::vector<std::string>& training_variables();

}  // namespace autotuned::daemon
