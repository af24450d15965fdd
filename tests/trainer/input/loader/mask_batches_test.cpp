// SPDX-License-Identifier: Apache-2.0
// Class masks reach the batch beside their pictures, moved as these are, whichever loader brings them.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/base/temporary_folder.hpp"
#include "tests/trainer/input/png_file.hpp"
#include "trainer/input/datasets/split_dataset.hpp"
#include "trainer/input/loader/loader.hpp"

namespace autotuned::input {
namespace {

constexpr std::int64_t kBatch = 8;

std::unique_ptr<Dataset> discs(std::int64_t samples) {
  auto data = open_dataset("synthetic_masks",
                           {{"samples", samples}, {"shape", {1, 12, 16}}, {"classes", 4}});
  EXPECT_TRUE(data) << (data ? "" : data.error().message());
  return data ? std::move(*data) : nullptr;
}

Pipeline pipeline_for(const Dataset& data, const std::vector<Transform>& transforms) {
  auto pipeline = Pipeline::compile(data.type(), transforms, 1, {}, /*has_masks=*/true);
  EXPECT_TRUE(pipeline) << (pipeline ? "" : pipeline.error().message());
  return pipeline ? std::move(*pipeline) : Pipeline();
}

struct Room {
  explicit Room(const Pipeline& pipeline)
      : images(kBatch * static_cast<std::size_t>(pipeline.shape().elements())),
        masks(kBatch * pipeline.mask_bytes()) {}
  [[nodiscard]] BatchBuffer buffer() {
    return {.images = images.data(), .labels = nullptr, .values = nullptr, .masks = masks.data()};
  }

  std::vector<float> images;
  std::vector<std::uint8_t> masks;
};

std::unique_ptr<Loader> loader_of(const Dataset& data, const Pipeline& pipeline,
                                  std::vector<Room>& rooms, int workers) {
  LoaderSettings settings{.workers = workers, .batch_size = kBatch, .drop_last = false};
  for (Room& room : rooms)
    settings.ring.push_back(room.buffer());
  auto loader =
      Loader::create(data, {.seed = 3, .is_shuffled = true}, pipeline, std::move(settings));
  EXPECT_TRUE(loader) << (loader ? "" : loader.error().message());
  return loader ? std::move(*loader) : nullptr;
}

// The pixels and masks of some batches.
std::vector<Room> batches(const Dataset& data, const Pipeline& pipeline, int workers, int count,
                          Supply supply = Supply::data) {
  std::vector<Room> rooms(3, Room(pipeline));
  std::vector<Room> all;
  const auto loader = loader_of(data, pipeline, rooms, workers);
  if (loader == nullptr) return all;
  EXPECT_TRUE(loader->supply(supply));
  loader->resume();
  for (int i = 0; i < count; ++i) {
    const auto batch = loader->next();
    EXPECT_TRUE(batch) << (batch ? "" : batch.error().message());
    if (!batch) break;
    all.push_back(rooms[static_cast<std::size_t>(batch->slot)]);
    loader->release(batch->slot);
  }
  return all;
}

TEST(MaskBatches, AreTheSameWhoeverLoadsThem) {
  const auto data = discs(20);
  const Pipeline pipeline = pipeline_for(*data, {{"random_flip", Json::object()},
                                                 {"random_crop", {{"size", {8, 8}}}},
                                                 {"scale", {{"by", 0.5}}}});
  EXPECT_EQ(pipeline.mask_bytes(), 64U);
  const auto expected = batches(*data, pipeline, 0, 5);
  const auto others = batches(*data, pipeline, 2, 5);
  ASSERT_EQ(expected.size(), 5U);
  ASSERT_EQ(others.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    const std::size_t samples = i % 3 == 2 ? 4 : kBatch;  // the third of an epoch is short
    EXPECT_TRUE(std::equal(expected[i].masks.begin(),
                           expected[i].masks.begin() + static_cast<long>(samples * 64),
                           others[i].masks.begin()))
        << i;
    EXPECT_TRUE(std::equal(expected[i].images.begin(),
                           expected[i].images.begin() + static_cast<long>(samples * 64),
                           others[i].images.begin()))
        << i;
  }
  EXPECT_NE(expected[0].masks, expected[1].masks);
}

// Without transforms a mask is as the data have it, and stays with its picture.
TEST(MaskBatches, BelongToTheirPictures) {
  const auto data = discs(20);
  const Pipeline pipeline = pipeline_for(*data, {{"scale", {{"by", 1}}}});
  for (const Supply supply : {Supply::data, Supply::stored_samples, Supply::made_samples}) {
    for (const Room& room : batches(*data, pipeline, 0, 2, supply)) {
      for (std::size_t i = 0; i < kBatch; ++i) {
        bool is_found = false;
        for (std::int64_t index = 0; index < data->size() && !is_found; ++index) {
          std::vector<std::uint8_t> pixels(192);
          ASSERT_TRUE(data->read(index, pixels));
          is_found = std::equal(pixels.begin(), pixels.end(),
                                room.images.begin() + static_cast<long>(i * 192));
          if (!is_found) continue;
          MaskRoom mask;
          ASSERT_TRUE(data->read_mask(index, mask));
          EXPECT_TRUE(std::equal(mask.classes.begin(), mask.classes.end(),
                                 room.masks.begin() + static_cast<long>(i * 192)));
        }
        EXPECT_TRUE(is_found) << i;
      }
    }
  }
}

TEST(MaskBatches, AreSplitWithTheirPictures) {
  const auto split = split_dataset(discs(20), 0.25, 1);
  ASSERT_TRUE(split);
  const auto data = discs(20);
  for (const Dataset* part : {split->train.get(), split->test.get()}) {
    EXPECT_TRUE(part->target().is_mask());
    std::vector<std::uint8_t> pixels(192);
    ASSERT_TRUE(part->read(0, pixels));
    MaskRoom mask;
    ASSERT_TRUE(part->read_mask(0, mask));
    int found = 0;
    for (std::int64_t index = 0; index < data->size(); ++index) {
      std::vector<std::uint8_t> others(192);
      MaskRoom other;
      ASSERT_TRUE(data->read(index, others));
      ASSERT_TRUE(data->read_mask(index, other));
      found += others == pixels && other.classes == mask.classes ? 1 : 0;
    }
    EXPECT_EQ(found, 1);
  }
}

// With on_error: skip, what stands in comes with its own mask.
TEST(MaskBatches, OfDamagedMasksAreReplacedWithTheirPictures) {
  const TemporaryFolder folder;
  for (std::uint8_t i = 0; i < 12; ++i) {
    const std::string name = std::string(1, static_cast<char>('a' + i)) + ".png";
    const std::vector<std::uint8_t> pixels(4, static_cast<std::uint8_t>(10 * i));
    const int rows = i == 5 ? 1 : 2;  // one has another size than its picture
    folder.write("images/" + name, png_file(2, 2, pixels));
    folder.write("masks/" + name, png_file(rows, 2, std::vector<std::uint8_t>(4, i)));
  }
  const auto data = open_dataset("image_masks", {{"files", (folder / "images/*").string()},
                                                 {"masks", (folder / "masks/*").string()},
                                                 {"classes", 12},
                                                 {"on_error", "skip"}});
  ASSERT_TRUE(data) << data.error().message();
  const Pipeline pipeline = pipeline_for(
      **data, {{"decode", Json::object()}, {"to_float", Json::object()}, {"scale", {{"by", 255}}}});
  EXPECT_EQ(pipeline.mask_bytes(), 4U);
  for (const Room& room : batches(**data, pipeline, 0, 1)) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      EXPECT_NE(room.masks[4 * i], 5);
      EXPECT_NEAR(room.images[12 * i], 10 * room.masks[4 * i], 0.01);
    }
  }
  EXPECT_EQ((*data)->damage()->count(), 1);
}

TEST(MaskBatches, TakeTheBytesOfTheirImages) {
  const TargetType masks{TargetKind::class_mask, 1};
  EXPECT_EQ(masks.bytes({3, 20, 30}), 600U);
  EXPECT_EQ(masks.floats(), 0U);
  EXPECT_FALSE(masks.is_class());
}

// The time that masks take has a place of its own.
TEST(MaskBatches, AreTimedAsAPart) {
  const auto data = discs(20);
  const Pipeline pipeline = pipeline_for(*data, {{"random_flip", Json::object()}});
  std::vector<Room> rooms(1, Room(pipeline));
  const auto loader = loader_of(*data, pipeline, rooms, 0);
  ASSERT_NE(loader, nullptr);
  loader->time_parts(true);
  ASSERT_TRUE(loader->next());
  const LoaderStatistics statistics = loader->statistics();
  ASSERT_EQ(statistics.part_ns.size(), pipeline.parts().size());
  EXPECT_EQ(pipeline.parts().back(), "masks");
  EXPECT_GT(statistics.part_ns.back(), 0);
}

}  // namespace
}  // namespace autotuned::input
