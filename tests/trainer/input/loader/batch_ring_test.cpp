// SPDX-License-Identifier: Apache-2.0
// The orders of events that threads may produce, one at a time.
#include "trainer/input/loader/batch_ring.hpp"

#include <gmock/gmock.h>

#include <cstdint>
#include <vector>

namespace autotuned::input {
namespace {

using testing::ElementsAre;

LoaderSettings settings(std::int64_t batch_size, std::size_t slots) {
  LoaderSettings result{.batch_size = batch_size};
  result.ring.resize(slots);
  return result;
}

BatchRing ring_of(std::int64_t samples, std::int64_t batch_size, std::size_t slots) {
  BatchRing ring(samples, {.is_shuffled = false});
  ring.configure(settings(batch_size, slots), {});
  return ring;
}

Result<void> broken(const char* where) {
  return fail(ErrorKind::io, "cannot read", where);
}

void finish(BatchRing& ring, const BatchRing::Chunk& chunk, Result<void> written) {
  if (ring.fill(chunk, std::move(written))) ring.complete(chunk.slot);
}

TEST(BatchRing, SharesTheBatchThatIsNeededFirst) {
  BatchRing ring = ring_of(100, 8, 2);
  const auto first = ring.claim(3);
  const auto second = ring.claim(100);
  const auto third = ring.claim(3);
  EXPECT_THAT(first.indices, ElementsAre(0, 1, 2));
  EXPECT_THAT(second.indices, ElementsAre(3, 4, 5, 6, 7));
  EXPECT_EQ(second.begin, 3);
  EXPECT_EQ(second.slot, first.slot);
  EXPECT_THAT(third.indices, ElementsAre(8, 9, 10));
  EXPECT_NE(third.slot, first.slot);
}

TEST(BatchRing, TakesAnotherBufferForASlot) {
  BatchRing ring = ring_of(100, 4, 1);
  const auto first = ring.claim(4);
  finish(ring, first, {});
  std::uint8_t memory = 0;
  const BatchBuffer other{.images = &memory};
  ring.release(ring.deliver()->slot, &other);
  EXPECT_EQ(first.buffer.images, nullptr);
  const auto second = ring.claim(4);
  EXPECT_EQ(second.slot, first.slot);
  EXPECT_EQ(second.buffer.images, &memory);
}

TEST(BatchRing, DeliversInOrderHoweverThreadsFinish) {
  BatchRing ring = ring_of(100, 4, 3);
  const auto a = ring.claim(2);
  const auto b = ring.claim(2);
  const auto c = ring.claim(4);
  finish(ring, c, {});
  finish(ring, b, {});
  EXPECT_FALSE(ring.is_next_ready());
  EXPECT_EQ(ring.ready_count(), 1);
  finish(ring, a, {});
  ASSERT_TRUE(ring.is_next_ready());
  EXPECT_EQ(ring.deliver()->slot, a.slot);
  EXPECT_EQ(ring.position(), (Position{0, 4}));
  EXPECT_EQ(ring.deliver()->slot, c.slot);
  EXPECT_FALSE(ring.is_next_ready());
  EXPECT_TRUE(ring.can_be_ready());
}

TEST(BatchRing, BeginsOnlyAsManyBatchesAsThereAreSlots) {
  BatchRing ring = ring_of(100, 4, 2);
  finish(ring, ring.claim(4), {});
  finish(ring, ring.claim(4), {});
  EXPECT_FALSE(ring.can_claim());
  const auto first = ring.deliver();
  const auto second = ring.deliver();
  EXPECT_FALSE(ring.can_be_ready());  // the caller holds every slot
  ring.release(second->slot);
  EXPECT_EQ(ring.claim(4).slot, second->slot);
  EXPECT_FALSE(ring.can_claim());
  ring.release(first->slot);
  EXPECT_TRUE(ring.can_claim());
}

TEST(BatchRing, ABatchThatCannotBeFinishedFails) {
  BatchRing ring = ring_of(100, 8, 2);
  const auto chunk = ring.claim(8);
  ASSERT_TRUE(ring.fill(chunk, {}));
  ring.complete(chunk.slot, broken("finish"));
  ASSERT_TRUE(ring.is_next_ready());
  EXPECT_EQ(ring.deliver().error().where, "finish");
  EXPECT_EQ(ring.ready_count(), 0);
  EXPECT_FALSE(ring.can_claim());
  ring.seek({0, 0});
  finish(ring, ring.claim(8), {});
  EXPECT_TRUE(ring.deliver());
}

TEST(BatchRing, TakesBatchesThatAreGiven) {
  BatchRing ring(100, {.is_given = true});
  ring.configure(settings(4, 2), {});
  EXPECT_FALSE(ring.can_claim());
  EXPECT_FALSE(ring.can_be_ready());
  ring.give({3, 200}, std::vector<std::uint32_t>{7, 7, 99});
  ring.give({3, 203}, std::vector<std::uint32_t>{1, 0, 2, 5});
  ASSERT_TRUE(ring.can_claim());
  const auto first = ring.claim(2);
  EXPECT_THAT(first.indices, ElementsAre(7, 7));
  EXPECT_EQ(first.position, (Position{3, 200}));
  const auto rest = ring.claim(9);
  EXPECT_THAT(rest.indices, ElementsAre(99));
  EXPECT_EQ(rest.position, (Position{3, 202}));
  const auto second = ring.claim(9);
  EXPECT_THAT(second.indices, ElementsAre(1, 0, 2, 5));
  EXPECT_FALSE(ring.can_claim());
  finish(ring, second, {});
  finish(ring, first, {});
  finish(ring, rest, {});
  const auto delivered = ring.deliver();
  ASSERT_TRUE(delivered);
  EXPECT_EQ(delivered->samples, 3);
  EXPECT_FALSE(delivered->ends_epoch);
  EXPECT_EQ(ring.deliver()->samples, 4);
  ring.give({4, 0}, std::vector<std::uint32_t>{8});
  ring.seek({});
  EXPECT_FALSE(ring.can_claim());  // it was forgotten
}

TEST(BatchRing, NamesTheFirstSampleThatFailed) {
  for (const bool is_reversed : {false, true}) {
    BatchRing ring = ring_of(100, 8, 2);
    const auto a = ring.claim(2);
    const auto b = ring.claim(2);
    const auto c = ring.claim(4);
    finish(ring, is_reversed ? c : b, broken(is_reversed ? "c" : "b"));
    finish(ring, is_reversed ? b : c, broken(is_reversed ? "b" : "c"));
    EXPECT_FALSE(ring.is_next_ready());
    finish(ring, a, {});
    ASSERT_TRUE(ring.is_next_ready());
    EXPECT_EQ(ring.deliver().error().where, "b");
    EXPECT_EQ(ring.deliver().error().where, "b");
    EXPECT_EQ(ring.ready_count(), 0);
    EXPECT_EQ(ring.position(), (Position{0, 0}));
    EXPECT_FALSE(ring.can_claim());  // nothing begins behind a failure
    ring.seek({0, 8});
    EXPECT_THAT(ring.claim(1).indices, ElementsAre(8));
  }
}

}  // namespace
}  // namespace autotuned::input
