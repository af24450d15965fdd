// SPDX-License-Identifier: Apache-2.0
// A GPU whose host starts kernels more slowly than it runs them waits between them. A step that was recorded
// as a graph is started as a whole.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kGraph = "cuda.graph";
// The most host time of an operator that only starts kernels. A longer one did something else, or waited for a busy
// GPU.
constexpr double kMaxLaunchNs = 10'000.0;
// Below, the GPU most likely hides the launches behind what it computes.
constexpr double kMinShare = 0.2;
// The part of launches and of waiting that a graph saves: a cautious guess, because recording slows the host down.
constexpr double kSavedShare = 0.5;

// A trace saw the GPU wait, which says more than what the host needs for its operators.
Answer from_trace(const Situation& situation, const sdk::Json& change, double waiting) {
  if (waiting < kMinShare) {
    return sdk::none("the GPU waits only " + sdk::percent(waiting) +
                     " of the time for the host to launch its next kernel");
  }
  return sdk::propose_one(change,
                          situation.expected_gain(change, sdk::gain_without(kSavedShare * waiting)),
                          "for " + sdk::percent(waiting) +
                              " of the time the GPU waits for the host to launch its next kernel; "
                              "a graph launches all kernels at once",
                          waiting);
}

Answer propose(const Situation& situation) {
  if (!situation.is_on_gpu()) return sdk::none("the job runs on the CPU, and graphs need a GPU");
  std::string obstacle = situation.obstacle(kGraph);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  if (situation.incumbent<bool>(kGraph) == true) return sdk::none("the step is already a graph");
  if (situation.text("recipe", "model") == "paced") {
    return sdk::none("the model paced waits on the host, which a graph cannot record");
  }
  if (situation.incumbent<std::string>("train.loss_reading") == "every_step") {
    return sdk::none(
        "the loss is read after every step, so the host cannot launch the next step early "
        "(train.loss_reading: deferred)");
  }
  const sdk::Json change = {{kGraph, true}};
  if (situation.has_lost(change)) {
    return sdk::none("a graph was tried and was not faster");
  }
  if (const auto waiting = situation.metric("device.launch_wait_ratio")) {
    return from_trace(situation, change, *waiting);
  }
  const auto calls = situation.metric("operators.count_per_step");
  const auto mean_ns = situation.metric("operators.mean_ns");
  const auto step_ns = situation.metric("step.duration_ns");
  if (!calls || !mean_ns || !step_ns || *step_ns <= 0.0) {
    return sdk::none("the profile does not say what launching operators costs");
  }
  const double launch_ns = std::clamp(*mean_ns, 0.0, kMaxLaunchNs);
  const double share = std::clamp(*calls * launch_ns / *step_ns, 0.0, 1.0);
  if (share < kMinShare) {
    return sdk::none("launching the operators takes only " + sdk::percent(share) +
                     " of a step, while the GPU computes");
  }
  char evidence[200];
  std::snprintf(evidence, sizeof evidence,
                "a step of %.1f ms has %.0f operators of %.1f us each on the host: launching them "
                "takes %s of it; a graph launches all at once",
                *step_ns / 1e6, *calls, *mean_ns / 1e3, sdk::percent(share).c_str());
  return sdk::propose_one(change,
                          situation.expected_gain(change, sdk::gain_without(kSavedShare * share)),
                          evidence, share);
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("cuda_graph", "1.0",
                 "Records the step as a CUDA graph and launches it as a whole.",
                 autotuned::plugins::propose);
