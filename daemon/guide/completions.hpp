// SPDX-License-Identifier: Apache-2.0
// Completion scripts for the shells.
#pragma once

#include <string>

#include "daemon/guide/command_table.hpp"

namespace autotuned::daemon {

// `program` is the program's name with its commands. Each result is the content of a file for the folder from which the
// shell loads completions; it can also be evaluated.
[[nodiscard]] std::string bash_completions(const Command& program);
[[nodiscard]] std::string zsh_completions(const Command& program);
[[nodiscard]] std::string fish_completions(const Command& program);

}  // namespace autotuned::daemon
