// SPDX-License-Identifier: Apache-2.0
// A whole training step that is recorded once and then replayed. Private to trainer/: includes LibTorch.
//
// What is recorded is what the step asks of the device, with the addresses of that moment. So a batch is
// copied to where the recorded one lay, all that changes from step to step lies on the device (optimizer.hpp),
// and nothing in a step may wait for the device or decide by what it computed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "trainer/feed/feed.hpp"
#include "trainer/step/graph_plan.hpp"

namespace autotuned::trainer {

// Records the work of a device: CUDA's graphs (cuda_graph.hpp), or a stand-in in tests. One thread.
class GraphRecorder {
 public:
  GraphRecorder() = default;
  GraphRecorder(const GraphRecorder&) = delete;
  GraphRecorder& operator=(const GraphRecorder&) = delete;
  virtual ~GraphRecorder() = default;

  // Calls `work` without recording it, on the stream that record() uses, so that it keeps its place among other work.
  virtual void run_aside(const std::function<void()>& work) = 0;
  // Calls `work` and records what it asks of the device instead of doing it. An earlier recording is dropped.
  // An exception of `work` is passed on; then nothing is recorded.
  virtual void record(const std::function<void()>& work) = 0;
  // Does what was recorded. REQUIRES: there is a recording.
  virtual void replay() = 0;
  virtual void drop() = 0;
};

class GraphStep {
 public:
  explicit GraphStep(std::unique_ptr<GraphRecorder> recorder);

  // A whole step, which gives the loss.
  using Work = std::function<at::Tensor(const DeviceBatch&)>;
  struct Parts {
    Work work;
    std::function<void()> before_recording;
    std::vector<const void*> memory;  // StepKey::memory
  };

  // The loss, which is the caller's. Throws UnsupportedError (guarded.hpp) when the step cannot be recorded,
  // and what `work` throws otherwise.
  [[nodiscard]] at::Tensor step(const DeviceBatch& batch, const Parts& parts);

  // Lets go of what was recorded and of its memory.
  void drop();

  // What the memory of the recorded step has beyond the tensors that are alive: LibTorch counts it as free, and no other
  // step can have it.
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
