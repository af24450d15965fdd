// SPDX-License-Identifier: Apache-2.0
// Which environment variables a session gets from the shell in which its run was asked for, with or without a daemon,
// and which of these its trainers get.
#pragma once

#include <string>
#include <vector>

namespace autotuned::daemon {

// The names of the variables that a session gets.
[[nodiscard]] const std::vector<std::string>& submitted_variables();
// The names of those that a trainer gets, because a training may depend on them.
[[nodiscard]] const std::vector<std::string>& training_variables();

}  // namespace autotuned::daemon
