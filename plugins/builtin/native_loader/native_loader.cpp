// SPDX-License-Identifier: Apache-2.0
// Proposes that threads of C++ make the pictures that a script's DataLoader decodes and transforms in Python. This is possible where the
// agent knows everything that makes them (knobs/knob_native.py says where). A trial measures the gain; this policy does not predict it.
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

constexpr const char* kThreads = "loader.native_threads";
constexpr const char* kWorkers = "loader.workers";
// Other settings of the loader change less, so a shorter wait, as a share of the step, is left to them.
constexpr double kMinWait = 0.05;
// The share of the wait that the threads are expected to save. It is low, so that more workers are tried first.
constexpr double kSavedShare = 0.5;

// Returns how many threads would keep up with the step if each were as fast as a process that makes batches now.
std::int64_t threads_wanted(double wait_ratio, std::int64_t workers) {
  const double compute_ratio = std::max(1.0 - wait_ratio, 1e-3);
  const double makers =
      workers == 0 ? wait_ratio / compute_ratio : static_cast<double>(workers) / compute_ratio;
  return static_cast<std::int64_t>(std::ceil(std::clamp(makers, 1.0, 1e6)));
}

std::string count_of_threads(std::int64_t count) {
  return std::to_string(count) + (count == 1 ? " thread" : " threads");
}

Answer propose(const Situation& situation) {
  if (!situation.is_script()) return sdk::none("the loader of a recipe works in such threads");
  std::string obstacle = situation.obstacle(kThreads);
  if (!obstacle.empty()) return sdk::none(std::move(obstacle));
  // On a GPU only a trace shows which waits are hidden by kernels.
  const auto told = situation.first_metric({"parts.data_loading_ratio", "step.data_wait_ratio"});
  if (!told) return sdk::none("the profile does not say how long the step waits for data");
  const double wait = std::clamp(*told, 0.0, 1.0);
  if (wait < kMinWait) {
    return sdk::none("the step waits only " + sdk::percent(wait) + " of its time for data");
  }
  const std::int64_t now = situation.incumbent<std::int64_t>(kThreads).value_or(0);
  const std::int64_t workers = situation.incumbent<std::int64_t>(kWorkers).value_or(0);
  // On a GPU the thread that launches the step needs a CPU of its own.
  const std::int64_t cpus = situation.cpus_allowed() - (situation.is_on_gpu() ? 1 : 0);
  const std::int64_t most =
      std::min(situation.knob(kThreads)->maximum, std::max<std::int64_t>(1, cpus));
  const std::int64_t needed = std::min(most, threads_wanted(wait, workers));
  std::vector<std::int64_t> counts;
  if (now == 0) {
    counts = {needed, needed - 1};
  } else if (now < most) {
    counts = {now + 1};
  }
  const std::string reason =
      "the step waits " + sdk::percent(wait) + " of its time for data" +
      (now == 0 ? ", and threads of C++ make the same samples without Python and its processes"
                : " although " + count_of_threads(now) + " of C++ make it");
  Answer answer;
  for (const std::int64_t count : counts) {
    const sdk::Json change = {{kThreads, count}};
    if (count < 1 || situation.has_lost(change)) continue;
    answer.add(change, situation.expected_gain(change, sdk::gain_without(kSavedShare * wait)),
               reason, wait);
  }
  if (!answer.candidates.empty()) return answer;
  if (now >= most) {
    return sdk::none("each CPU that the step leaves free already has a thread (" +
                     std::to_string(now) + ")");
  }
  return sdk::none(now == 0 ? "threads of C++ were tried and were not faster"
                            : "another thread was tried and was not faster");
}

}  // namespace
}  // namespace autotuned::plugins

AUTOTUNED_PLUGIN("native_loader", "1.0",
                 "Makes the batches of a script's DataLoader by threads of C++.",
                 autotuned::plugins::propose);
