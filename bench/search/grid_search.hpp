// SPDX-License-Identifier: Apache-2.0
// Searches on a recorded grid: ours, with recorded noise, and what it is held against.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "bench/search/grid.hpp"
#include "plugins/host/loader.hpp"

namespace autotuned::bench {

// An evaluation is one configuration that is measured: one trial of ours, one point of the others.
struct SearchOutcome {
  int evaluations = 0;
  double regret_ratio = 0.0;
  double seconds = 0.0;  // of the recorded machine; 0 where no time is known
};

// A session over the knobs of the grid with a clock of its own: blocks have the rate of their point and the
// noise of the grid's, and checks pass, since what the grid varies was checked when it was written. The same for
// the same seed. Tells answers and trials on standard error where `is_told`. Errors are those of the session.
[[nodiscard]] Result<SearchOutcome> replay_search(const Grid& grid,
                                                  const std::vector<plugins::FoundPlugin>& found,
                                                  std::uint64_t seed, bool is_told = false);

// Points drawn without repeating, of which it is told the true rate, until one is good enough.
[[nodiscard]] SearchOutcome replay_random(const Grid& grid, std::uint64_t seed,
                                          double until_regret_ratio);

// Every point once.
[[nodiscard]] SearchOutcome whole_grid(const Grid& grid);

}  // namespace autotuned::bench
