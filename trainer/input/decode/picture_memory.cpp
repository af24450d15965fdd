// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/decode/picture_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

namespace autotuned::input {
namespace {

constexpr std::size_t kMinBlockBytes = std::size_t{32} << 10U;
// The most memory that is kept between pictures; otherwise every thread would hold that of the largest picture for
// ever.
constexpr std::size_t kMaxKeptBytes = std::size_t{64} << 20U;
constexpr std::size_t kMaxBytes = std::numeric_limits<std::size_t>::max() / 4;

}  // namespace

void* PictureMemory::take(std::size_t bytes) noexcept {
  if (bytes > kMaxBytes) return nullptr;
  bytes = std::max((bytes + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
  if (last_ == nullptr || bytes > last_->bytes - last_->used) {
    const std::size_t block_bytes =
        std::max({bytes, kMinBlockBytes, last_ == nullptr ? wanted_ : 0});
    void* const memory = std::aligned_alloc(kAlignment, sizeof(Block) + block_bytes);
    if (memory == nullptr) return nullptr;
    last_ = new (memory) Block{last_, block_bytes, 0};
  }
  taken_last_ = reinterpret_cast<std::uint8_t*>(last_ + 1) + last_->used;
  last_->used += bytes;
  taken_ += bytes;
  most_taken_ = std::max(most_taken_, taken_);
  return taken_last_;
}

void PictureMemory::give_back(void* memory) noexcept {
  if (memory == nullptr || memory != taken_last_) return;
  const auto at = static_cast<std::size_t>(static_cast<std::uint8_t*>(memory) -
                                           reinterpret_cast<std::uint8_t*>(last_ + 1));
  taken_ -= last_->used - at;
  last_->used = at;
  taken_last_ = nullptr;
}

void PictureMemory::reset() noexcept {
  const bool is_one_block = last_ != nullptr && last_->before == nullptr;
  if (is_one_block && last_->bytes <= kMaxKeptBytes) {
    last_->used = 0;
  } else if (last_ != nullptr) {
    wanted_ = most_taken_ <= kMaxKeptBytes ? most_taken_ : 0;
    release();
  }
  taken_ = 0;
  most_taken_ = 0;
  taken_last_ = nullptr;
}

void PictureMemory::release() noexcept {
  while (last_ != nullptr)
    std::free(std::exchange(last_, last_->before));
}

}  // namespace autotuned::input
