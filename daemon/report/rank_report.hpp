// SPDX-License-Identifier: Apache-2.0
// Texts about the ranks of a run: how they share a step, and whether one of them delays the others.
#pragma once

#include <cstdint>
#include <string>

#include "base/configuration.hpp"
#include "base/json.hpp"

namespace autotuned::daemon {

// The number of ranks of a run's recipe (Recipe::to_json()); 1 if it does not say.
[[nodiscard]] std::int64_t ranks_of(const Json& recipe);

// "2 ranks of 32, 64 samples a step"; empty with one rank.
[[nodiscard]] std::string ranks_text(std::int64_t ranks, std::int64_t batch_size);
// The same for a recipe with a configuration, whose batch size may differ from the recipe's.
[[nodiscard]] std::string ranks_text(const Json& recipe, const Configuration& configuration);

// ", 2 ranks of 32, 64 samples a step" from the `ranks` and `batch_size` of an event; empty if it has none.
[[nodiscard]] std::string told_ranks(const Json& event);

// One sentence about the rank that the others wait for, from the metrics of a profile; empty if no rank is more than 5
// % of the step behind.
[[nodiscard]] std::string slow_rank_text(const Json& metrics);

}  // namespace autotuned::daemon
