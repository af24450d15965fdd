// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/split_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "trainer/input/common/epoch_order.hpp"

namespace autotuned::input {
namespace {

// Makes the draws independent of the order of the first epoch.
constexpr std::uint64_t kSplitSeed = 0x73706c6974U;

// Some of the stored samples of another data set, numbered anew.
class PartOfDataset final : public Dataset {
 public:
  // A data set of the stored samples `items` (ascending) of `all_items`. `size`: the number of samples, with
  // repetitions.
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

// The stored samples of each file that the data name two times or more, in the order of the data.
using SameFile = std::vector<std::uint32_t>;

std::vector<SameFile> repeated_files(const Dataset& data, std::int64_t items) {
  std::vector<SameFile> repeated;
  // Others have no files of their own.
  if (data.type().element != Element::encoded) return repeated;
  std::vector<std::pair<std::size_t, std::uint32_t>> hashes;
  hashes.reserve(static_cast<std::size_t>(items));
  for (std::int64_t i = 0; i < items; ++i)
    hashes.emplace_back(std::hash<std::string>()(data.name(i)), static_cast<std::uint32_t>(i));
  std::ranges::sort(hashes);
  for (std::size_t begin = 0; begin < hashes.size();) {
    std::size_t end = begin + 1;
    while (end < hashes.size() && hashes[end].first == hashes[begin].first)
      ++end;
    std::map<std::string, SameFile> of_names;
    for (std::size_t i = begin; end - begin > 1 && i < end; ++i)
      of_names[data.name(hashes[i].second)].push_back(hashes[i].second);
    for (auto& [name, samples] : of_names)
      if (samples.size() > 1) repeated.push_back(std::move(samples));
    begin = end;
  }
  // Not in the order of the hashes, which differ from library to library.
  std::ranges::sort(repeated);
  return repeated;
}

std::string repeated_text(const Dataset& data, const std::vector<SameFile>& repeated) {
  if (repeated.empty()) return {};
  const SameFile& first = repeated.front();
  return format_counted(std::ssize(repeated), "file") + (repeated.size() == 1 ? " is" : " are") +
         " named more than once, such as " + data.name(first.front()) + " (" +
         std::to_string(first.size()) +
         " times); all samples of a file are on one side of the split";
}

// The first ones of `drawn`, but of a file all samples or none.
std::vector<std::uint32_t> drawn_for_test(std::span<const std::uint32_t> drawn, std::int64_t count,
                                          const std::vector<SameFile>& repeated) {
  std::unordered_map<std::uint32_t, std::size_t> file_of;
  for (std::size_t file = 0; file < repeated.size(); ++file)
    for (const std::uint32_t item : repeated[file])
      file_of.emplace(item, file);
  std::vector<bool> is_drawn(repeated.size());
  std::vector<std::uint32_t> test;
  for (const std::uint32_t item : drawn) {
    if (std::ssize(test) == count) break;
    const auto found = file_of.find(item);
    if (found == file_of.end()) {
      test.push_back(item);
      continue;
    }
    if (is_drawn[found->second]) continue;
    is_drawn[found->second] = true;
    const SameFile& all = repeated[found->second];
    if (std::ssize(test) + std::ssize(all) <= count)
      test.insert(test.end(), all.begin(), all.end());
  }
  // Each file has more samples than that.
  if (test.empty()) {
    test = *std::ranges::min_element(repeated, {}, [](const SameFile& all) { return all.size(); });
  }
  return test;
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
  const std::vector<SameFile> repeated = repeated_files(*data, all_items);
  std::vector<std::uint32_t> test = drawn_for_test(drawn, test_count, repeated);
  if (std::ssize(test) == all_items) {
    return fail(ErrorKind::invalid,
                "all " + format_count(all_items) + " samples are of the file " + data->name(0) +
                    ", which cannot be split",
                "evaluate.split", "give more data, or use evaluate.data");
  }
  std::ranges::sort(test);
  std::vector<std::uint32_t> train;
  for (std::int64_t i = 0; i < all_items; ++i)
    if (!std::ranges::binary_search(test, static_cast<std::uint32_t>(i)))
      train.push_back(static_cast<std::uint32_t>(i));
  const std::int64_t test_size = std::ssize(test);

  // The samples of the last round through the data, which may be incomplete.
  const auto rest = std::ranges::lower_bound(train, size % all_items) - train.begin();
  const std::int64_t train_size = size / all_items * std::ssize(train) + rest;
  SplitData split{.train = {}, .test = {}, .doubt = repeated_text(*data, repeated)};
  const std::shared_ptr<const Dataset> shared = std::move(data);
  split.train = std::make_unique<PartOfDataset>(shared, std::move(train), all_items, train_size);
  split.test = std::make_unique<PartOfDataset>(shared, std::move(test), all_items, test_size);
  return split;
}

}  // namespace autotuned::input
