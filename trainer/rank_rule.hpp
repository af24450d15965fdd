// SPDX-License-Identifier: Apache-2.0
// Which requests go to all ranks, and in which of them the ranks wait for one another.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace autotuned::trainer {

// Whether a request goes to all ranks. The first rank alone answers the others: they concern data that are the same on
// all ranks, or that only it has.
[[nodiscard]] inline bool is_for_all_ranks(std::string_view request) {
  constexpr std::array<std::string_view, 13> kForAll = {
      "check_steps", "checkpoint", "drop", "import", "prepare", "profile", "renew",
      "restore",     "round",      "run",  "steps",  "trace",   "train"};
  return std::ranges::find(kForAll, request) != kForAll.end();
}

// Whether ranks wait for one another during this request. A rank that fails in it must leave, so that the others do not
// wait for it in vain.
[[nodiscard]] inline bool steps_together(std::string_view request) {
  constexpr std::array<std::string_view, 7> kSteps = {"check_steps", "load",  "profile", "run",
                                                      "steps",       "trace", "train"};
  return std::ranges::find(kSteps, request) != kSteps.end();
}

}  // namespace autotuned::trainer
