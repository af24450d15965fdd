// SPDX-License-Identifier: Apache-2.0
// The difference of two profiles as tables.
#pragma once

#include <string>
#include <vector>

#include "daemon/profile_view/profile_table.hpp"
#include "profiler/analysis/difference.hpp"
#include "profiler/analysis/profile.hpp"

namespace autotuned::daemon {

// Sentences such as "a step took 12.00 ms in before.json, takes 8.00 ms in after.json: 33.3 % less", and what limits
// the comparison.
[[nodiscard]] std::vector<std::string> difference_facts(
    const std::vector<analysis::TraceProfile>& before,
    const std::vector<analysis::TraceProfile>& after);

// Parts and operators; kernels, modules, input and memory where there are any: before, after, change; largest
// change first.
[[nodiscard]] std::vector<Table> difference_tables(
    const std::vector<analysis::TraceProfile>& before,
    const std::vector<analysis::TraceProfile>& after);

}  // namespace autotuned::daemon
