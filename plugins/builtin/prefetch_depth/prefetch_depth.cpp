// SPDX-License-Identifier: Apache-2.0
// Batches take unequal times: a photo may be large, or a CPU busy for a moment. Ready batches bridge that. They help
// only if the workers keep up on average: a queue that is always empty stays empty.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kDepth = "loader.prefetch_batches";
constexpr const char* kWorkers = "loader.workers";
constexpr double kMinWait = 0.02;
// Thread times are measured on CPUs that others use too.
constexpr double kKeepsUp = 1.1;
// The part of the waiting that deeper queues save.
constexpr double kSavedShare = 0.5;

Answer propose(const Situation& situation) {
  std::string obstacle = situation.obstacle(kDepth);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  if (situation.incumbent<std::int64_t>("loader.native_threads").value_or(0) > 0) {
    return sdk::none("threads of C++ make the batches, and share the work of each of them");
  }
  const std::int64_t workers = situation.incumbent<std::int64_t>(kWorkers).value_or(0);
  if (workers == 0) {
    return sdk::none("without loader workers no batch is prepared in advance");
  }
  const auto wait = situation.metric("step.data_wait_ratio");
  if (!wait) return sdk::none("the profile does not say how long the step waits for data");
  if (*wait < kMinWait) {
    return sdk::none("the step waits only " + sdk::percent(*wait) + " of its time for data");
  }
  const auto sample_ns = situation.metric("loader.sample_ns");
  const auto samples = situation.metric("step.samples");
  const auto step_ns = situation.metric("step.duration_ns");
  if (!sample_ns || !samples || !step_ns || *step_ns <= 0.0) {
    return sdk::none("the profile does not say how long the preparation of a batch takes");
  }
  // The workers' time for a batch over the time of a step without waiting.
  const double load = *sample_ns * *samples /
                      (static_cast<double>(workers) * *step_ns * std::max(1e-3, 1.0 - *wait));
  if (load > kKeepsUp) {
    return sdk::none("the workers need " + sdk::percent(load) +
                     " of the step's own time for a batch, so they cannot fill a longer queue");
  }
  const std::int64_t now = situation.incumbent<std::int64_t>(kDepth).value_or(1);
  const std::int64_t next = std::min(2 * now, situation.knob(kDepth)->maximum);
  if (next <= now) return sdk::none("the queue already has its largest length");
  const sdk::Json change = {{kDepth, next}};
  if (situation.has_lost(change)) return sdk::none("a longer queue was tried and was not faster");
  return sdk::propose_one(
      change, situation.expected_gain(change, sdk::gain_without(kSavedShare * *wait)),
      "the step waits " + sdk::percent(*wait) + " of its time for data although its " +
          std::to_string(workers) + " workers need only " + sdk::percent(load) +
          " of that time for a batch on average, so batches take unequal times",
      *wait);
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("prefetch_depth", "1.0", "Lets loader workers prepare more batches in advance.",
                 autotuned::plugins::propose);
