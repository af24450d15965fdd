// SPDX-License-Identifier: Apache-2.0
// Copies from page-locked memory are faster, and can run beside the step.
#include <cmath>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kPin = "loader.pin_memory";
constexpr const char* kAsynchronous = "transfer.non_blocking";
// Of a step: below it nothing could be measured.
constexpr double kLeastShare = 0.002;

std::string reason_of(const Situation& situation, double share) {
  std::string reason = "copying batches to the GPU takes " + sdk::percent(share) + " of the step";
  if (const auto bytes = situation.metric("transfer.bytes_per_step"); bytes && *bytes > 0.0) {
    reason += " (" + format_bytes(std::llround(*bytes)) + ")";
  }
  const auto pageable = situation.metric("transfer.pageable_ratio");
  if (pageable && *pageable > 0.0) {
    reason += ", " + sdk::percent(*pageable) + " of it from pageable memory";
  }
  return reason + "; from page-locked memory it runs beside the step";
}

Answer propose(const Situation& situation) {
  if (!situation.is_on_gpu()) {
    const std::string reason = situation.gpu_reason();
    return sdk::none("the job runs on the CPU, where nothing is copied to a GPU" +
                     (reason.empty() ? std::string() : " (" + reason + ")"));
  }
  for (const char* knob : {kPin, kAsynchronous}) {
    std::string obstacle = situation.obstacle(knob);
    if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  }
  sdk::Json change = sdk::Json::object();
  for (const char* knob : {kPin, kAsynchronous}) {
    if (situation.incumbent<bool>(knob) != true) change[knob] = true;
  }
  if (change.empty())
    return sdk::none("batches are page-locked and copied beside the step already");
  if (situation.has_lost(change)) {
    return sdk::none("page-locked memory was tried and was not faster");
  }
  const auto share = situation.metric("step.transfer_ratio");
  if (!share) return sdk::none("the profile does not say how long copying to the GPU takes");
  if (*share < kLeastShare) {
    return sdk::none("copying to the GPU takes only " + sdk::percent(*share) + " of the step");
  }
  return sdk::propose_one(change, situation.expected_gain(change, sdk::gain_without(*share)),
                          reason_of(situation, *share));
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("pinned_memory", "1.0",
                 "Prepares batches in page-locked memory and copies them beside the step.",
                 autotuned::plugins::propose);
