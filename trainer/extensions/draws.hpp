// SPDX-License-Identifier: Apache-2.0
// Draws whose results code of an extension cannot know beforehand. Private to trainer/.
#pragma once

#include <cstdint>

namespace autotuned::trainer {

// Random numbers, from a seed of the kernel. One thread.
class Draws {
 public:
  Draws();

  // Each number with equal probability.
  [[nodiscard]] std::uint64_t next();
  // True once in `count` times on average.
  [[nodiscard]] bool takes_one_of(std::uint64_t count) { return next() % count == 0; }

 private:
  std::uint64_t state_ = 0;
};

// Chooses batches of an evaluation: one of them, and of the others one in sixteen on average. One thread.
class BatchDraws {
 public:
  static constexpr std::uint64_t kBatchesForOne = 16;

  // An evaluation of so many batches begins, or ends.
  void begin(std::int64_t batches);
  void end() { is_on_ = false; }
  // Whether the next batch is chosen; outside of an evaluation never.
  [[nodiscard]] bool takes_next();

 private:
  Draws draws_;
  bool is_on_ = false;
  std::uint64_t chosen_ = 0;  // counted from 0
  std::uint64_t next_ = 0;
};

}  // namespace autotuned::trainer
