// SPDX-License-Identifier: Apache-2.0
// Exchanges gradients between ranks in 16 bits, which halves the bytes. If ranks wait for them, that may be worth the
// rounding.
#include <string>
#include <utility>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kHook = "ddp.comm_hook";
// Rounding takes time itself.
constexpr double kMinExposed = 0.05;
constexpr double kSavedShare = 0.4;

Answer propose(const Situation& situation) {
  std::string obstacle = situation.obstacle(kHook);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  if (situation.incumbent<std::string>(kHook).value_or("") != "none") {
    return sdk::none("gradients travel in 16 bits already");
  }
  const auto exposed = situation.metric("ranks.exposed_ratio");
  if (!exposed) return sdk::none("the profile does not say how long ranks wait for gradients");
  const std::string evidence = "a finished backward pass waits " + sdk::percent(*exposed) +
                               " of the step for gradients of other ranks";
  if (*exposed < kMinExposed) return sdk::none(evidence);
  Answer answer;
  // bf16 has the range of 32 bits; fp16 rounds less, and overflows.
  for (const char* form : {"bf16", "fp16"}) {
    const sdk::Json change = {{kHook, form}};
    if (situation.has_lost(change)) continue;
    answer.add(change, situation.expected_gain(change, sdk::gain_without(kSavedShare * *exposed)),
               evidence + "; in 16 bits they are half as many bytes", *exposed);
  }
  if (!answer.candidates.empty()) return answer;
  return sdk::none("16-bit gradients were tried and were not faster");
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("gradient_compression", "1.0", "Lets gradients travel between ranks in 16 bits.",
                 autotuned::plugins::propose);
