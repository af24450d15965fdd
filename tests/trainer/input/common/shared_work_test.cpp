// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/common/shared_work.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <new>
#include <set>
#include <stdexcept>

namespace autotuned::input {
namespace {

using testing::ElementsAre;

constexpr std::chrono::hours kLong{1};

bool never() {
  return false;
}

TEST(SharedWork, IsDoneOnceByWhoeverIsFree) {
  for (const int threads : {1, 2, 5}) {
    std::array<std::atomic<int>, 1000> done{};
    int workers = 0;
    share_work({.items = 1000, .threads = threads, .most = kLong, .is_cancelled = never}, [&] {
      ++workers;
      return [&](std::int64_t item) { ++done.at(static_cast<std::size_t>(item)); };
    });
    for (std::size_t i = 0; i < done.size(); ++i)
      EXPECT_EQ(done[i], 1) << i;
    EXPECT_EQ(workers, threads);
  }
}

TEST(SharedWork, EndsWhenItIsCancelledOrLate) {
  std::vector<std::int64_t> done;
  const auto make = [&] { return [&](std::int64_t item) { done.push_back(item); }; };
  share_work(
      {.items = 100, .threads = 1, .most = kLong, .is_cancelled = [&] { return done.size() == 3; }},
      make);
  EXPECT_THAT(done, ElementsAre(0, 1, 2));
  done.clear();
  share_work({.items = 100, .threads = 1, .most = -kLong, .is_cancelled = never}, make);
  EXPECT_THAT(done, ElementsAre(0));
}

// Without memory for its worker, or for a thread.
TEST(SharedWork, IsDoneByFewerWhereThereIsNoRoomForMore) {
  std::atomic<std::int64_t> done = 0;
  int workers = 0;
  share_work({.items = 100, .threads = 4, .most = kLong, .is_cancelled = never}, [&] {
    if (++workers == 3) throw std::bad_alloc();
    return [&](std::int64_t) { ++done; };
  });
  EXPECT_EQ(done, 100);
  EXPECT_EQ(workers, 3);
  share_work({.items = 100, .threads = 4, .most = kLong, .is_cancelled = never},
             [&]() -> std::function<void(std::int64_t)> { throw std::bad_alloc(); });
  EXPECT_EQ(done, 100);
}

// In a thread of its own that would be the end of the process.
TEST(SharedWork, EndsWhereAWorkerThrows) {
  constexpr std::int64_t kMany = std::numeric_limits<std::int64_t>::max();
  for (const int threads : {1, 4}) {
    for (int thrower = 0; thrower < threads; ++thrower) {
      int workers = 0;
      share_work({.items = kMany, .threads = threads, .most = kLong, .is_cancelled = never}, [&] {
        return [throws = workers++ == thrower](std::int64_t) {
          if (throws) throw std::runtime_error("it fails");
        };
      });
      EXPECT_EQ(workers, threads);
    }
  }
}

}  // namespace
}  // namespace autotuned::input
