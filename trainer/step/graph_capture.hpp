// SPDX-License-Identifier: Apache-2.0
// Captures a device's work, and undoes a capture that fails. Private to trainer/; depends on neither LibTorch nor CUDA,
// so that tests cover every failure on a CPU.
#pragma once

#include <exception>
#include <functional>

namespace autotuned::trainer {

// The operations of one capture: those of LibTorch (cuda_recorder.cpp), or a fake in tests. Each function may throw.
// LibTorch 2.11 leaves much behind when a capture fails: its allocators go on as if the capture were under way, so that
// the next emptyCache() asserts; they keep the memory of the graph for ever; and its random generator refuses to draw
// outside a capture.
class Capture {
 public:
  Capture() = default;
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  virtual ~Capture() = default;

  // Begins the capture: the stream allocates from a pool of the graph's own, and its work is captured. If it throws, a
  // part of this may be done.
  virtual void begin() = 0;
  // Ends the capture. If it throws, the device no longer captures, but the allocators may still use the pool.
  virtual void end() = 0;

  // The following operations undo parts of begin(). They throw if there is nothing to undo.
  virtual void end_device_pool() = 0;
  virtual void end_host_pool() = 0;
  // Destroys the graph, which may or may not release its pools.
  virtual void destroy_graph() = 0;
  [[nodiscard]] virtual bool holds_pools() = 0;
  virtual void release_device_pool() = 0;
  virtual void release_host_pool() = 0;
  // Restores the random generator to its state before begin().
  virtual void restore_generator() = 0;
};

// Captures the device's work of `work`. Passes on the exceptions of `work` and of the capture, after which nothing of
// the capture is left.
inline void capture_or_undo(Capture& capture, const std::function<void()>& work) {
  const auto try_to = [&capture](void (Capture::*part)()) {
    try {
      (capture.*part)();
    } catch (const std::exception&) {
      // The first failure, that of the capture, is the one that is reported.
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
