// SPDX-License-Identifier: Apache-2.0
// Samples in memory as they are at some point of their way, so that the way up to there is made once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.hpp"
#include "trainer/input/sample.hpp"

namespace autotuned::input {

// Fills as samples come, until its bytes are used up; what has no room is made anew every time. Memory is taken
// from the system as it fills, none per sample, and given back at the end.
//
// Any number of threads at once, without locks.
class SampleCache {
 public:
  // For stored samples 0 .. items-1 and at most `most_bytes`, its own bookkeeping included.
  // ErrorKind::out_of_memory: there is not even so much address space.
  [[nodiscard]] static Result<std::unique_ptr<SampleCache>> create(std::int64_t items,
                                                                   std::int64_t most_bytes);
  ~SampleCache();
  SampleCache(const SampleCache&) = delete;
  SampleCache& operator=(const SampleCache&) = delete;

  // Its bytes stay where they are as long as this lives. REQUIRES (here and below): 0 <= item < items.
  [[nodiscard]] std::optional<Sample> find(std::int64_t item) const;
  // Copies the sample, unless there is no room or somebody else has kept it or is about to.
  void keep(std::int64_t item, const Sample& sample);
  // The sample is as if it had not been kept, but for its memory.
  void forget(std::int64_t item);
  // Whether keep() may still do something about it.
  [[nodiscard]] bool is_wanted(std::int64_t item) const;

  [[nodiscard]] std::int64_t kept_items() const { return kept_items_.load(); }
  // Of what is kept, with the bookkeeping.
  [[nodiscard]] std::int64_t bytes() const;

 private:
  using Place = std::atomic<std::uint64_t>;  // in the memory, or one of those in the source file

  SampleCache(std::int64_t items, std::uint8_t* memory, std::size_t size);

  std::int64_t items_;
  std::unique_ptr<Place[]> places_;
  std::uint8_t* memory_;  // of the system
  std::size_t size_;
  std::atomic<std::size_t> used_;
  std::atomic<std::int64_t> kept_items_ = 0;
};

}  // namespace autotuned::input
