// SPDX-License-Identifier: Apache-2.0
// A capture of a device's work that is undone when it fails. Private to trainer/; knows neither LibTorch nor CUDA,
// so that tests show every failure on a CPU.
#pragma once

#include <exception>
#include <functional>

namespace autotuned::trainer {

// The parts of one capture: those of LibTorch (cuda_recorder.cpp), or a stand-in in tests. Each function may throw.
// LibTorch 2.11 leaves much behind when a capture fails: its allocators go on as if the capture were under way, so
// that the next emptyCache() asserts; they keep the memory of the graph for ever; and its random generator refuses
// to draw outside a capture.
class Capture {
 public:
  Capture() = default;
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  virtual ~Capture() = default;

  // What the stream allocates comes from a pool of the graph's own from now on, and what it is asked to do is
  // captured. A part of that is done when it throws.
  virtual void begin() = 0;
  // The opposite. The device no longer captures when it throws; the allocators may do as before.
  virtual void end() = 0;

  // These throw where there is nothing to undo.
  virtual void end_device_pool() = 0;
  virtual void end_host_pool() = 0;
  // Destroys the graph, which may or may not release its pools.
  virtual void destroy_graph() = 0;
  [[nodiscard]] virtual bool holds_pools() = 0;
  virtual void release_device_pool() = 0;
  virtual void release_host_pool() = 0;
  // Random numbers go on from where they were before begin().
  virtual void restore_generator() = 0;
};

// Captures what `work` asks of the device. What `work` or the capture throws comes out; nothing of the capture is left
// then.
inline void capture_or_undo(Capture& capture, const std::function<void()>& work) {
  const auto try_to = [&capture](void (Capture::*part)()) {
    try {
      (capture.*part)();
    } catch (const std::exception&) {
      // The failure of the capture is what is told.
    }
  };
  bool has_worked = false;
  try {
    capture.begin();
    work();
    has_worked = true;
    capture.end();
  } catch (...) {
    if (!has_worked) try_to(&Capture::end);
    try_to(&Capture::end_device_pool);
    try_to(&Capture::end_host_pool);
    try_to(&Capture::destroy_graph);
    bool holds_pools = false;
    try {
      holds_pools = capture.holds_pools();
    } catch (const std::exception&) {
      // An allocator that cannot tell has no such pools.
    }
    if (holds_pools) {
      try_to(&Capture::release_device_pool);
      try_to(&Capture::release_host_pool);
    }
    try_to(&Capture::restore_generator);
    throw;
  }
}

}  // namespace autotuned::trainer
