// SPDX-License-Identifier: Apache-2.0
// A training that writes its checkpoints itself stands still for storage. A thread can write a copy of the
// state instead; the copy is what is left.
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kAsync = "checkpoint.async";
constexpr double kMinShare = 0.001;
// The thread needs a CPU for a part of it.
constexpr double kSavedShare = 0.8;
// A block of a trial lasts until the next checkpoint is due, up to this (daemon/trainers/trainer_backend.cpp).
constexpr double kMaxSecondsBetween = 10.0;

std::string seconds_text(double seconds) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, seconds < 0.1 ? "%.3f s" : "%.1f s", seconds);
  return buffer;
}

Answer propose(const Situation& situation) {
  std::string obstacle = situation.obstacle(kAsync);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  if (situation.incumbent<bool>(kAsync).value_or(false)) {
    return sdk::none("checkpoints are already written during the training");
  }
  const auto ratio = situation.metric("train.checkpoint_ratio");
  const double copying = situation.metric("checkpoint.copy_ns").value_or(0.0);
  const double writing = situation.metric("checkpoint.write_ns").value_or(0.0);
  const auto every = static_cast<double>(situation.integer("recipe", "checkpoint_every_ns")) * 1e-9;
  if (!ratio || writing <= 0.0 || every <= 0.0) {
    return sdk::none("the profile does not say what a checkpoint costs");
  }
  const double share = *ratio * writing / (copying + writing);
  const std::string evidence = "writing checkpoints takes " + sdk::percent(share) +
                               " of the training's time, " + seconds_text(writing * 1e-9) +
                               " every " + seconds_text(every) +
                               " (output.checkpoint_every), and copying the state for a thread " +
                               seconds_text(copying * 1e-9);
  if (share < kMinShare) return sdk::none(evidence);
  if (every > kMaxSecondsBetween) {
    return sdk::none(evidence + "; a trial cannot measure anything that rare; " + kAsync +
                     ": on under start sets it without a trial");
  }
  const sdk::Json change = {{kAsync, true}};
  if (situation.has_lost(change)) {
    return sdk::none("writing checkpoints during the training was tried and was not faster");
  }
  return sdk::propose_one(change,
                          situation.expected_gain(change, sdk::gain_without(kSavedShare * share)),
                          evidence, share);
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("async_checkpoint", "1.0", "Writes checkpoints during the training.",
                 autotuned::plugins::propose);
