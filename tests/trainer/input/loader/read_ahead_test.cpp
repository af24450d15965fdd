// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/loader/read_ahead.hpp"

#include <gmock/gmock.h>

#include <array>
#include <future>
#include <vector>

namespace autotuned::input {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

constexpr std::int64_t kSamples = 10;

// Remembers what it was asked for, and can make the caller wait.
class Asked final : public Dataset {
 public:
  std::int64_t size() const override { return kSamples; }
  SampleType type() const override { return type_of(Element::uint8, {}); }
  int classes() const override { return 1; }
  std::int64_t label(std::int64_t /*index*/) const override { return 0; }
  void will_need(std::int64_t index) const override {
    std::unique_lock<std::mutex> lock(mutex_);
    asked_.push_back(index);
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
  }

  void open(bool is_open) {
    const std::lock_guard<std::mutex> guard(mutex_);
    is_open_ = is_open;
    changed_.notify_all();
  }
  // Blocks until it was asked so often, and gives all of it.
  std::vector<std::int64_t> after(std::size_t times) const {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return asked_.size() >= times; });
    return asked_;
  }
  std::vector<std::int64_t> so_far() const { return after(0); }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::vector<std::int64_t> asked_;
  bool is_open_ = true;
};

class ReadAheadTest : public testing::Test {
 protected:
  std::unique_ptr<ReadAhead> make(std::int64_t ahead, bool is_shuffled = false,
                                  const SampleCache* cache = nullptr) {
    auto made = ReadAhead::create(data_, {.seed = 3, .is_shuffled = is_shuffled}, ahead, cache);
    EXPECT_TRUE(made);
    return std::move(*made);
  }

  Asked data_;
};

TEST_F(ReadAheadTest, AsksForWhatComesInItsOrder) {
  EpochOrder order(kSamples, 3, true);
  const auto all = order.of_epoch(0);
  const std::vector<std::int64_t> expected(all.begin(), all.end());
  const auto ahead = make(4, /*is_shuffled=*/true);
  ahead->resume();
  ahead->follow({0, 0});
  data_.after(4);
  ahead->pause();
  EXPECT_THAT(data_.so_far(), ElementsAreArray(expected.begin(), expected.begin() + 4));
  ahead->follow({0, 3});  // paused: later
  EXPECT_EQ(data_.so_far().size(), 4);
  ahead->resume();
  data_.after(7);
  ahead->pause();
  EXPECT_THAT(data_.so_far(), ElementsAreArray(expected.begin(), expected.begin() + 7));
}

TEST_F(ReadAheadTest, GoesOnInTheNextEpoch) {
  EpochOrder order(kSamples, 3, true);
  const auto first = order.of_epoch(0);
  std::vector<std::int64_t> expected = {first[8], first[9]};
  const auto second = order.of_epoch(1);
  expected.insert(expected.end(), {second[0], second[1]});
  const auto ahead = make(4, /*is_shuffled=*/true);
  ahead->resume();
  ahead->follow({0, 8});
  data_.after(4);
  ahead->pause();
  EXPECT_EQ(data_.so_far(), expected);
}

TEST_F(ReadAheadTest, LeavesOutWhatHasPassedAndStartsOverAfterGoingBack) {
  const auto ahead = make(2);
  ahead->resume();
  ahead->follow({0, 0});
  data_.after(2);
  ahead->follow({0, 6});
  data_.after(4);
  ahead->follow({0, 1});
  data_.after(6);
  ahead->pause();
  EXPECT_THAT(data_.so_far(), ElementsAre(0, 1, 6, 7, 1, 2));
}

TEST_F(ReadAheadTest, PausesAfterTheOneAtWork) {
  data_.open(false);
  const auto ahead = make(4);
  ahead->resume();
  ahead->follow({0, 0});
  data_.after(1);
  auto paused = std::async(std::launch::async, [&] { ahead->pause(); });
  EXPECT_EQ(paused.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  data_.open(true);
  paused.get();
  const std::size_t asked = data_.so_far().size();
  ahead->follow({0, 2});
  EXPECT_EQ(data_.so_far().size(), asked);
}

TEST_F(ReadAheadTest, LeavesOutWhatIsKeptInMemory) {
  auto cache = SampleCache::create(kSamples, 1 << 16);
  ASSERT_TRUE(cache);
  const std::array<std::uint8_t, 4> bytes{};
  (*cache)->keep(1, {Element::uint8, {}, bytes});
  const auto ahead = make(4, /*is_shuffled=*/false, cache->get());
  ahead->resume();
  ahead->follow({0, 0});
  data_.after(3);
  ahead->pause();
  EXPECT_THAT(data_.so_far(), ElementsAre(0, 2, 3));
}

}  // namespace
}  // namespace autotuned::input
