// SPDX-License-Identifier: Apache-2.0
// A second job on the same CPUs, for programs that want to know what it does to what they time.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace autotuned::bench {

// A step of work over 8 KiB, `passes` times. Returned so that it cannot be left out.
[[nodiscard]] float busy_step(std::vector<float>& data, int passes);
// Steps per second of a block of steps of `passes`, at least this long.
[[nodiscard]] double run_busy_block(std::vector<float>& data, int passes,
                                    std::chrono::nanoseconds least);
// What the two work on.
[[nodiscard]] std::vector<float> busy_data();

// Threads of this process that are busy on and off, each time for twice to sixty times a block, until the end of the
// object's life.
class Disturbance {
 public:
  Disturbance(int threads, std::chrono::nanoseconds block);
  ~Disturbance();
  Disturbance(const Disturbance&) = delete;
  Disturbance& operator=(const Disturbance&) = delete;

 private:
  std::atomic<bool> is_over_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace autotuned::bench
