// SPDX-License-Identifier: Apache-2.0
// What a shell needs to complete the commands of this program.
#pragma once

#include <string>

#include "daemon/guide/command_table.hpp"

namespace autotuned::daemon {

// `program` is the name of the program with its commands below. Each is a file for the folder from which the shell loads
// completions, or to be evaluated.
[[nodiscard]] std::string bash_completions(const Command& program);
[[nodiscard]] std::string zsh_completions(const Command& program);
[[nodiscard]] std::string fish_completions(const Command& program);

}  // namespace autotuned::daemon
