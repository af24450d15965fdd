// SPDX-License-Identifier: Apache-2.0
#include "trainer/feed/pinned_cache.hpp"

#include "trainer/common/device.hpp"

namespace autotuned::trainer {

void PinnedCache::make_way_for(const PinnedBlocks& next) {
  if (next != kept_) give_back();
}

void PinnedCache::keep(const PinnedBlocks& left, std::int64_t most_bytes) {
  kept_ = left;
  if (kept_.bytes() > 0 && pinned_memory_bytes(device_) > most_bytes) give_back();
}

void PinnedCache::give_back() {
  if (kept_.bytes() > 0) release_pinned_cache(device_);
  kept_ = {};
}

}  // namespace autotuned::trainer
