// SPDX-License-Identifier: Apache-2.0
// A recorded grid: every combination of values of some knobs, timed and profiled once (scan --output), so that
// a search can be replayed without the machine.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/result.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::bench {

struct GridPoint {
  double rate = 0.0;  // samples/s, the median over the rounds
  Json metrics;       // of a profile
};

struct Grid {
  std::string name;
  recipes::Recipe recipe;
  Machine machine;
  Json facts;
  Configuration start;
  std::map<std::string, GridPoint> points;  // by the canonical text of the whole configuration
  std::map<std::string, std::set<std::string>> values;  // of the knobs that vary, as text
  double best = 0.0;                                    // best_rate() of all points
  double noise_ratio = 0.0;                             // noise_ratio() of all points

  // Null where the grid lacks it. Lives as long as the grid.
  [[nodiscard]] const GridPoint* find(const Configuration& configuration) const;
  // A little below 0 for a point that is as good as the best.
  [[nodiscard]] double regret_of(double rate) const { return 1.0 - rate / best; }
};

// What the best of some points is worth, of their rates in each of the same rounds. The largest of many medians is
// larger than that: it is chosen for its luck, too. So each round tells the rate of the point that the
// others choose, and this is the median of those. REQUIRES: a point; each with as many rates, at least one.
[[nodiscard]] double best_rate(const std::vector<std::vector<double>>& rates);

// By how much one block errs: the standard deviation of the logarithm of a rate, pooled over all points, each
// about its own mean. 0 where each has one rate. REQUIRES: rates above 0.
[[nodiscard]] double noise_ratio(const std::vector<std::vector<double>>& rates);

// The same with nothing but the last part of every absolute path: what a grid tells of the machine that recorded it
// are its processors and memory.
[[nodiscard]] Json without_folders(Json json);

// ErrorKind::io, ::invalid: the file cannot be read, or is no grid.
[[nodiscard]] Result<Grid> read_grid(const std::filesystem::path& file);

}  // namespace autotuned::bench
