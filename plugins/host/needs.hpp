// SPDX-License-Identifier: Apache-2.0
// What a plugin requires of the machine. A plugin whose requirements are not met is `unsupported` there; that is no error.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/machine/machine.hpp"

namespace autotuned::plugins {

// Returns why `need` is not a valid requirement, with the nearest known name; nothing if it is valid. Valid are "cuda"
// (any NVIDIA GPU with its driver) and the CPU features that Machine::cpu_features names.
[[nodiscard]] std::optional<std::string> why_no_need(const std::string& need);

// Describes the first need that the machine does not meet, and what the machine has; nothing if it meets all.
[[nodiscard]] std::optional<std::string> why_unsupported(const std::vector<std::string>& needs,
                                                         const Machine& machine);

}  // namespace autotuned::plugins
