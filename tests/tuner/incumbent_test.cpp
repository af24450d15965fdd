// SPDX-License-Identifier: Apache-2.0
#include "tuner/incumbent.hpp"

#include <gmock/gmock.h>

#include <cstdint>
#include <string>
#include <utility>

namespace autotuned::tuner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Configuration one(const char* knob, KnobValue value) {
  Configuration configuration;
  configuration.set(knob, std::move(value));
  return configuration;
}

const Configuration kStart = one("loader.workers", std::int64_t{0}).with(one("fused", false));
const Configuration kWorkers = one("loader.workers", std::int64_t{2});
const Configuration kFused = one("fused", true);
const Configuration kVariable = one("env.SETTING", std::string("1"));

TEST(Incumbent, IsTheLastThatWasAccepted) {
  Incumbent incumbent(kStart);
  EXPECT_TRUE(incumbent.is_start());
  EXPECT_EQ(incumbent.configuration(), kStart);
  incumbent.accept(kStart.with(kWorkers));
  incumbent.accept(kStart.with(kWorkers).with(kFused));
  EXPECT_EQ(incumbent.configuration(), kStart.with(kWorkers).with(kFused));
  incumbent.fall_back();
  EXPECT_EQ(incumbent.configuration(), kStart.with(kWorkers));
  EXPECT_THAT(incumbent.past(), ElementsAre(kStart, kStart.with(kWorkers)));
  incumbent.fall_back();
  incumbent.fall_back();
  EXPECT_TRUE(incumbent.is_start());
}

TEST(Incumbent, BuildsOnWhatWasVerified) {
  Incumbent incumbent(kStart);
  incumbent.build_on(kStart.with(kWorkers));
  EXPECT_TRUE(incumbent.is_as_verified());
  EXPECT_THAT(incumbent.past(), ElementsAre(kStart));
  incumbent.accept(kStart.with(kWorkers).with(kFused));
  EXPECT_FALSE(incumbent.is_as_verified());
}

TEST(Incumbent, LosesAChangeInAllThatMayBeFallenBackTo) {
  Incumbent incumbent(kStart);
  incumbent.accept(kStart.with(kWorkers));
  incumbent.accept(kStart.with(kWorkers).with(kFused));
  incumbent.drop(kWorkers, kStart);
  EXPECT_THAT(incumbent.accepted(), ElementsAre(kStart.with(kFused)));
  incumbent.drop(one("fused", false), kStart);
  EXPECT_EQ(incumbent.configuration(), kStart.with(kFused)) << "it has another value";
  incumbent.drop(kFused, kStart);
  EXPECT_THAT(incumbent.accepted(), IsEmpty());
}

TEST(Incumbent, GoesBackToAnEarlierValueOfAKnob) {
  Incumbent incumbent(kStart);
  const Configuration earlier = kStart.with(kWorkers);
  incumbent.accept(earlier);
  const Configuration more = one("loader.workers", std::int64_t{9});
  incumbent.accept(earlier.with(more));
  incumbent.drop(more, earlier);
  EXPECT_THAT(incumbent.accepted(), ElementsAre(earlier));
}

TEST(WithoutChange, HasTheValuesFromBefore) {
  const Configuration whole = kStart.with(kWorkers).with(kVariable);
  EXPECT_EQ(without_change(whole, kWorkers, kStart), kStart.with(kVariable));
  EXPECT_EQ(without_change(whole, kVariable, kStart), kStart.with(kWorkers))
      << "it is not named any more";
}

}  // namespace
}  // namespace autotuned::tuner
