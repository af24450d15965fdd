// SPDX-License-Identifier: Apache-2.0
// Proposes a cache of samples if samples repeat often enough, most of them fit, and reading or decoding is a good part
// of what the step waits for. The kind that saves most and fits comes first; a cache that does not fit into memory may
// fit into a file.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

#include "plugins/sdk/plugin.hpp"

namespace autotuned::plugins {
namespace {

using sdk::Answer;
using sdk::Json;
using sdk::Situation;

constexpr const char* kCache = "input.cache";
// A step that waits less than this has nothing to win that could be measured.
constexpr double kMinLoadingRatio = 0.02;
// Work that is a smaller share of a sample than this is not worth memory.
constexpr double kMinSavedRatio = 0.05;
// With room for less of the data than this, most samples are made anew anyway.
constexpr double kMinFittingRatio = 0.2;
// Filling makes every sample once, for the trial; so often must it come for the rest to be a gain.
constexpr double kFewestVisits = 3;

std::string number_text(double value) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), value < 10 ? "%.1f" : "%.0f", value);
  return buffer.data();
}

// Reading from a file costs something, too; a guess, for the order of the trials.
constexpr double kSavedByFile = 0.7;

struct Kind {
  const char* value;
  const char* saved_metric;
  const char* bytes_fact;
  const char* saves;
  const char* file_value;  // null: what is stored is in files anyway
};
// Kinds of cache; those that save more come first.
constexpr std::array kKinds = {
    Kind{"prefix", "input.prefix_ratio", "cache_prefix_bytes",
         "all work before the first random transform", "prefix_file"},
    Kind{"decoded", "input.decode_ratio", "cache_decoded_bytes", "reading and decoding",
         "decoded_file"},
    Kind{"raw", "input.read_ratio", "cache_raw_bytes", "reading", nullptr},
};

// The answer if a cache is in place: what it has cost, and when that is repaid.
Answer in_place(const Situation& situation, const std::string& kind) {
  const double fill_s = situation.metric("input.cache_fill_ns").value_or(0.0) * 1e-9;
  std::string because = "input.cache is " + kind + ": it holds " +
                        sdk::percent(situation.metric("input.cached_ratio").value_or(0.0)) +
                        " of the stored samples in " +
                        sdk::bytes_text(situation.metric("input.cache_bytes").value_or(0.0)) +
                        ", filling took " + number_text(fill_s) + " s";
  const auto samples = static_cast<double>(situation.integer("job", "train_samples"));
  double ratio = 0.0;
  for (const sdk::Trial& trial : situation.trials()) {
    if (trial.is_accepted()) ratio = trial.ratio;
  }
  const double rate = situation.metric("samples_per_second").value_or(0.0);
  if (ratio > 1.0 && rate > 0.0 && samples > 0.0) {
    const double saved_s = samples / rate * (ratio - 1.0);  // in an epoch
    because += "; the cache is repaid after " + number_text(fill_s / saved_s) + " epochs";
  }
  return sdk::none(std::move(because));
}

Answer propose(const Situation& situation) {
  std::string obstacle = situation.obstacle(kCache);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  const std::string now = situation.incumbent<std::string>(kCache).value_or("none");
  if (now != "none") return in_place(situation, now);
  const auto loading = situation.metric("loader.cost_ratio");
  if (!loading) return sdk::none("the profile does not say how long the step waits for data");
  if (*loading < kMinLoadingRatio) {
    return sdk::none("loading costs the step only " + sdk::percent(*loading) + " of its time");
  }
  const auto stored = static_cast<double>(situation.integer("job", "stored_samples"));
  const auto ahead = static_cast<double>(situation.integer("recipe", "train_samples_total"));
  if (stored <= 0.0 || ahead <= 0.0) {
    return sdk::none("the situation does not say how often a sample is used");
  }
  const double visits = ahead / stored;
  if (visits < kFewestVisits) {
    return sdk::none("a stored sample is used " + number_text(visits) +
                     " times in the training, and a cache is worth a trial from " +
                     number_text(kFewestVisits) + " on");
  }

  const auto in_memory = static_cast<double>(situation.integer("job", "cache_allowed_bytes"));
  const auto on_disk = static_cast<double>(situation.integer("job", "cache_disk_allowed_bytes"));
  Answer answer;
  std::string because =
      "reading, decoding and the transforms before the first random one take too little time to "
      "save";
  for (const Kind& kind : kKinds) {
    const double saved = situation.metric(kind.saved_metric).value_or(0.0);
    const auto needed = static_cast<double>(situation.integer("job", kind.bytes_fact));
    if (needed <= 0.0 || saved < kMinSavedRatio) continue;
    const auto add = [&](const char* value, double allowed, double share, const std::string& what,
                         const char* setting) {
      const double fitting = std::min(1.0, allowed / needed);
      const std::string room = sdk::bytes_text(needed) + " of " + what + ", of " +
                               sdk::bytes_text(allowed) + " allowed (" + setting + ")";
      if (fitting < kMinFittingRatio) {
        because = "input.cache: " + std::string(value) + " would need " + room;
        return;
      }
      const Json change = {{kCache, value}};
      if (situation.has_lost(change)) {
        because = "input.cache: " + std::string(value) + " was tried and was not faster";
        return;
      }
      // While the step waits, it waits for samples to be made; without their first part, for less.
      const double gain = sdk::gain_without(*loading * saved * fitting * share);
      std::string reason = std::string(kind.saves) + " takes " + sdk::percent(saved) +
                           " of a sample's time, and each stored sample is used " +
                           number_text(visits) + " times; a cache of all samples needs " + room;
      double expected = situation.expected_gain(change, gain);
      if (fitting < 1.0) {
        reason += ", so that " + sdk::percent(fitting) + " of them fit";
        // An earlier trial may have had room for more.
        expected = std::min(expected, gain);
      }
      answer.add(change, expected, std::move(reason));
    };
    add(kind.value, in_memory, 1.0, "memory", "tune.cache_memory");
    if (kind.file_value != nullptr && needed > in_memory && on_disk > 0.0)
      add(kind.file_value, on_disk, kSavedByFile, "disk space", "tune.cache_disk");
  }
  return answer.candidates.empty() ? sdk::none(std::move(because)) : answer;
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("input_cache", "1.0",
                 "Keeps samples in memory or in a file if they are used often enough and fit.",
                 autotuned::plugins::propose);
