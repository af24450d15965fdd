// SPDX-License-Identifier: Apache-2.0
// Targets that are several numbers reach the batch beside their samples, as classes do.
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <vector>

#include "tests/trainer/input/loader_fixture.hpp"
#include "trainer/input/datasets/split_dataset.hpp"

namespace autotuned::input {
namespace {

constexpr std::size_t kWidth = 3;

float value_of(std::int64_t index, std::size_t k) {
  return static_cast<float>(index) + 0.25F * static_cast<float>(k);
}

class WithNumbers final : public NumberedDataset {
 public:
  using NumberedDataset::NumberedDataset;
  int classes() const override { return kWidth; }
  TargetType target() const override { return {TargetKind::numbers, kWidth}; }
  std::int64_t label(std::int64_t /*index*/) const override { return 0; }
  void read_target(std::int64_t index, std::span<float> out) const override {
    ASSERT_EQ(out.size(), kWidth);
    for (std::size_t k = 0; k < kWidth; ++k)
      out[k] = value_of(index, k);
  }
};

struct Room {
  explicit Room(std::int64_t batch_size)
      : images(static_cast<std::size_t>(batch_size) * NumberedDataset::kElements),
        values(static_cast<std::size_t>(batch_size) * kWidth) {}
  [[nodiscard]] BatchBuffer buffer() {
    return {.images = images.data(), .labels = nullptr, .values = values.data()};
  }

  std::vector<float> images;
  std::vector<float> values;
};

// Every sample of the batch has the target of its own index.
void expect_targets(const Room& room, const Batch& batch) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(batch.samples); ++i) {
    const auto index = static_cast<std::int64_t>(room.images[i * NumberedDataset::kElements]);
    for (std::size_t k = 0; k < kWidth; ++k)
      EXPECT_EQ(room.values[i * kWidth + k], value_of(index, k)) << "sample " << i;
  }
}

std::unique_ptr<Loader> loader_of(const Dataset& data, std::vector<Room>& rooms, int workers) {
  LoaderSettings settings{.workers = workers, .batch_size = 8, .drop_last = false};
  for (Room& room : rooms)
    settings.ring.push_back(room.buffer());
  auto loader = Loader::create(data, {.seed = 3, .is_shuffled = true}, numbered_pipeline(),
                               std::move(settings));
  EXPECT_TRUE(loader);
  return loader ? std::move(*loader) : nullptr;
}

TEST(Targets, ComeWithTheirSamples) {
  const WithNumbers data(20);
  for (const int workers : {0, 2}) {
    std::vector<Room> rooms(3, Room(8));
    const auto loader = loader_of(data, rooms, workers);
    ASSERT_NE(loader, nullptr);
    loader->resume();
    for (int i = 0; i < 7; ++i) {  // the third of an epoch is short
      const auto batch = loader->next();
      ASSERT_TRUE(batch);
      EXPECT_EQ(batch->samples, i % 3 == 2 ? 4 : 8);
      expect_targets(rooms[static_cast<std::size_t>(batch->slot)], *batch);
      loader->release(batch->slot);
    }
  }
}

TEST(Targets, AreThoseOfTheSamplesThatStandIn) {
  const WithNumbers data(20);
  for (const Supply supply : {Supply::stored_samples, Supply::made_samples}) {
    std::vector<Room> rooms(2, Room(8));
    const auto loader = loader_of(data, rooms, 0);
    ASSERT_NE(loader, nullptr);
    ASSERT_TRUE(loader->supply(supply));
    for (int i = 0; i < 5; ++i) {
      const auto batch = loader->next();
      ASSERT_TRUE(batch);
      expect_targets(rooms[static_cast<std::size_t>(batch->slot)], *batch);
      loader->release(batch->slot);
    }
  }
}

TEST(Targets, AreSplitWithTheirSamples) {
  const auto split = split_dataset(std::make_unique<WithNumbers>(20), 0.25, 1);
  ASSERT_TRUE(split);
  for (const Dataset* part : {split->train.get(), split->test.get()}) {
    EXPECT_EQ(part->target(), (TargetType{TargetKind::numbers, kWidth}));
    for (std::int64_t i = 0; i < part->size(); ++i) {
      std::vector<std::uint8_t> bytes(NumberedDataset::kElements);
      std::vector<float> values(kWidth);
      ASSERT_TRUE(part->read(i, bytes));
      part->read_target(i, values);
      EXPECT_EQ(values[2], value_of(bytes[0], 2));
    }
  }
}

TEST(Targets, TakeTheBytesOfTheirType) {
  EXPECT_EQ(TargetType().bytes(), 8U);
  EXPECT_EQ(TargetType().floats(), 0U);
  EXPECT_EQ((TargetType{TargetKind::tags, 5}.bytes()), 20U);
}

}  // namespace
}  // namespace autotuned::input
