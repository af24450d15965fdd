// SPDX-License-Identifier: Apache-2.0
// A whole training step that is recorded once and then replayed. Private to trainer/: includes LibTorch.
//
// A recording holds the device's work of a step, with its memory addresses. So each batch is copied to the memory of
// the recorded one, everything that changes from step to step is on the device (optimizer.hpp), and nothing in a step
// may wait for the device or depend on its results.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "trainer/feed/feed.hpp"
#include "trainer/step/graph_plan.hpp"

namespace autotuned::trainer {

// Records the work of a device: CUDA's graphs (cuda_graph.hpp), or a fake in tests. One thread.
class GraphRecorder {
 public:
  GraphRecorder() = default;
  GraphRecorder(const GraphRecorder&) = delete;
  GraphRecorder& operator=(const GraphRecorder&) = delete;
  virtual ~GraphRecorder() = default;

  // Calls `work` without recording it, on the stream that record() uses, so that it stays in order with other work.
  virtual void run_aside(const std::function<void()>& work) = 0;
  // Calls `work` and records its device work instead of executing it. Drops an earlier recording. An exception of
  // `work` is passed on; then nothing is recorded.
  virtual void record(const std::function<void()>& work) = 0;
  // Executes the recording. REQUIRES: there is one.
  virtual void replay() = 0;
  virtual void drop() = 0;
};

class GraphStep {
 public:
  explicit GraphStep(std::unique_ptr<GraphRecorder> recorder);

  // Makes a whole step and returns the loss.
  using Work = std::function<at::Tensor(const DeviceBatch&)>;
  struct Parts {
    Work work;
    std::function<void()> before_recording;
    std::vector<const void*> memory;  // StepKey::memory
  };

  // Makes a step and returns the loss, which the caller owns. Throws UnsupportedError (guarded.hpp) if the step cannot
  // be recorded, and the exceptions of `work`.
  [[nodiscard]] at::Tensor step(const DeviceBatch& batch, const Parts& parts);

  // Frees the recording and its memory.
  void drop();

  // The memory of the recorded step beyond the tensors that are alive, in bytes: LibTorch counts it as free, but no
  // other step can use it.
  [[nodiscard]] std::int64_t held_bytes() const { return held_bytes_; }

 private:
  void record(const DeviceBatch& batch, const Parts& parts);

  std::unique_ptr<GraphRecorder> recorder_;
  GraphPlan plan_;
  DeviceBatch batch_;  // that of the recorded step
  at::Tensor loss_;    // written by it
  std::int64_t held_bytes_ = 0;
};

}  // namespace autotuned::trainer
