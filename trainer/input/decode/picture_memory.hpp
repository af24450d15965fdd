// SPDX-License-Identifier: Apache-2.0
// What a decoder takes for one picture, kept for the next.
#pragma once

#include <cstddef>

namespace autotuned::input {

// Hands out parts of a block that is as large as the pictures before took together, so that the system is asked
// only where one takes more than all before it. Never throws: decoders are C. One thread at a time.
class PictureMemory {
 public:
  static constexpr std::size_t kAlignment = 64;

  PictureMemory() = default;
  ~PictureMemory() { release(); }
  PictureMemory(const PictureMemory&) = delete;
  PictureMemory& operator=(const PictureMemory&) = delete;

  // Valid until reset(); null where the system has no more.
  [[nodiscard]] void* take(std::size_t bytes) noexcept;
  // What was taken last is used again; all else stays until reset().
  void give_back(void* memory) noexcept;
  // Nothing of it is used any more.
  void reset() noexcept;

 private:
  struct alignas(kAlignment) Block {
    Block* before = nullptr;
    std::size_t bytes = 0;  // behind this
    std::size_t used = 0;
  };

  void release() noexcept;

  Block* last_ = nullptr;  // of those of this picture
  void* taken_last_ = nullptr;
  std::size_t taken_ = 0;       // by this picture
  std::size_t most_taken_ = 0;  // at any time of it: decoders give back before they end
  std::size_t wanted_ = 0;      // for the first block
};

}  // namespace autotuned::input
