// SPDX-License-Identifier: Apache-2.0
// Memory for batches: blocks of one size, which are used again when they come back.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.hpp"

namespace autotuned::input {

struct FreeBlock {
  void operator()(void* memory) const { std::free(memory); }
};
using Block = std::unique_ptr<void, FreeBlock>;

// Any number of threads at once.
class BlockPool {
 public:
  static constexpr std::size_t kAlignmentBytes = 256;  // what DLPack asks for

  // Keeps at most `most_kept` of the blocks that come back, and frees all others. REQUIRES: bytes >= 1.
  BlockPool(std::size_t bytes, std::size_t most_kept);

  // A block with any content. ErrorKind::out_of_memory.
  [[nodiscard]] Result<Block> take();
  // REQUIRES: from take() of this pool.
  void give_back(Block block);

 private:
  const std::size_t bytes_;  // a multiple of the alignment
  const std::size_t most_kept_;
  std::mutex mutex_;  // guards all below
  std::vector<Block> kept_;
};

}  // namespace autotuned::input
