// SPDX-License-Identifier: Apache-2.0
// Gives the thread that launches the step a CPU of its own if loader threads delay it: on a GPU, work that is launched
// late is done late. If a step computes on the CPU, its threads run on every CPU anyway, and with two CPUs all workers
// would share one: a CPU of its own could then only cost.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kAffinity = "loader.affinity";
constexpr const char* kWorkers = "loader.workers";
// Less could not be measured.
constexpr double kMinHoldUp = 0.01;
// The part of the loading cost beside the waiting that the change saves; sharing caches and memory costs the rest.
constexpr double kSavedShare = 0.5;

// The share of a step that loading costs beside the waits: steps with ready batches are faster by more than the waits.
// Empty if it was not measured.
std::optional<double> hold_up_of(const Situation& situation) {
  const auto loading = situation.metric("loader.cost_ratio");
  const auto wait = situation.metric("step.data_wait_ratio");
  if (!loading || !wait || !situation.metric("ceiling.device_batch_ratio")) return std::nullopt;
  return *loading - *wait;
}

Answer propose(const Situation& situation) {
  std::string obstacle = situation.obstacle(kAffinity);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  const std::int64_t workers = situation.incumbent<std::int64_t>(kWorkers).value_or(0);
  if (workers == 0) return sdk::none("without loader workers no thread competes with the step");
  if (situation.incumbent<std::string>(kAffinity) == "apart") {
    return sdk::none("the workers already avoid the CPU of the launching thread");
  }
  const std::int64_t cpus = situation.cpus_allowed();
  if (cpus <= 2) {
    return sdk::none("with " + std::to_string(cpus) +
                     " CPUs all workers would share one CPU, which can only be slower");
  }
  if (!situation.is_on_gpu() && situation.text("recipe", "model") != "paced") {
    return sdk::none("the step itself computes on all CPUs, so no CPU can be reserved for it");
  }
  if (workers >= cpus) {
    return sdk::none(std::to_string(workers) + " workers on " + std::to_string(cpus) +
                     " CPUs would have to share fewer CPUs");
  }
  const auto hold_up = hold_up_of(situation);
  if (!hold_up) {
    return sdk::none("the rate of the step without loading was not measured");
  }
  if (*hold_up < kMinHoldUp) {
    return sdk::none("besides the wait for data, loading costs the step only " +
                     sdk::percent(std::max(*hold_up, 0.0)) + " of its time");
  }
  const sdk::Json change = {{kAffinity, "apart"}};
  if (situation.has_lost(change))
    return sdk::none("workers apart from the launching thread were tried and were not faster");
  return sdk::propose_one(
      change, situation.expected_gain(change, sdk::gain_without(kSavedShare * *hold_up)),
      "besides the wait for data, loading costs the step " + sdk::percent(*hold_up) +
          " of its time: " + std::to_string(workers) + " workers run on the " +
          std::to_string(cpus) + " CPUs that the launching thread uses too",
      std::min(*hold_up, 1.0));
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("loader_affinity", "1.0",
                 "Keeps loader workers away from the CPU of the thread that launches the steps.",
                 autotuned::plugins::propose);
