// SPDX-License-Identifier: Apache-2.0
// Notices that another rank has left the group, which does not show on a GPU: kernels of NCCL wait for it for ever.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "trainer/ranks/fault_limits.hpp"

namespace autotuned::trainer {

// Watches connections over which nothing is said. Each closes when the rank at its other end leaves the group or ends.
// A thread of its own; the functions are for one other thread.
class LostRankWatch {
 public:
  struct Tie {
    int connection = -1;  // stays open while the watch lives
    std::string rank;     // "rank 2 of 3"
  };

  // `end_exchange` is called once, on another thread, when the first of the ties has closed. It lets this rank's kernels
  // end. If it takes longer than `limit`, or if this rank was still joining the group and has not left it by then,
  // nothing else helps: `end_process` is called.
  LostRankWatch(std::vector<Tie> ties, std::function<void()> end_exchange,
                std::chrono::milliseconds limit = kExchangeEndLimit,
                std::function<void()> end_process = end_this_process);
  ~LostRankWatch();
  LostRankWatch(const LostRankWatch&) = delete;
  LostRankWatch& operator=(const LostRankWatch&) = delete;

  // This rank has joined the group: from now on it waits for others in kernels only.
  void joined();
  // The rank that has left first; empty if all are there.
  [[nodiscard]] std::string lost() const;

 private:
  static void end_this_process();
  void look();
  void lose(const std::string& rank);

  std::vector<Tie> ties_;
  std::function<void()> end_exchange_;
  std::chrono::milliseconds limit_;
  std::function<void()> end_process_;
  Descriptor over_;  // becomes readable at the end
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_joined_ = false;
  bool is_over_ = false;
  bool has_ended_exchange_ = false;
  std::string lost_;
  std::thread thread_;
};

}  // namespace autotuned::trainer
