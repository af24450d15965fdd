// SPDX-License-Identifier: Apache-2.0
// If files are not in memory, each worker waits for storage, one file at a time. Reading ahead reads many at once. It
// helps only while storage is read at all: files that the system keeps in memory are as fast without it.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Situation;

constexpr const char* kReadAhead = "input.read_ahead";
constexpr std::int64_t kFirstBatches = 8;
// A step that waits less than this has nothing to win that could be measured.
constexpr double kMinWaitRatio = 0.02;
// The least share of reading in a sample's time; a smaller share is that of reading from memory.
constexpr double kMinReadRatio = 0.02;
// The part of the waiting for files that the change saves; the storage limits the rest.
constexpr double kSavedShare = 0.5;

// A note about the knob that keeps the files' bytes in memory after the first read.
std::string note(const Situation& situation, double stored_bytes) {
  // Half of the free memory, the default of the recipe: files that fit into it leave enough for the training.
  const auto room = static_cast<double>(situation.integer("job", "cache_allowed_bytes"));
  if (room < stored_bytes) return {};
  return " (all " + sdk::bytes_text(stored_bytes) +
         " fit into memory: with input.cache: raw each file is read from storage once)";
}

Answer propose(const Situation& situation) {
  std::string obstacle = situation.obstacle(kReadAhead);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  const auto stored = static_cast<double>(situation.integer("job", "cache_raw_bytes"));
  if (stored <= 0.0) return sdk::none("the samples are not read from files during the training");
  const auto wait = situation.metric("step.data_wait_ratio");
  const auto reading = situation.metric("input.read_ratio");
  const auto delivered = situation.metric("input.storage_bytes_per_step");
  if (!wait || !reading || !delivered) {
    return sdk::none("the profile does not say how much is read from storage");
  }
  if (*wait < kMinWaitRatio) {
    return sdk::none("the step waits only " + sdk::percent(*wait) + " of its time for data");
  }
  if (*delivered < 1.0) return sdk::none("the operating system has all files in memory");
  if (*reading < kMinReadRatio) {
    return sdk::none("reading files takes only " + sdk::percent(*reading) + " of a sample's time");
  }
  const std::int64_t now = situation.incumbent<std::int64_t>(kReadAhead).value_or(0);
  const std::int64_t next =
      now == 0 ? kFirstBatches : std::min(4 * now, situation.knob(kReadAhead)->maximum);
  if (next <= now) return sdk::none("input.read_ahead has its largest value");
  const sdk::Json change = {{kReadAhead, next}};
  if (situation.has_lost(change)) {
    return sdk::none("reading " + std::to_string(next) +
                     " batches ahead was tried and was not faster" + note(situation, stored));
  }
  const double share = *wait * *reading;
  return sdk::propose_one(
      change, situation.expected_gain(change, sdk::gain_without(kSavedShare * share)),
      "the step waits " + sdk::percent(*wait) + " of its time for data, and reading files takes " +
          sdk::percent(*reading) + " of a sample's time, with " + sdk::bytes_text(*delivered) +
          " from storage in a step" + note(situation, stored),
      share);
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("page_cache", "1.0",
                 "Lets the operating system read files before the loader needs them.",
                 autotuned::plugins::propose);
