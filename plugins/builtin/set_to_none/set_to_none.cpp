// SPDX-License-Identifier: Apache-2.0
// Gradients that are released need neither be filled with zeros nor added to.
#include <algorithm>
#include <string>
#include <utility>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kRelease = "optimizer.set_to_none";
// Less than a tenth of a percent of the step cannot be measured.
constexpr double kMinShare = 0.001;

Answer propose(const Situation& situation) {
  std::string obstacle = situation.obstacle(kRelease);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  if (situation.incumbent<bool>(kRelease) == true) {
    return sdk::none("gradients are already released");
  }
  // The few steps of a profile cannot exclude that a rare branch leaves a gradient out; the check verifies this.
  const bool is_incomplete = situation.metric("gradients.complete") == 0.0;
  if (is_incomplete &&
      !sdk::as<bool>(sdk::member(situation.section("permissions"), "numerics")).value_or(false)) {
    return sdk::none(
        std::string("some parameters get no gradient in a step; an optimizer treats a released "
                    "gradient differently from a zero one, so the training would not be the same "
                    "bit for bit, and ") +
        (situation.is_script() ? "--allow" : "the recipe") + " does not allow numerics");
  }
  const auto zero_grad = situation.metric("step.zero_grad_ratio");
  const auto fill = situation.metric("operators.fill_ratio");
  if (!zero_grad && !fill) {
    return sdk::none("the profile does not say what zero-filling gradients costs");
  }
  const double share = std::max(zero_grad.value_or(0.0), fill.value_or(0.0));
  if (share < kMinShare) {
    return sdk::none("filling gradients with zeros takes only " + sdk::percent(share) +
                     " of the step");
  }
  const sdk::Json change = {{kRelease, true}};
  if (situation.has_lost(change)) {
    return sdk::none("releasing gradients was tried and was not faster");
  }
  // The backward pass adds to the zeroed gradients: about the same memory traffic again.
  const double saved = std::min(1.0, 2.0 * share);
  return sdk::propose_one(
      change, situation.expected_gain(change, sdk::gain_without(saved)),
      "filling gradients with zeros takes " + sdk::percent(share) +
          " of the step, and adding to them takes about as long" +
          (is_incomplete
               ? "; some parameters get no gradient in a step, so the change is checked as numerics"
               : ""),
      saved);
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("set_to_none", "1.0", "Releases gradients instead of filling them with zeros.",
                 autotuned::plugins::propose);
