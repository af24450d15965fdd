// SPDX-License-Identifier: Apache-2.0
// What a plugin requires of the machine. A plugin whose requirements are not met is `unsupported` there; that is no error.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/machine/machine.hpp"

namespace autotuned::plugins {

// "cuda", for any NVIDIA GPU with its driver, or a feature of the CPU as Machine::cpu_features names it.
// Otherwise the error says what is wrong, with the nearest known name.
[[nodiscard]] std::optional<std::string> why_no_need(const std::string& need);

// The first need that the machine does not fulfil, with what the machine has; nothing when it fulfils all.
[[nodiscard]] std::optional<std::string> why_unsupported(const std::vector<std::string>& needs,
                                                         const Machine& machine);

}  // namespace autotuned::plugins
