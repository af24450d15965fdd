// SPDX-License-Identifier: Apache-2.0
// Which page-locked memory stays locked when a feed changes its ring. Private to trainer/.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "trainer/feed/feed_size.hpp"

namespace autotuned::trainer {

// LibTorch keeps freed page-locked memory for later. Locking a gigabyte takes half a second, and the two configurations
// of a trial take turns. So the blocks of the ring before the present one are kept, and become the next ring if that
// needs just these. What neither ring needs is given back to the system.
class PinnedCache {
 public:
  explicit PinnedCache(std::string device) : device_(std::move(device)) {}

  // To be called before the blocks of the next ring are allocated: gives back what is kept for another ring.
  void make_way_for(const PinnedBlocks& next);
  // To be called when a ring has been freed and its copies have ended: keeps its blocks, unless this process then has
  // more than `most_bytes` page-locked (0: keeps nothing).
  void keep(const PinnedBlocks& left, std::int64_t most_bytes);
  void give_back();  // does nothing if nothing is kept

 private:
  std::string device_;
  PinnedBlocks kept_;
};

}  // namespace autotuned::trainer
