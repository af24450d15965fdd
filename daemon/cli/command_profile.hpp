// SPDX-License-Identifier: Apache-2.0
// The command `profile`, in the form of command_functions.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cli/command_functions.hpp"

namespace autotuned::daemon {

struct ProfileOptions {
  std::filesystem::path recipe;
  std::vector<std::filesystem::path> plugin_folders;
  std::vector<std::string> settings;            // KNOB=VALUE, over the recipe's start
  std::optional<int> ranks;                     // instead of the recipe's
  std::optional<std::filesystem::path> output;  // a folder, or a file *.json.gz
  std::int64_t steps = 10;  // in the trace; those around it as in torch.profiler
  std::int64_t skip_first = 0;
  std::int64_t wait = 0;
  std::int64_t warmup = 3;
  std::int64_t repeat = 1;
  std::string limit = "2min";  // no step begins later
  bool shapes = false;
  bool memory = false;
  bool checkpoint = false;  // also save one after the steps of each cycle, and remove it
  AnalyzeOptions analysis;  // what to print of the trace
  bool as_json = false;
};
int profile(const ProfileOptions& options);

}  // namespace autotuned::daemon
