// SPDX-License-Identifier: Apache-2.0
// The memory of a decoder, kept from one picture to the next.
#pragma once

#include <cstddef>

namespace autotuned::input {

// Allocates from one block that is as large as the largest need of a picture before, so the system is asked only if a
// picture needs more than all before it. Never throws: decoders are C. One thread at a time.
class PictureMemory {
 public:
  static constexpr std::size_t kAlignment = 64;

  PictureMemory() = default;
  ~PictureMemory() { release(); }
  PictureMemory(const PictureMemory&) = delete;
  PictureMemory& operator=(const PictureMemory&) = delete;

  // Valid until reset(); null: out of memory.
  [[nodiscard]] void* take(std::size_t bytes) noexcept;
  // Frees the last allocation; all others stay until reset().
  void give_back(void* memory) noexcept;
  // Frees all allocations.
  void reset() noexcept;

 private:
  struct alignas(kAlignment) Block {
    Block* before = nullptr;
    std::size_t bytes = 0;  // behind this
    std::size_t used = 0;
  };

  void release() noexcept;

  Block* last_ = nullptr;  // of this picture's blocks
  void* taken_last_ = nullptr;
  std::size_t taken_ = 0;       // by this picture
  std::size_t most_taken_ = 0;  // at any time of it: decoders give back before they end
  std::size_t wanted_ = 0;      // for the first block
};

}  // namespace autotuned::input
