// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/sample_cache.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>

#include "base/text.hpp"

namespace autotuned::input {
namespace {

constexpr std::uint64_t kEmpty = 0;
constexpr std::uint64_t kTaken = 1;  // somebody copies it just now, or there is no room
constexpr std::size_t kCacheLineBytes = 64;

// Stands before the bytes of a sample.
struct alignas(kCacheLineBytes) Header {
  Element element = Element::uint8;
  SampleShape shape;
  std::size_t bytes = 0;
  FileStamp stamp;
};

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
}

}  // namespace

Result<std::unique_ptr<SampleCache>> SampleCache::create(std::int64_t items,
                                                         std::int64_t most_bytes) {
  assert(items >= 1 && most_bytes >= 0);
  const std::int64_t left = most_bytes - items * static_cast<std::int64_t>(sizeof(Place));
  // One line more than nothing, so that the system has something to give.
  const std::size_t size =
      kCacheLineBytes + static_cast<std::size_t>(std::max<std::int64_t>(left, 0));
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(ErrorKind::out_of_memory,
                "no address space for " + format_bytes(most_bytes) + " of samples", "input.cache",
                "set tune.cache_memory to less");
  }
  try {
    return std::unique_ptr<SampleCache>(
        new SampleCache(items, static_cast<std::uint8_t*>(memory), size));
  } catch (const std::bad_alloc&) {
    ::munmap(memory, size);
    return fail(ErrorKind::out_of_memory, "no memory for the places of samples", "input.cache",
                "set input.cache to none");
  }
}

// The first line stays unused: no sample has a place that means something else.
SampleCache::SampleCache(std::int64_t items, std::uint8_t* memory, std::size_t size)
    : items_(items),
      places_(new Place[static_cast<std::size_t>(items)]()),
      memory_(memory),
      size_(size),
      used_(kCacheLineBytes) {}

SampleCache::~SampleCache() {
  ::munmap(memory_, size_);
}

std::optional<Sample> SampleCache::find(std::int64_t item) const {
  assert(item >= 0 && item < items_);
  const std::uint64_t place =
      places_[static_cast<std::size_t>(item)].load(std::memory_order_acquire);
  if (place <= kTaken) return std::nullopt;
  const std::uint8_t* const at = memory_ + place;
  const auto* const header = reinterpret_cast<const Header*>(at);
  return Sample{
      header->element, header->shape, {at + sizeof(Header), header->bytes}, {header->stamp}};
}

void SampleCache::forget(std::int64_t item) {
  assert(item >= 0 && item < items_);
  Place& place = places_[static_cast<std::size_t>(item)];
  std::uint64_t kept = place.load(std::memory_order_relaxed);
  // Whoever reads it just now reads on: its bytes stay.
  if (kept > kTaken && place.compare_exchange_strong(kept, kEmpty)) {
    kept_items_.fetch_sub(1, std::memory_order_relaxed);
  }
}

bool SampleCache::is_wanted(std::int64_t item) const {
  assert(item >= 0 && item < items_);
  return places_[static_cast<std::size_t>(item)].load(std::memory_order_relaxed) == kEmpty;
}

void SampleCache::keep(std::int64_t item, const Sample& sample) {
  if (!is_wanted(item)) return;
  Place& place = places_[static_cast<std::size_t>(item)];
  std::uint64_t expected = kEmpty;
  if (!place.compare_exchange_strong(expected, kTaken)) return;
  const std::size_t needed = sizeof(Header) + rounded_up(sample.bytes.size());
  std::size_t at = used_.load(std::memory_order_relaxed);
  do {
    if (needed > size_ - at) return;  // stays taken: it is as large the next time
  } while (!used_.compare_exchange_weak(at, at + needed, std::memory_order_relaxed));
  new (memory_ + at) Header{sample.element, sample.shape, sample.bytes.size(), sample.origin.stamp};
  // An empty sample has no bytes to point at.
  if (!sample.bytes.empty()) {
    std::memcpy(memory_ + at + sizeof(Header), sample.bytes.data(), sample.bytes.size());
  }
  kept_items_.fetch_add(1, std::memory_order_relaxed);
  place.store(at, std::memory_order_release);
}

std::int64_t SampleCache::bytes() const {
  return items_ * static_cast<std::int64_t>(sizeof(Place)) +
         static_cast<std::int64_t>(used_.load(std::memory_order_relaxed) - kCacheLineBytes);
}

}  // namespace autotuned::input
