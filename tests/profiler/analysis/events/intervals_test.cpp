// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/events/intervals.hpp"

#include <gmock/gmock.h>

#include <random>

namespace autotuned::analysis {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Intervals, MergeWhatOverlapsOrTouches) {
  EXPECT_THAT(merged({{5, 7}, {1, 3}, {2, 4}, {4, 5}, {9, 9}, {10, 8}}),
              ElementsAre(Interval{1, 7}));
  EXPECT_THAT(merged({{1, 9}, {2, 3}, {11, 12}}), ElementsAre(Interval{1, 9}, Interval{11, 12}));
  EXPECT_THAT(merged({}), IsEmpty());
}

TEST(Intervals, CutAndKeep) {
  const Intervals a = {{0, 10}, {20, 30}, {40, 50}};
  const Intervals b = {{5, 25}, {28, 29}, {45, 60}};
  EXPECT_THAT(intersection(a, b),
              ElementsAre(Interval{5, 10}, Interval{20, 25}, Interval{28, 29}, Interval{45, 50}));
  EXPECT_THAT(difference(a, b),
              ElementsAre(Interval{0, 5}, Interval{25, 28}, Interval{29, 30}, Interval{40, 45}));
  EXPECT_EQ(length_ns(a), 30);
  EXPECT_EQ(length_within_ns(a, {5, 45}), 20);
  EXPECT_EQ(length_within_ns(a, {10, 20}), 0);
}

// Against a line of moments, painted one by one.
TEST(Intervals, AgreeWithPaintedMoments) {
  constexpr std::int64_t kEnd = 60;
  std::mt19937_64 random(1);
  const auto some = [&] {
    Intervals stretches;
    for (auto left = random() % 8; left > 0; --left) {
      const auto start = static_cast<std::int64_t>(random() % kEnd);
      stretches.push_back({start, start + static_cast<std::int64_t>(random() % 12)});
    }
    return merged(stretches);
  };
  const auto holds = [](const Intervals& set, std::int64_t moment) {
    return std::ranges::any_of(
        set, [&](const Interval& one) { return one.start_ns <= moment && moment < one.end_ns; });
  };
  for (int i = 0; i < 500; ++i) {
    const Intervals a = some();
    const Intervals b = some();
    const Intervals both = intersection(a, b);
    const Intervals rest = difference(a, b);
    for (std::int64_t moment = 0; moment < kEnd + 12; ++moment) {
      EXPECT_EQ(holds(both, moment), holds(a, moment) && holds(b, moment));
      EXPECT_EQ(holds(rest, moment), holds(a, moment) && !holds(b, moment));
    }
    const Interval window{10, 40};
    EXPECT_EQ(length_within_ns(a, window), length_ns(intersection(a, {window})));
    EXPECT_EQ(length_ns(both) + length_ns(rest), length_ns(a));
    const Stretches stretches(a);
    EXPECT_EQ(stretches.length_ns(), length_ns(a));
    for (std::int64_t start = -3; start < kEnd + 12; ++start) {
      EXPECT_EQ(stretches.hold(start), holds(a, start));
      for (const std::int64_t length : {0, 1, 5, 30}) {
        const Interval time{start, start + length};
        EXPECT_EQ(stretches.length_within_ns(time), length_within_ns(a, time));
      }
    }
  }
}

}  // namespace
}  // namespace autotuned::analysis
