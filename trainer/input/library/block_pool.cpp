// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/library/block_pool.hpp"

#include <utility>

#include "base/text.hpp"

namespace autotuned::input {

BlockPool::BlockPool(std::size_t bytes, std::size_t most_kept)
    : bytes_((bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes),
      most_kept_(most_kept) {
  kept_.reserve(most_kept);  // so that give_back() cannot fail
}

Result<Block> BlockPool::take() {
  {
    const std::lock_guard guard(mutex_);
    if (!kept_.empty()) {
      Block block = std::move(kept_.back());
      kept_.pop_back();
      return block;
    }
  }
  Block block(std::aligned_alloc(kAlignmentBytes, bytes_));
  if (block == nullptr) {
    return fail(ErrorKind::out_of_memory,
                "no memory for a batch of " + format_bytes(static_cast<std::int64_t>(bytes_)),
                "autotuned.Loader", "use smaller batches, or keep fewer of them");
  }
  return block;
}

void BlockPool::give_back(Block block) {
  const std::lock_guard guard(mutex_);
  if (kept_.size() < most_kept_) kept_.push_back(std::move(block));
}

}  // namespace autotuned::input
