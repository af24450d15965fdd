// SPDX-License-Identifier: Apache-2.0
// The recorded noise of bench/data/noise: blocks of a job in which nothing was changed.
#pragma once

#include <array>
#include <filesystem>
#include <vector>

#include "base/result.hpp"

namespace autotuned::bench {

// The files, without their ".csv".
inline constexpr std::array<const char*, 3> kNoiseNames = {"quiet2", "disturbed2", "disturbed1"};

struct RecordedBlock {
  double start_s = 0.0;
  double end_s = 0.0;
  double log_rate = 0.0;  // steps per nanosecond
};

// The blocks of `name` below `folder`. ErrorKind::invalid: fewer than `least_seconds` are recorded, or the file is not
// there.
[[nodiscard]] Result<std::vector<RecordedBlock>> read_trace(const std::filesystem::path& folder,
                                                            const char* name, double least_seconds);

}  // namespace autotuned::bench
