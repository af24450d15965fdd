// SPDX-License-Identifier: Apache-2.0
// What stays page-locked between the configurations of a trial, with an allocator of our own in the place that LibTorch
// leaves for devices that it does not know.
#include "trainer/feed/pinned_cache.hpp"

#include <ATen/core/CachingHostAllocator.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "trainer/common/device.hpp"

namespace autotuned::trainer {
namespace {

constexpr const char* kDevice = "privateuseone:0";
constexpr std::int64_t kMax = 1000;

// Gives out nothing; its books are kept by Rings.
class FakeHostAllocator final : public at::HostAllocator {
 public:
  std::int64_t used = 0;
  std::int64_t kept = 0;
  int emptied = 0;

  at::DataPtr allocate(std::size_t /*bytes*/) override { return {}; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }
  bool record_event(void* /*memory*/, void* /*context*/, c10::Stream /*stream*/) override {
    return true;
  }
  void empty_cache() override {
    ++emptied;
    kept = 0;
  }
  at::HostStats get_stats() override {
    at::HostStats stats;
    stats.allocated_bytes.current = used + kept;
    return stats;
  }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

// LibTorch keeps what is set for the life of the process.
FakeHostAllocator& allocator() {
  static auto& made = *[] {
    auto* const one = new FakeHostAllocator();
    at::setHostAllocator(c10::DeviceType::PrivateUse1, one);
    return one;
  }();
  return made;
}

PinnedBlocks ring(std::int64_t image_bytes) {
  return {.batches = 2, .image_bytes = image_bytes, .target_bytes = 0};
}
constexpr PinnedBlocks kNone{};

// Changes rings as a feed does: the next one is allocated while the one before is in use. What is kept serves a ring
// whole or not at all.
class PinnedCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    FakeHostAllocator& fake = allocator();
    fake.used = fake.kept = 0;
    fake.emptied = 0;
  }

  // Returns the bytes that had to be locked.
  std::int64_t change_to(const PinnedBlocks& next, std::int64_t most = kMax) {
    FakeHostAllocator& fake = allocator();
    cache_.make_way_for(next);
    const std::int64_t taken = fake.kept >= next.bytes() ? next.bytes() : 0;
    const std::int64_t locked = next.bytes() - taken;
    fake.kept += present_.bytes() - taken;
    fake.used = next.bytes();
    cache_.keep(present_, most);
    present_ = next;
    return locked;
  }

  PinnedCache cache_{kDevice};
  PinnedBlocks present_;
};

TEST_F(PinnedCacheTest, LocksOnceForARingThatComesAndGoes) {
  EXPECT_EQ(change_to(ring(100)), 200);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(change_to(kNone), 0);
    EXPECT_EQ(pinned_memory_bytes(kDevice), 200);
    EXPECT_EQ(change_to(ring(100)), 0);
    EXPECT_EQ(pinned_memory_bytes(kDevice), 200);
  }
  EXPECT_EQ(allocator().emptied, 0);
}

TEST_F(PinnedCacheTest, LocksOnceForTwoRingsThatTakeTurns) {
  EXPECT_EQ(change_to(ring(100)), 200);
  EXPECT_EQ(change_to(ring(300)), 600);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(change_to(ring(100)), 0);
    EXPECT_EQ(change_to(ring(300)), 0);
    EXPECT_EQ(pinned_memory_bytes(kDevice), 800);
  }
}

TEST_F(PinnedCacheTest, GivesBackWhatAThirdRingDoesNotNeed) {
  change_to(ring(100));
  change_to(ring(300));
  EXPECT_EQ(change_to(ring(50)), 100);
  EXPECT_EQ(pinned_memory_bytes(kDevice), 700) << "the ring of 100 is gone";
  EXPECT_EQ(change_to(kNone), 0);
  EXPECT_EQ(pinned_memory_bytes(kDevice), 100) << "and that of 300";
}

TEST_F(PinnedCacheTest, KeepsNoMoreThanMayBePageLocked) {
  change_to(ring(300));
  change_to(ring(400));
  EXPECT_EQ(pinned_memory_bytes(kDevice), 800) << "600 more would be too much";
  EXPECT_EQ(change_to(ring(300)), 600);
  EXPECT_EQ(pinned_memory_bytes(kDevice), 600);
  // What else is page-locked, such as checkpoints, counts.
  change_to(kNone);
  change_to(ring(300));
  allocator().kept += 500;
  change_to(kNone);
  EXPECT_EQ(pinned_memory_bytes(kDevice), 0);
}

TEST_F(PinnedCacheTest, KeepsNothingWhereTheLimitIsNotKnown) {
  change_to(ring(100), 0);
  change_to(kNone, 0);
  EXPECT_EQ(pinned_memory_bytes(kDevice), 0);
}

TEST_F(PinnedCacheTest, GivesBackOnceWhenAskedTo) {
  cache_.give_back();
  EXPECT_EQ(allocator().emptied, 0) << "there is nothing";
  change_to(ring(100));
  change_to(kNone);
  cache_.give_back();
  EXPECT_EQ(pinned_memory_bytes(kDevice), 0);
  EXPECT_EQ(change_to(ring(100)), 200);
  cache_.give_back();
  EXPECT_EQ(allocator().emptied, 1);
}

TEST_F(PinnedCacheTest, TheCpuHasNone) {
  EXPECT_EQ(pinned_memory_bytes("cpu"), 0);
}

}  // namespace
}  // namespace autotuned::trainer
