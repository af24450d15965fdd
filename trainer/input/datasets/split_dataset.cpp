// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/split_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "trainer/input/common/epoch_order.hpp"

namespace autotuned::input {
namespace {

// So that what is drawn has nothing to do with the order of the first epoch.
constexpr std::uint64_t kSplitSeed = 0x73706c6974U;

// Some of the stored samples of another data set, numbered anew.
class PartOfDataset final : public Dataset {
 public:
  // `items` of `all_items`, ascending. `size`: how many samples that makes, going through them again and again.
  PartOfDataset(std::shared_ptr<const Dataset> data, std::vector<std::uint32_t> items,
                std::int64_t all_items, std::int64_t size)
      : data_(std::move(data)),
        items_(std::move(items)),
        all_items_(all_items),
        size_(size),
        damage_(data_->damage() != nullptr ? std::make_unique<Damage>(std::ssize(items_))
                                           : nullptr) {}

  std::int64_t size() const override { return size_; }
  SampleType type() const override { return data_->type(); }
  int classes() const override { return data_->classes(); }
  std::span<const std::string> class_names() const override { return data_->class_names(); }
  TargetType target() const override { return data_->target(); }
  bool has_bytes() const override { return data_->has_bytes(); }
  std::int64_t label(std::int64_t index) const override { return data_->label(original(index)); }
  void read_target(std::int64_t index, std::span<float> out) const override {
    data_->read_target(original(index), out);
  }
  Result<SampleShape> read_mask(std::int64_t index, MaskRoom& room) const override {
    return data_->read_mask(original(index), room);
  }
  Result<void> read(std::int64_t index, std::span<std::uint8_t> out) const override {
    return data_->read(original(index), out);
  }
  Result<FileStamp> read_encoded(std::int64_t index,
                                 std::vector<std::uint8_t>& out) const override {
    return data_->read_encoded(original(index), out);
  }
  std::span<const std::uint8_t> view(std::int64_t index) const override {
    return data_->view(original(index));
  }
  void will_need(std::int64_t index) const override { data_->will_need(original(index)); }
  std::int64_t stored_index(std::int64_t index) const override {
    return index % std::ssize(items_);
  }
  Stored stored() const override {
    const Stored all = data_->stored();
    const double share = static_cast<double>(items_.size()) / static_cast<double>(all.items);
    const auto of = [share](std::int64_t bytes) {
      return static_cast<std::int64_t>(static_cast<double>(bytes) * share);
    };
    return {std::ssize(items_), of(all.bytes), of(all.decoded_bytes)};
  }
  std::string name(std::int64_t index) const override { return data_->name(original(index)); }
  Damage* damage() const override { return damage_.get(); }

 private:
  [[nodiscard]] std::int64_t original(std::int64_t index) const {
    const std::int64_t round = index / std::ssize(items_);
    return round * all_items_ + items_[static_cast<std::size_t>(stored_index(index))];
  }

  std::shared_ptr<const Dataset> data_;
  std::vector<std::uint32_t> items_;
  std::int64_t all_items_;
  std::int64_t size_;
  std::unique_ptr<Damage> damage_;
};

Result<SplitData> split_sequence(std::unique_ptr<Dataset> data, std::int64_t test_count,
                                 std::int64_t overlap) {
  const std::int64_t size = data->size();
  const std::int64_t first = size - test_count;  // of the test
  if (first <= overlap) {
    return fail(ErrorKind::invalid,
                "nothing is left to train on: each of the " + std::to_string(size) +
                    " blocks shares tokens with the test",
                "evaluate.split", "give more data or a smaller share, or use evaluate.data");
  }
  std::vector<std::uint32_t> train;
  std::vector<std::uint32_t> test;
  for (std::int64_t i = 0; i < first - overlap; ++i)
    train.push_back(static_cast<std::uint32_t>(i));
  for (std::int64_t i = first; i < size; i += overlap + 1)
    test.push_back(static_cast<std::uint32_t>(i));
  const std::shared_ptr<const Dataset> shared = std::move(data);
  SplitData split;
  const auto part_of = [&](std::vector<std::uint32_t> items) {
    const std::int64_t count = std::ssize(items);
    return std::make_unique<PartOfDataset>(shared, std::move(items), size, count);
  };
  split.train = part_of(std::move(train));
  split.test = part_of(std::move(test));
  return split;
}

}  // namespace

Result<SplitData> split_dataset(std::unique_ptr<Dataset> data, double share, std::uint64_t seed) {
  const std::int64_t size = data->size();
  const std::int64_t all_items = std::min(data->stored().items, size);
  if (all_items < 2) {
    return fail(ErrorKind::invalid, "there is one sample, which cannot be split", "evaluate.split",
                "give more data, or use evaluate.data");
  }
  const std::int64_t test_count = std::clamp<std::int64_t>(
      std::llround(static_cast<double>(all_items) * share), 1, all_items - 1);
  if (const auto overlap = data->overlap()) {
    return split_sequence(std::move(data), test_count, *overlap);
  }
  EpochOrder order(all_items, seed ^ kSplitSeed, true);
  const auto drawn = order.of_epoch(0);
  std::vector<std::uint32_t> test(drawn.begin(), drawn.begin() + test_count);
  std::vector<std::uint32_t> train(drawn.begin() + test_count, drawn.end());
  std::ranges::sort(test);
  std::ranges::sort(train);

  // Of the last round through the data, which may be cut short.
  const auto rest = std::ranges::lower_bound(train, size % all_items) - train.begin();
  const std::int64_t train_size = size / all_items * std::ssize(train) + rest;
  const std::shared_ptr<const Dataset> shared = std::move(data);
  SplitData split;
  split.train = std::make_unique<PartOfDataset>(shared, std::move(train), all_items, train_size);
  split.test = std::make_unique<PartOfDataset>(shared, std::move(test), all_items, test_count);
  return split;
}

}  // namespace autotuned::input
