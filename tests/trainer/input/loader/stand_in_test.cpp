// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/loader/stand_in.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "tests/trainer/input/loader_fixture.hpp"

namespace autotuned::input {
namespace {

constexpr SampleOrder kShuffled{.seed = 3, .is_shuffled = true};

// The indices of the next batch, which is released.
std::vector<std::int64_t> take(Loader& loader, const Buffers& buffers) {
  const auto batch = loader.next();
  if (!batch) {
    ADD_FAILURE() << batch.error().message();
    return {};
  }
  auto indices = buffers.indices_of(*batch);
  loader.release(batch->slot);
  return indices;
}

TEST(StandIn, StoredSamplesAreReadOnce) {
  for (const auto& [workers, type] :
       {std::pair{0, PixelType::float32}, std::pair{2, PixelType::float32},
        std::pair{0, PixelType::uint8}}) {
    NumberedDataset dataset(40);
    std::atomic<int> reads = 0;
    dataset.on_read = [&](std::int64_t) -> Result<void> {
      ++reads;
      return {};
    };
    const LoaderCase job{.workers = workers, .slots = 2, .batch_size = 8, .type = type};
    Buffers buffers(job.slots, job.batch_size, job.type);
    const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
    Expected expected(dataset.size(), kShuffled);
    const auto coming = expected.next(8, true);
    const std::set<std::int64_t> first(coming.begin(), coming.end());
    ASSERT_TRUE(loader->supply(Supply::stored_samples));
    EXPECT_EQ(reads, 8);
    loader->resume();
    for (int i = 0; i < 9; ++i) {  // beyond the epoch's end
      const auto batch = loader->next();
      ASSERT_TRUE(batch);
      for (const std::int64_t index : buffers.indices_of(*batch))
        EXPECT_TRUE(first.contains(index));
      if (i > 0) expected.next(8, true);
      EXPECT_EQ(batch->position, expected.begin());
      loader->release(batch->slot);
    }
    EXPECT_EQ(reads, 8);
    loader->pause();
    // What lies ready is of the stand-in; then the data go on where they would be.
    const int ready = loader->fullness();
    ASSERT_TRUE(loader->supply(Supply::data));
    loader->seek(loader->position());
    EXPECT_GE(ready, 0);
    expect_batches(*loader, buffers, job, expected, 5);
  }
}

TEST(StandIn, MadeSamplesAreCopied) {
  for (const PixelType type : {PixelType::float32, PixelType::uint8}) {
    NumberedDataset dataset(40);
    std::atomic<int> reads = 0;
    dataset.on_read = [&](std::int64_t) -> Result<void> {
      ++reads;
      return {};
    };
    const LoaderCase job{.workers = 1, .slots = 3, .batch_size = 8, .type = type};
    Buffers buffers(job.slots, job.batch_size, job.type);
    const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
    Expected expected(dataset.size(), kShuffled);
    const auto first = expected.next(8, true);
    ASSERT_TRUE(loader->supply(Supply::made_samples));
    loader->resume();
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(take(*loader, buffers), first);
    loader->pause();
    EXPECT_EQ(reads, 8);
    // Another configuration is one of the data.
    ASSERT_TRUE(loader->reconfigure(settings_of(job, buffers)));
    EXPECT_NE(take(*loader, buffers), first);
    EXPECT_GT(reads, 8);
  }
}

// Stages over a whole batch: what is made must not pass through them again.
TEST(StandIn, MadeSamplesAreWholeBatches) {
  const NumberedDataset dataset(40);
  const std::vector<Transform> transforms = {{"random_mask", Json{{"ratio", 0.5}}},
                                             {"normalize", Json{{"mean", {0, -1000}}, {"std", 1}}}};
  const auto pipeline =
      Pipeline::compile(dataset.type(), transforms, 1, {.point_ops = PointOps::per_batch});
  ASSERT_TRUE(pipeline);
  ASSERT_TRUE(pipeline->has_batch_stages(PixelType::float32));
  std::vector<float> images(8 * NumberedDataset::kElements);
  std::vector<std::int64_t> labels(8);
  LoaderSettings settings{.batch_size = 8, .ring = {{images.data(), labels.data()}}};
  const auto loader =
      Loader::create(dataset, {.seed = 1, .is_shuffled = false}, *pipeline, settings);
  ASSERT_TRUE(loader);
  ASSERT_TRUE((*loader)->supply(Supply::made_samples));
  const std::vector<float> made = images;
  EXPECT_GT(std::ranges::count_if(made, [](float value) { return value >= 1000; }), 0);
  std::ranges::fill(images, -1.0F);
  for (int i = 0; i < 3; ++i) {
    const auto batch = (*loader)->next();
    ASSERT_TRUE(batch);
    EXPECT_EQ(images, made);
    (*loader)->release(batch->slot);
  }
  // And back.
  ASSERT_TRUE((*loader)->supply(Supply::data));
  ASSERT_TRUE((*loader)->next());
  EXPECT_EQ(labels[0], 3 * 32);
}

TEST(StandIn, WhatWouldBeTheSameIsRefused) {
  const NumberedDataset dataset(40, /*is_in_memory=*/true);
  for (const PixelType type : {PixelType::float32, PixelType::uint8}) {
    const LoaderCase job{.type = type};
    Buffers buffers(job.slots, job.batch_size, job.type);
    const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
    EXPECT_EQ(loader->supply(Supply::stored_samples).error().kind, ErrorKind::unsupported);
    const auto made = loader->supply(Supply::made_samples);
    EXPECT_EQ(made.has_value(), type == PixelType::float32) << "bytes are only copied";
  }
}

TEST(StandIn, SamplesThatCannotBeReadAreLeftOut) {
  NumberedDataset dataset(40);
  std::int64_t readable = -1;
  dataset.on_read = [&](std::int64_t index) -> Result<void> {
    if (index == readable) return {};
    return fail(ErrorKind::corrupt, "is damaged", "sample " + std::to_string(index));
  };
  const LoaderCase job;
  Buffers buffers(job.slots, job.batch_size, job.type);
  const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
  const auto nothing = loader->supply(Supply::stored_samples);
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().what, "is damaged");
  EXPECT_FALSE(loader->supply(Supply::made_samples));
  // A batch that failed comes again until somebody seeks.
  loader->seek({});
  Expected expected(dataset.size(), kShuffled);
  readable = expected.next(8, true)[5];
  ASSERT_TRUE(loader->supply(Supply::stored_samples));
  EXPECT_EQ(take(*loader, buffers), std::vector<std::int64_t>(8, readable));
}

}  // namespace
}  // namespace autotuned::input
