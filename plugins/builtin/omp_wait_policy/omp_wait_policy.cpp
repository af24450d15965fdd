// SPDX-License-Identifier: Apache-2.0
// Trainers are started with OMP_WAIT_POLICY=passive, because spinning threads of a waiting trainer would slow another
// one down many times over. But sleeping threads must be woken for each operator. A bounded spin, libgomp's default,
// avoids that, and ends long before a block of the other trainer does.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kSpins = "env.GOMP_SPINCOUNT";
// How often libgomp spins without a policy: for a few milliseconds or less.
constexpr const char* kBoundedSpins = "300000";
// Waking a thread and letting it go to sleep again: as a rule, and on a slow virtual machine.
constexpr double kWakingNs = 15'000.0;
constexpr double kMaxWakingNs = 50'000.0;
constexpr double kMinShare = 0.005;

Answer propose(const Situation& situation) {
  std::string obstacle = situation.obstacle(kSpins);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  if (situation.is_on_gpu()) return sdk::none("the operators run on the GPU");
  if (!situation.incumbent<std::string>(kSpins).value_or("").empty()) {
    return sdk::none("the recipe or an earlier trial already sets how long threads spin");
  }
  const std::int64_t threads = situation.incumbent<std::int64_t>("threads.intra_op").value_or(1);
  if (threads < 2) return sdk::none("one thread runs each operator, so no thread has to be woken");
  const auto calls = situation.metric("operators.count_per_step");
  const auto step_ns = situation.metric("step.duration_ns");
  if (!calls || !step_ns || *step_ns <= 0.0) {
    return sdk::none("the profile does not say how many operators a step has");
  }
  const double share = std::min(1.0, *calls * kMaxWakingNs / *step_ns);
  if (share < kMinShare) {
    return sdk::none("waking threads takes at most " + sdk::percent(share) + " of a step");
  }
  const sdk::Json change = {{kSpins, kBoundedSpins}};
  if (situation.has_lost(change)) {
    return sdk::none("spinning threads were tried and were not faster");
  }
  // Not every operator is shared by threads.
  const double saved = std::min(0.5, *calls * kWakingNs / *step_ns) / 2.0;
  char evidence[200];
  std::snprintf(evidence, sizeof evidence,
                "a step of %.1f ms has %.0f operators, and their threads sleep after each one: "
                "with 15 us to wake them, that is up to %s of the step",
                *step_ns / 1e6, *calls, sdk::percent(2.0 * saved).c_str());
  return sdk::propose_one(change, situation.expected_gain(change, sdk::gain_without(saved)),
                          evidence, share);
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("omp_wait_policy", "1.0",
                 "Lets the threads of operators spin for a limited time before they sleep.",
                 autotuned::plugins::propose);
