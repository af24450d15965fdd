// SPDX-License-Identifier: Apache-2.0
// Which rank of a training this process is.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace autotuned::trainer {

struct OwnRank {
  int rank = 0;   // 0: the leader, which the session talks to
  int ranks = 1;  // of the training, all on this machine
  // A file that all ranks can open, through which they exchange their addresses.
  std::filesystem::path store;
};

// The place as environment variables, NAME=value, which the leader gives to another rank.
[[nodiscard]] std::vector<std::string> rank_variables(const OwnRank& place);

// Reads the place from these variables; nothing if they are not set, so that this process was not started by a leader.
// `variable` returns the value of one (null: not set). ErrorKind::invalid names the variable that is wrong or missing.
using VariableLookup = std::function<const char*(const char* name)>;
[[nodiscard]] Result<std::optional<OwnRank>> own_rank_from(const VariableLookup& variable);

}  // namespace autotuned::trainer
