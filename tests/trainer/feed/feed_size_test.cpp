// SPDX-License-Identifier: Apache-2.0
// The arithmetic of page-locked memory, which no CPU can show.
#include "trainer/feed/feed_size.hpp"

#include <gmock/gmock.h>

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

input::Pipeline compiled(input::PointOps point_ops) {
  constexpr input::SampleShape kShape{.channels = 3, .height = 224, .width = 224};
  const std::vector<input::Transform> transforms = {{"rgb_to_yuv"}};
  auto pipeline = input::Pipeline::compile(input::type_of(input::Element::uint8, kShape),
                                           transforms, 1, {.point_ops = point_ops});
  EXPECT_TRUE(pipeline);
  return pipeline ? std::move(*pipeline) : input::Pipeline();
}

class FeedSize : public testing::Test {
 protected:
  const input::Pipeline first_ = compiled(input::PointOps::per_sample);
};

FeedSettings pinned(int workers, int prefetch) {
  return {.workers = workers,
          .prefetch_batches = prefetch,
          .batch_size = 64,
          .pin_memory = true,
          .non_blocking = true};
}

TEST_F(FeedSize, CountsTheBatchesOnTheHost) {
  EXPECT_EQ(host_batches(pinned(0, 2), true), 2);
  EXPECT_EQ(host_batches(pinned(8, 2), true), 18);
  EXPECT_EQ(host_batches(pinned(8, 2), false), 17);
  FeedSettings waiting = pinned(8, 2);
  waiting.non_blocking = false;
  EXPECT_EQ(host_batches(waiting, true), 17);
}

TEST_F(FeedSize, CountsWhatIsPageLockedInPowersOfTwo) {
  // 64 x 3 x 224 x 224 x 4 bytes are 36.75 MiB, which becomes 64 MiB; 64 labels are 512 bytes.
  constexpr std::int64_t kBatch = (std::int64_t{64} << 20) + 512;
  EXPECT_EQ(pinned_blocks(pinned(8, 2), first_, true).bytes(), 18 * kBatch);
  EXPECT_EQ(pinned_blocks(pinned(8, 2), first_, false).bytes(), 0);
  FeedSettings settings = pinned(8, 2);
  settings.is_uint8 = true;
  EXPECT_EQ(pinned_blocks(settings, first_, true).bytes(), 18 * ((std::int64_t{16} << 20) + 512));
  settings.pin_memory = false;
  EXPECT_EQ(pinned_blocks(settings, first_, true).bytes(), 0);
}

// A pipeline that leaves the rest to the device gives bytes whatever else is set.
TEST_F(FeedSize, CountsBytesWhereNumbersAreMadeBehindTheTransfer) {
  const input::Pipeline on_device = compiled(input::PointOps::device);
  const input::Pipeline fused = compiled(input::PointOps::fused);
  FeedSettings settings = pinned(8, 2);
  settings.is_uint8 = true;
  const std::int64_t bytes = pinned_blocks(settings, first_, true).bytes();
  settings.is_uint8 = false;
  settings.pipeline = &on_device;
  EXPECT_TRUE(sends_bytes(settings, first_));
  EXPECT_EQ(pinned_blocks(settings, first_, true).bytes(), bytes);
  settings.pipeline = &fused;
  EXPECT_FALSE(sends_bytes(settings, first_));
  EXPECT_GT(pinned_blocks(settings, first_, true).bytes(), bytes);
}

// Also where the feed was created with such a form, and no other is asked for.
TEST_F(FeedSize, AsksTheFirstPipelineWhereNoOtherIsNamed) {
  FeedSettings settings = pinned(8, 2);
  EXPECT_EQ(sample_bytes(settings, first_), 3 * 224 * 224 * 4 + 8);
  EXPECT_EQ(sample_bytes(settings, first_, {input::TargetKind::numbers, 5}),
            3 * 224 * 224 * 4 + 5 * 4);
  const input::Pipeline on_device = compiled(input::PointOps::device);
  EXPECT_TRUE(sends_bytes(settings, on_device));
  EXPECT_EQ(sample_bytes(settings, on_device), 3 * 224 * 224 + 8);
  EXPECT_LT(pinned_blocks(settings, on_device, true).bytes(),
            pinned_blocks(settings, first_, true).bytes());
  settings.pipeline = &first_;
  EXPECT_FALSE(sends_bytes(settings, on_device));
}

TEST_F(FeedSize, AQuarterOfTheMemoryIsTheMost) {
  FeedSettings settings = pinned(8, 2);
  settings.memory_allowed_bytes = std::int64_t{4} << 30;
  const auto refused = check_pinned_bytes(settings, first_, true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::out_of_memory);
  EXPECT_THAT(
      refused.error().message(),
      HasSubstr("loader.pin_memory: 18 batches would page-lock 1.1 GiB, and a quarter of the "
                "memory, 1.0 GiB, is the most; use fewer workers"));
  EXPECT_TRUE(check_pinned_bytes(settings, first_, false));  // nothing is page-locked
  settings.memory_allowed_bytes = std::int64_t{8} << 30;
  EXPECT_TRUE(check_pinned_bytes(settings, first_, true));
  settings.memory_allowed_bytes = 0;  // not known
  EXPECT_TRUE(check_pinned_bytes(settings, first_, true));
}

}  // namespace
}  // namespace autotuned::trainer
