// SPDX-License-Identifier: Apache-2.0
// What a plugin says that it needs of a machine: without it, it is `unsupported` here, and nobody's fault.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/machine/machine.hpp"

namespace autotuned::plugins {

// "cuda", for any NVIDIA GPU with its driver, or a feature of the CPU as Machine::cpu_features names it.
// Else what is wrong, with the name that is nearest.
[[nodiscard]] std::optional<std::string> why_no_need(const std::string& need);

// The first need that the machine does not fulfil, with what the machine has; nothing when it fulfils all.
[[nodiscard]] std::optional<std::string> why_unsupported(const std::vector<std::string>& needs,
                                                         const Machine& machine);

}  // namespace autotuned::plugins
