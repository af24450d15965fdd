// SPDX-License-Identifier: Apache-2.0
// A device's memory under LibTorch's caching allocator, by its documented rules: blocks are rounded to 512 bytes, come
// out of segments of 2 MiB, 20 MiB or more, are split and merged, and stay cached. What is cached in pieces is lost
// to larger blocks until whole segments are free: that is fragmentation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <list>
#include <map>
#include <utility>

namespace autotuned::plugins {

class DeviceMemory {
 public:
  explicit DeviceMemory(std::int64_t capacity_bytes) : capacity_(capacity_bytes) {}

  // A handle; 0: out of memory, and nothing has changed but that unused segments were given back.
  [[nodiscard]] int allocate(std::int64_t bytes) {
    const std::int64_t size = std::max<std::int64_t>(512, (bytes + 511) / 512 * 512);
    if (!take(size) && !(reserve(size) && take(size)) &&
        !(give_back() && reserve(size) && take(size))) {
      return 0;
    }
    // With what is too little to be split off.
    allocated_ += blocks_.at(last_handle_).second->bytes;
    peak_ = std::max(peak_, allocated_);
    return last_handle_;
  }
  void free(int handle) {
    const auto [segment, block] = blocks_.at(handle);
    blocks_.erase(handle);
    allocated_ -= block->bytes;
    block->handle = 0;
    merge(*segment, block);
  }
  // Segments without a block in use go back to the device. Whether there were any.
  bool give_back() {
    const auto unused = [](const Segment& segment) {
      return segment.blocks.size() == 1 && segment.blocks.front().handle == 0;
    };
    const std::int64_t before = reserved_;
    for (const Segment& segment : segments_)
      if (unused(segment)) reserved_ -= segment.blocks.front().bytes;
    segments_.remove_if(unused);
    return reserved_ < before;
  }

  void reset_peak() { peak_ = allocated_; }
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_; }
  [[nodiscard]] std::int64_t reserved_bytes() const { return reserved_; }
  [[nodiscard]] std::int64_t allocated_bytes() const { return allocated_; }

 private:
  static constexpr std::int64_t kMiB = 1 << 20;
  struct Block {
    std::int64_t bytes = 0;
    int handle = 0;  // 0: free
  };
  struct Segment {
    bool is_small = false;
    std::list<Block> blocks;  // in the order of their addresses
  };
  using BlockPlace = std::list<Block>::iterator;

  // The smallest free block that fits, split where enough is left.
  bool take(std::int64_t size) {
    Segment* segment = nullptr;
    BlockPlace best;
    for (Segment& one : segments_) {
      if (one.is_small != (size <= kMiB)) continue;
      for (auto block = one.blocks.begin(); block != one.blocks.end(); ++block) {
        if (block->handle != 0 || block->bytes < size) continue;
        if (segment != nullptr && best->bytes <= block->bytes) continue;
        segment = &one;
        best = block;
      }
    }
    if (segment == nullptr) return false;
    const std::int64_t left = best->bytes - size;
    if (left >= (segment->is_small ? 512 : kMiB + 1)) {
      best->bytes = size;
      segment->blocks.insert(std::next(best), {.bytes = left});
    }
    best->handle = ++last_handle_;
    blocks_[best->handle] = {segment, best};
    return true;
  }
  bool reserve(std::int64_t size) {
    const std::int64_t bytes = size <= kMiB       ? 2 * kMiB
                               : size < 10 * kMiB ? 20 * kMiB
                                                  : (size + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
    if (reserved_ + bytes > capacity_) return false;
    reserved_ += bytes;
    segments_.push_back({.is_small = size <= kMiB, .blocks = {{.bytes = bytes}}});
    return true;
  }
  static void merge(Segment& segment, BlockPlace block) {
    if (block != segment.blocks.begin() && std::prev(block)->handle == 0) {
      block->bytes += std::prev(block)->bytes;
      segment.blocks.erase(std::prev(block));
    }
    const auto next = std::next(block);
    if (next != segment.blocks.end() && next->handle == 0) {
      block->bytes += next->bytes;
      segment.blocks.erase(next);
    }
  }

  std::int64_t capacity_;
  std::int64_t reserved_ = 0;
  std::int64_t allocated_ = 0;
  std::int64_t peak_ = 0;
  int last_handle_ = 0;
  std::list<Segment> segments_;
  std::map<int, std::pair<Segment*, BlockPlace>> blocks_;
};

}  // namespace autotuned::plugins
