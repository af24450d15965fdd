// SPDX-License-Identifier: Apache-2.0
// Ranks average their gradients in buckets, each as soon as it is full, while the backward pass goes on. The exchange
// of the last bucket overlaps with nothing, and that of a single large bucket not at all. Many small ones cost a
// message each.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kCap = "ddp.bucket_cap_mb";
constexpr const char* kView = "ddp.gradient_as_bucket_view";
// Waits that could not be measured in a trial.
constexpr double kMinExposed = 0.02;
constexpr double kMebibyte = 1024.0 * 1024.0;
// The parts of the wait that fewer messages, or one copy less, may save.
constexpr double kSavedByFewer = 0.25;
constexpr double kSavedByViews = 0.1;

std::int64_t buckets_of(double bytes, std::int64_t cap) {
  return std::max<std::int64_t>(
      1, std::llround(std::ceil(bytes / kMebibyte / static_cast<double>(cap))));
}

std::int64_t cap_for(double bytes, std::int64_t buckets) {
  return std::max<std::int64_t>(
      1, std::llround(std::ceil(bytes / kMebibyte / static_cast<double>(buckets))));
}

std::string number_of_buckets(std::int64_t count) {
  return count == 1 ? "one bucket" : "about " + std::to_string(count) + " buckets";
}

// Tries more buckets, then twice as many, then one: more buckets may overlap enough, and one sends the fewest messages.
std::vector<std::int64_t> caps_to_try(const Situation& situation, double bytes, std::int64_t now) {
  const std::int64_t buckets = buckets_of(bytes, now);
  const std::int64_t most = situation.knob(kCap)->maximum;
  std::vector<std::int64_t> caps;
  for (const std::int64_t wanted : {4 * buckets, 2 * buckets, std::int64_t{1}}) {
    const std::int64_t cap = std::min(cap_for(bytes, wanted), most);
    const bool is_other = buckets_of(bytes, cap) != buckets;
    if (is_other && std::ranges::find(caps, cap) == caps.end()) caps.push_back(cap);
  }
  return caps;
}

// With n buckets about one part in n of the exchange has nothing to hide behind.
double predicted_gain(double exposed, std::int64_t buckets_now, std::int64_t buckets) {
  if (buckets < buckets_now) return sdk::gain_without(kSavedByFewer * exposed);
  const double left = static_cast<double>(buckets_now) / static_cast<double>(buckets);
  return sdk::gain_without(exposed * (1.0 - left));
}

Answer propose(const Situation& situation) {
  std::string obstacle = situation.obstacle(kCap);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  const auto exposed = situation.metric("ranks.exposed_ratio");
  const auto bytes = situation.metric("parameters.bytes");
  const auto now = situation.incumbent<std::int64_t>(kCap);
  if (!exposed || !bytes || !now || *now < 1) {
    return sdk::none("the profile does not say how long ranks wait for gradients");
  }
  const std::int64_t buckets = buckets_of(*bytes, *now);
  const std::string evidence = "a finished backward pass waits " + sdk::percent(*exposed) +
                               " of the step for gradients of other ranks, which come in " +
                               number_of_buckets(buckets);
  if (*exposed < kMinExposed) return sdk::none(evidence);
  Answer answer;
  for (const std::int64_t cap : caps_to_try(situation, *bytes, *now)) {
    const sdk::Json change = {{kCap, cap}};
    if (situation.has_lost(change)) continue;
    answer.add(
        change,
        situation.expected_gain(change, predicted_gain(*exposed, buckets, buckets_of(*bytes, cap))),
        evidence, *exposed);
  }
  const sdk::Json views = {{kView, true}};
  if (situation.obstacle(kView).empty() && !situation.incumbent<bool>(kView).value_or(true) &&
      !situation.has_lost(views)) {
    answer.add(views, situation.expected_gain(views, sdk::gain_without(kSavedByViews * *exposed)),
               evidence + ", and are copied out of them", *exposed);
  }
  if (!answer.candidates.empty()) return answer;
  return sdk::none(evidence + "; there is no other size left to try");
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("gradient_buckets", "1.0",
                 "Chooses how many gradients ranks average at a time during the backward pass.",
                 autotuned::plugins::propose);
