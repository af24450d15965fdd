// SPDX-License-Identifier: Apache-2.0
// The rules about input, a part of rules().
#pragma once

#include <span>

#include "profiler/analysis/findings/findings.hpp"

namespace autotuned::analysis {

[[nodiscard]] std::span<const Rule> input_rules();

}  // namespace autotuned::analysis
