// SPDX-License-Identifier: Apache-2.0
// What several ranks can be asked so far.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace autotuned::trainer {

// An error of kind `unsupported` for requests on a loaded job that only a trainer alone can answer: blocks end by each
// process's own clock, and the states of ranks differ in their places in the data.
[[nodiscard]] inline Result<void> check_for_ranks(std::string_view request, int ranks) {
  constexpr std::array<std::string_view, 5> kPossible = {"digest", "place", "prepare", "save",
                                                         "train"};
  if (ranks == 1 || std::ranges::find(kPossible, request) != kPossible.end()) return {};
  return fail(ErrorKind::unsupported,
              "several ranks can be trained, but not yet measured, profiled or compared",
              std::string(request), "set train.ranks to 1, or only train: --budget 0s");
}

}  // namespace autotuned::trainer
