// SPDX-License-Identifier: Apache-2.0
// What is told of the ranks of a run: how they share a step, and whether one of them holds up the others.
#pragma once

#include <cstdint>
#include <string>

#include "base/configuration.hpp"
#include "base/json.hpp"

namespace autotuned::daemon {

// Of a recipe of a run (Recipe::to_json()); 1 where it does not say.
[[nodiscard]] std::int64_t ranks_of(const Json& recipe);

// "2 ranks of 32, 64 samples a step"; empty with one rank.
[[nodiscard]] std::string ranks_text(std::int64_t ranks, std::int64_t batch_size);
// The same of a recipe under a configuration, which may have another batch size than the recipe.
[[nodiscard]] std::string ranks_text(const Json& recipe, const Configuration& configuration);

// ", 2 ranks of 32, 64 samples a step" of an event that has `ranks` and `batch_size`; empty where it has not.
[[nodiscard]] std::string told_ranks(const Json& event);

// One sentence with the rank that the others wait for, by the metrics of a profile; empty where none is more than 5 % of
// the step behind.
[[nodiscard]] std::string slow_rank_text(const Json& metrics);

}  // namespace autotuned::daemon
