// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/smaller_training.hpp"

#include <algorithm>
#include <cstdint>

namespace autotuned::daemon {
namespace {

constexpr const char* kBatchSize = "batch_size";

bool has_measured(const TrialRecord& trial) {
  return trial.estimate.pairs > 0 && trial.verdict != Verdict::failed &&
         trial.rejection != RejectionReason::not_same_model;
}

}  // namespace

std::optional<Configuration> after_out_of_memory(const Configuration& failed,
                                                 const Configuration& starting,
                                                 const std::vector<TrialRecord>& trials) {
  const std::int64_t size = failed.integer(kBatchSize);
  std::int64_t next = 0;
  const auto consider = [&](const Configuration& measured) {
    if (measured.find(kBatchSize) == nullptr) return;
    const std::int64_t other = measured.integer(kBatchSize);
    if (other < size) next = std::max(next, other);
  };
  consider(starting);
  for (const TrialRecord& trial : trials) {
    if (has_measured(trial)) consider(trial.reference.with(trial.change));
  }
  if (next > 0) {
    Configuration smaller = failed;
    smaller.set(kBatchSize, next);
    return smaller;
  }
  if (failed != starting && starting.integer(kBatchSize) <= size) return starting;
  return std::nullopt;
}

}  // namespace autotuned::daemon
