// SPDX-License-Identifier: Apache-2.0
// The figures of a profile as tables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/profile_view/profile_table.hpp"
#include "profiler/analysis/profile.hpp"

namespace autotuned::daemon {

// A cell with the value, or an empty one if it is not known.
[[nodiscard]] Cell known_cell(bool is_known, double value);

[[nodiscard]] Table operators_table(const std::vector<analysis::OperatorRow>& rows,
                                    analysis::OperatorsBy by = analysis::OperatorsBy::name);
[[nodiscard]] Table kernels_table(const std::vector<analysis::KernelRow>& rows);

// In the order of the model, with names indented by depth. `by_path`: with whole paths instead, for another
// order.
[[nodiscard]] Table modules_table(const analysis::TraceProfile& profile, bool by_path);

[[nodiscard]] Table memory_devices_table(const analysis::TraceProfile& profile);
// `range` counts from the beginning of the recording; all of it without one.
[[nodiscard]] Table memory_operators_table(const analysis::TraceProfile& profile,
                                           std::optional<analysis::Interval> range);
// The largest blocks of memory, with who allocated them and how long they lived; at most a thousand.
[[nodiscard]] Table memory_blocks_table(const analysis::TraceProfile& profile,
                                        std::optional<analysis::Interval> range);
// The curve of each device in words and one line of blocks.
[[nodiscard]] std::vector<std::string> memory_curves(const analysis::TraceProfile& profile,
                                                     std::optional<analysis::Interval> range);

[[nodiscard]] std::vector<std::string> input_facts(const analysis::TraceProfile& profile);
[[nodiscard]] std::vector<Table> input_tables(const analysis::TraceProfile& profile);

[[nodiscard]] Table timelines_table(const analysis::TraceProfile& profile);
[[nodiscard]] Table gaps_table(const analysis::TraceProfile& profile);

[[nodiscard]] Table ranks_table(const std::vector<analysis::TraceProfile>& ranks);
[[nodiscard]] Table collectives_table(const std::vector<analysis::TraceProfile>& ranks);
// Sentences about the rank that the others wait for.
[[nodiscard]] std::vector<std::string> straggler_facts(
    const std::vector<analysis::TraceProfile>& ranks);

}  // namespace autotuned::daemon
