// SPDX-License-Identifier: Apache-2.0
// A data set whose samples say who they are, and buffers for a loader.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "trainer/input/common/epoch_order.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/loader/loader.hpp"

namespace autotuned::input {

// Two channels of four bytes that hold the index; the label is the index times three.
class NumberedDataset : public Dataset {
 public:
  explicit NumberedDataset(std::int64_t size, bool is_in_memory = false) : size_(size) {
    if (!is_in_memory) return;
    for (std::int64_t i = 0; i < size; ++i) {
      for (std::size_t k = 0; k < kElements; ++k)
        stored_.push_back(byte_of(i, k));
    }
  }

  static constexpr std::size_t kElements = 8;
  static std::uint8_t byte_of(std::int64_t index, std::size_t k) {
    return static_cast<std::uint8_t>(static_cast<std::uint64_t>(index) >> (8 * (k % 4)));
  }

  std::int64_t size() const override { return size_; }
  SampleType type() const override { return type_of(Element::uint8, {2, 2, 2}); }
  int classes() const override { return 1; }
  std::int64_t label(std::int64_t index) const override { return index * 3; }
  Result<void> read(std::int64_t index, std::span<std::uint8_t> out) const override {
    EXPECT_EQ(out.size(), kElements);
    if (on_read) {
      auto allowed = on_read(index);
      if (!allowed) return allowed;
    }
    for (std::size_t k = 0; k < kElements; ++k)
      out[k] = byte_of(index, k);
    return {};
  }
  std::span<const std::uint8_t> view(std::int64_t index) const override {
    if (stored_.empty()) return {};
    return std::span(stored_).subspan(static_cast<std::size_t>(index) * kElements, kElements);
  }

  std::function<Result<void>(std::int64_t)> on_read;  // set before the loader starts

 private:
  std::int64_t size_;
  std::vector<std::uint8_t> stored_;
};

// Value v + 1000 for channel 1, so that a wrong channel shows.
inline const Pipeline& numbered_pipeline() {
  static const Pipeline pipeline = [] {
    const Transform add{"normalize", Json{{"mean", {0, -1000}}, {"std", 1}}};
    return std::move(*Pipeline::compile(type_of(Element::uint8, {2, 2, 2}), {&add, 1}, 1));
  }();
  return pipeline;
}

// Memory behind a ring. Keep it until the loader has another ring or is gone.
class Buffers {
 public:
  Buffers(std::size_t slots, std::int64_t batch_size, PixelType type) : type_(type) {
    const auto samples = static_cast<std::size_t>(batch_size);
    for (std::size_t i = 0; i < slots; ++i) {
      images_.emplace_back(samples * NumberedDataset::kElements);
      labels_.emplace_back(samples);
    }
  }

  std::vector<BatchBuffer> ring() {
    std::vector<BatchBuffer> ring;
    for (std::size_t i = 0; i < images_.size(); ++i) {
      ring.push_back({images_[i].data(), labels_[i].data()});
    }
    return ring;
  }

  // The data set's indices of a batch, checked byte by byte.
  std::vector<std::int64_t> indices_of(const Batch& batch) const {
    const auto slot = static_cast<std::size_t>(batch.slot);
    std::vector<std::int64_t> indices;
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch.samples); ++i) {
      const std::int64_t index = labels_[slot][i] / 3;
      for (std::size_t k = 0; k < NumberedDataset::kElements; ++k) {
        const std::size_t at = i * NumberedDataset::kElements + k;
        const std::uint8_t byte = NumberedDataset::byte_of(index, k);
        if (type_ == PixelType::uint8) {
          EXPECT_EQ(reinterpret_cast<const std::uint8_t*>(images_[slot].data())[at], byte);
        } else {
          EXPECT_EQ(images_[slot][at], static_cast<float>(byte + (k < 4 ? 0 : 1000)));
        }
      }
      indices.push_back(index);
    }
    return indices;
  }

 private:
  PixelType type_;
  std::vector<std::vector<float>> images_;
  std::vector<std::vector<std::int64_t>> labels_;
};

struct LoaderCase {
  int workers = 0;
  std::size_t slots = 1;
  std::int64_t batch_size = 8;
  PixelType type = PixelType::float32;
  bool drop_last = true;
};

inline LoaderSettings settings_of(const LoaderCase& job, Buffers& buffers) {
  return {job.workers, job.batch_size, job.drop_last, job.type, buffers.ring()};
}

// The definition of the sequence, without any ring: what the next batch must be.
class Expected {
 public:
  Expected(std::int64_t samples, SampleOrder order)
      : samples_(samples), order_(samples, order.seed, order.is_shuffled) {}

  std::vector<std::int64_t> next(std::int64_t batch_size, bool drop_last) {
    const std::int64_t left = samples_ - at_.sample;
    if (left == 0 || (drop_last && left < batch_size)) at_ = {at_.epoch + 1, 0};
    begin_ = at_;
    const auto order = order_.of_epoch(at_.epoch);
    std::vector<std::int64_t> indices;
    while (at_.sample < samples_ && std::ssize(indices) < batch_size) {
      indices.push_back(order[static_cast<std::size_t>(at_.sample++)]);
    }
    return indices;
  }
  [[nodiscard]] Position begin() const { return begin_; }  // of what next() returned last
  void seek(Position position) { at_ = position; }

 private:
  std::int64_t samples_;
  EpochOrder order_;
  Position at_;
  Position begin_;
};

inline std::unique_ptr<Loader> make_loader(const Dataset& dataset, SampleOrder order,
                                           LoaderSettings settings) {
  auto loader = Loader::create(dataset, order, numbered_pipeline(), std::move(settings));
  EXPECT_TRUE(loader) << (loader ? "" : loader.error().message());
  return loader ? std::move(*loader) : nullptr;
}

// Takes `count` batches and compares each with the definition.
inline void expect_batches(Loader& loader, const Buffers& buffers, const LoaderCase& job,
                           Expected& expected, int count) {
  for (int i = 0; i < count; ++i) {
    const auto batch = loader.next();
    ASSERT_TRUE(batch) << batch.error().message();
    ASSERT_EQ(buffers.indices_of(*batch), expected.next(job.batch_size, job.drop_last)) << i;
    ASSERT_EQ(batch->position, expected.begin());
    loader.release(batch->slot);
  }
}

}  // namespace autotuned::input
