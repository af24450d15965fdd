// SPDX-License-Identifier: Apache-2.0
// Which of the processes of one training this one is.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace autotuned::trainer {

struct RankPlace {
  int rank = 0;   // 0: the leader, which the session talks to
  int ranks = 1;  // of the training, all on this machine
  // A file that all of them can open, where they tell one another their addresses.
  std::filesystem::path store;
};

// The place as variables of an environment, NAME=value: what the leader hands to another rank.
[[nodiscard]] std::vector<std::string> rank_variables(const RankPlace& place);

// The place that such variables give; nothing: there are none, so this process is no rank that a leader has started.
// `variable` looks one up (null: it is not set). ErrorKind::invalid names the variable that is wrong or missing.
using VariableLookup = std::function<const char*(const char* name)>;
[[nodiscard]] Result<std::optional<RankPlace>> rank_place_from(const VariableLookup& variable);

}  // namespace autotuned::trainer
