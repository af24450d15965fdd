// SPDX-License-Identifier: Apache-2.0
// The parts of the table that rules() is made of.
#pragma once

#include <span>

#include "profiler/analysis/findings/findings.hpp"

namespace autotuned::analysis {

[[nodiscard]] std::span<const Rule> input_rules();

}  // namespace autotuned::analysis
