// SPDX-License-Identifier: Apache-2.0
// Decides whether the progress that a trainer reports is new: a trainer that repeats itself for ever has hung.
#pragma once

#include <cstdint>
#include <optional>

#include "base/json.hpp"

namespace autotuned::daemon {

// The progress of one request `train` (docs/trainer-protocol.md). A step counts up to the total that was announced
// first, an evaluation by its epoch, a checkpoint by its step; each counts only if it is beyond all before it.
class TrainingAdvance {
 public:
  // Takes a report of the trainer. Returns whether the training has advanced since the reports before.
  [[nodiscard]] bool update(const Json& progress);

 private:
  std::optional<std::int64_t> steps_total_;
  std::int64_t step_ = -1;
  std::int64_t evaluated_epoch_ = -1;
  std::int64_t checkpoint_step_ = -1;
};

}  // namespace autotuned::daemon
