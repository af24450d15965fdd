// SPDX-License-Identifier: Apache-2.0
// Copies from page-locked memory are faster, and can run beside the step.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kPin = "loader.pin_memory";
constexpr const char* kAsynchronous = "transfer.non_blocking";
// The least share of a step: a smaller one could not be measured.
constexpr double kMinShare = 0.002;
// The part of a waited-for copy that pinning saves: a cautious guess.
constexpr double kSavedByPinning = 0.4;

// The memory of the loader's batches: those that workers load ahead, the one that the step uses and one being copied.
std::string pinned_text(const Situation& situation) {
  const auto bytes = situation.metric("transfer.bytes_per_step");
  const auto workers = situation.incumbent<std::int64_t>("loader.workers");
  const auto prefetch = situation.incumbent<std::int64_t>("loader.prefetch_batches");
  if (!bytes || *bytes <= 0.0 || !workers || !prefetch) return "";
  const auto batches = static_cast<double>(*workers * *prefetch + 2);
  return "; " + format_bytes(std::llround(batches * *bytes)) + " or more would be page-locked";
}

// The cost of the copies of a step.
struct Copies {
  double share = 0.0;    // of the step
  std::string evidence;  // one clause
};

std::optional<Copies> by_trace(const Situation& situation, bool is_pinned) {
  const auto pageable = situation.metric("copies.pageable_ratio");
  const auto exposed = situation.metric("parts.copy_ratio");
  const auto waiting = situation.metric("waiting.synchronous_copy_ratio");
  if (!pageable || !exposed || !waiting) return std::nullopt;
  const double held_up = std::max(*exposed, *waiting);
  // Once memory is page-locked, what is hidden behind kernels costs nothing any more.
  if (is_pinned || *pageable <= held_up) {
    return Copies{held_up,
                  "the step waits for copies for " + sdk::percent(held_up) + " of its time"};
  }
  return Copies{*pageable, "copies from pageable memory to the GPU take " +
                               sdk::percent(*pageable) + " of the step, " + sdk::percent(held_up) +
                               " without other work at the same time"};
}

// A trace saw the copies themselves. What the host spends in handing batches over is the next best.
std::optional<Copies> copies_of(const Situation& situation, bool is_pinned) {
  if (auto copies = by_trace(situation, is_pinned)) return copies;
  const auto share = situation.metric("step.transfer_ratio");
  if (!share) return std::nullopt;
  return Copies{*share,
                "copying batches to the GPU takes " + sdk::percent(*share) + " of the step"};
}

std::string reason_of(const Situation& situation, std::string reason, bool is_beside) {
  if (const auto bytes = situation.metric("transfer.bytes_per_step"); bytes && *bytes > 0.0) {
    reason += " (" + format_bytes(std::llround(*bytes)) + ")";
  }
  const auto pageable = situation.metric("transfer.pageable_ratio");
  if (pageable && *pageable > 0.0) {
    reason += ", " + sdk::percent(*pageable) + " of the bytes from pageable memory";
  }
  reason += is_beside ? "; copies from page-locked memory run during the step"
                      : "; copies from page-locked memory are faster";
  return reason + pinned_text(situation);
}

bool ran_out_of_memory(const Situation& situation, const sdk::Json& change) {
  const std::vector<sdk::Trial> trials = situation.trials();
  return std::ranges::any_of(trials, [&](const sdk::Trial& trial) {
    return trial.change == change && trial.failure == "out_of_memory" &&
           situation.is_against_incumbent(trial);
  });
}

Answer propose(const Situation& situation) {
  if (!situation.is_on_gpu()) {
    const std::string reason = situation.gpu_reason();
    return sdk::none("the job runs on the CPU, where nothing is copied to a GPU" +
                     (reason.empty() ? std::string() : " (" + reason + ")"));
  }
  // A script copies its batches by itself.
  const bool is_copy_ours = situation.knob(kAsynchronous).has_value();
  std::vector<const char*> knobs = {kPin};
  if (is_copy_ours) knobs.push_back(kAsynchronous);
  for (const char* knob : knobs) {
    std::string obstacle = situation.obstacle(knob);
    if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  }
  sdk::Json change = sdk::Json::object();
  for (const char* knob : knobs) {
    if (situation.incumbent<bool>(knob) != true) change[knob] = true;
  }
  if (change.empty())
    return sdk::none("batches are already page-locked and copied during the step");
  const auto copies = copies_of(situation, !change.contains(kPin));
  if (!copies) return sdk::none("the profile does not say how long copies to the GPU take");
  if (copies->share < kMinShare) {
    return sdk::none("copying to the GPU takes only " + sdk::percent(copies->share) +
                     " of the step");
  }
  if (is_copy_ours && !situation.has_lost(change)) {
    return sdk::propose_one(change,
                            situation.expected_gain(change, sdk::gain_without(copies->share)),
                            reason_of(situation, copies->evidence, true));
  }
  // Both together did not help. Pinning alone may: it needs no second landing buffer and no events of copies that run
  // ahead.
  const sdk::Json alone = {{kPin, true}};
  if (!change.contains(kPin) || situation.has_lost(alone)) {
    return sdk::none("page-locked memory was tried and was not faster");
  }
  if (ran_out_of_memory(situation, change)) {
    return sdk::none("page-locked batches need more memory than the trainer has");
  }
  return sdk::propose_one(
      alone, situation.expected_gain(alone, sdk::gain_without(kSavedByPinning * copies->share)),
      reason_of(situation, copies->evidence, false));
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("pinned_memory", "1.2",
                 "Prepares batches in page-locked memory and copies them during the step.",
                 autotuned::plugins::propose);
