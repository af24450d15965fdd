// SPDX-License-Identifier: Apache-2.0
// Which requests all of several ranks take part in, and what becomes of them when one fails.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace autotuned::trainer {

// Others are answered by the first rank alone: they are about what all ranks have alike, or what only it has.
[[nodiscard]] inline bool is_for_all_ranks(std::string_view request) {
  constexpr std::array<std::string_view, 12> kForAll = {
      "check_steps", "checkpoint", "drop", "import", "prepare", "profile",
      "restore",     "round",      "run",  "steps",  "trace",   "train"};
  return std::ranges::find(kForAll, request) != kForAll.end();
}

// Whether ranks wait for one another during this request. One that fails must leave then, so that the others do not
// wait for it in vain.
[[nodiscard]] inline bool steps_together(std::string_view request) {
  constexpr std::array<std::string_view, 7> kSteps = {"check_steps", "load",  "profile", "run",
                                                      "steps",       "trace", "train"};
  return std::ranges::find(kSteps, request) != kSteps.end();
}

}  // namespace autotuned::trainer
