// SPDX-License-Identifier: Apache-2.0
#include "bench/error_rates/recorded_noise.hpp"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

namespace autotuned::bench {

Result<std::vector<RecordedBlock>> read_trace(const std::filesystem::path& folder, const char* name,
                                              double least_seconds) {
  const std::filesystem::path file = folder / (std::string(name) + ".csv");
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);  // names of the columns
  std::vector<RecordedBlock> blocks;
  while (std::getline(stream, line)) {
    std::istringstream fields(line);
    double start_ns = 0.0;
    double duration_ns = 0.0;
    double steps = 0.0;
    char comma = 0;
    if (!(fields >> start_ns >> comma >> duration_ns >> comma >> steps)) continue;
    blocks.push_back(
        {start_ns / 1e9, (start_ns + duration_ns) / 1e9, std::log(steps / duration_ns)});
  }
  const double seconds = blocks.empty() ? 0.0 : blocks.back().end_s - blocks.front().start_s;
  if (blocks.empty() || seconds < least_seconds) {
    return fail(ErrorKind::invalid,
                fmt::format("the trace has {:.1f} s, {:.0f} s are needed", seconds, least_seconds),
                file.string());
  }
  return blocks;
}

}  // namespace autotuned::bench
