// SPDX-License-Identifier: Apache-2.0
// Decides when a step is recorded as a graph and when it is replayed. Does not use LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace autotuned::trainer {

// What must be equal for a recorded step to be replayed: a graph reads and writes the addresses with which it was
// recorded.
struct StepKey {
  std::vector<std::int64_t> batch;  // sizes, strides and types
  std::vector<const void*>
      memory;  // of parameters, buffers, optimizer and loss scaler; null: not there yet

  friend bool operator==(const StepKey&, const StepKey&) = default;
};

// Keeps one graph at a time, of the usual batch. A different step, such as the short last batch of an epoch, runs
// without a graph and the graph stays; after kRunsBefore equal ones in a row, the next one is recorded instead.
class GraphPlan {
 public:
  enum class Action {
    run,     // kernel by kernel
    record,  // anew, then replay; what was recorded before is dropped
    replay,
  };

  // This many equal steps run first: in them the optimizer makes its state, libraries choose their algorithms, and
  // TorchScript specialises its code in the second and third run. None of that can be recorded.
  static constexpr int kRunsBefore = 4;

  // What to do for the next step. Counts that step as made.
  [[nodiscard]] Action next(StepKey key) {
    if (recorded_ && *recorded_ == key) {
      runs_ = 0;
      return Action::replay;
    }
    if (runs_ == 0 || last_ != key) {
      runs_ = 0;
      last_ = std::move(key);
    }
    if (runs_ < kRunsBefore) {
      ++runs_;
      return Action::run;
    }
    runs_ = 0;
    recorded_ = std::move(last_);
    return Action::record;
  }

  // To be called when the recording was dropped, or failed.
  void forget() {
    recorded_.reset();
    runs_ = 0;
  }

 private:
  std::optional<StepKey> recorded_;
  StepKey last_;  // of the latest runs
  int runs_ = 0;  // in a row, with that key
};

}  // namespace autotuned::trainer
