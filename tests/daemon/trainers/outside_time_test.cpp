// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/outside_time.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>

namespace autotuned::daemon {
namespace {

using testing::HasSubstr;
using testing::Optional;

constexpr const char* kKnob = "mine.trick";

Configuration with_flag(const std::string& knob, bool value) {
  Configuration configuration;
  configuration.set(knob, value);
  return configuration;
}

// What is said of the last of seven pairs of blocks of 100 ms, in which the candidate gains `gain`. Milliseconds are left
// out of each block, and vary by `noise_ms`.
std::optional<std::string> said_of(double gain, double candidate_ms, double reference_ms,
                                   double noise_ms = 0.0, const std::string& knob = kKnob) {
  OutsideTime time({kKnob});
  std::optional<std::string> said;
  for (int pair = 0; pair < 7; ++pair) {
    const double noise = noise_ms * (pair % 2 == 0 ? 1.0 : -1.0);
    for (const bool is_candidate : {false, true}) {
      Block block;
      block.duration_ns = 100'000'000;
      block.samples = std::llround(1000.0 * (is_candidate ? 1.0 + gain : 1.0));
      const double outside = is_candidate ? candidate_ms + noise : reference_ms - noise;
      said = time.add(with_flag(knob, is_candidate), is_candidate, block,
                      std::chrono::nanoseconds(block.duration_ns + std::llround(outside * 1e6)));
    }
  }
  return said;
}

TEST(OutsideTime, TheSameOfBothIsNoFault) {
  EXPECT_EQ(said_of(0.02, 4.0, 4.0), std::nullopt);
  EXPECT_EQ(said_of(0.02, 40.0, 40.0), std::nullopt);
}

TEST(OutsideTime, ALittleMoreThanTheReferenceIsNoFault) {
  EXPECT_EQ(said_of(0.02, 4.0, 3.2), std::nullopt);
  EXPECT_EQ(said_of(0.10, 6.0, 3.0), std::nullopt);
}

TEST(OutsideTime, AGainThatIsPutOffPastTheBlockIsNamed) {
  // The whole of it, and three quarters of it.
  for (const double gain : {0.03, 0.3, 3.0}) {
    for (const double share : {1.0, 0.75}) {
      EXPECT_THAT(said_of(gain, 2.0 + 100.0 * gain * share, 2.0),
                  Optional(HasSubstr("does work after or between its blocks")))
          << gain << " " << share;
    }
  }
}

TEST(OutsideTime, ABusyMachineIsNotTheCandidatesFault) {
  EXPECT_EQ(said_of(0.02, 8.0, 4.0, 12.0), std::nullopt);
}

TEST(OutsideTime, ABusyMachineIsNoExcuseForAGainThatItDoesNotExplain) {
  EXPECT_THAT(said_of(1.0, 108.0, 4.0, 12.0),
              Optional(HasSubstr("the session's clock does not confirm the gain")));
}

TEST(OutsideTime, AGainThatIsPaidForInLumpsIsNamed) {
  OutsideTime time({kKnob});
  std::optional<std::string> said;
  for (int pair = 1; pair <= 9; ++pair) {
    for (const bool is_candidate : {false, true}) {
      Block block;
      block.duration_ns = 100'000'000;
      block.samples = is_candidate ? 2000 : 1000;
      const int outside_ms = is_candidate && pair % 3 == 0 ? 302 : 2;
      said = time.add(with_flag(kKnob, is_candidate), is_candidate, block,
                      std::chrono::milliseconds(100 + outside_ms));
    }
  }
  EXPECT_THAT(said, Optional(HasSubstr("blocks together are 100.0 % faster")));
}

TEST(OutsideTime, OneThatIsSlowerAllTheSameIsNobodysBusiness) {
  EXPECT_EQ(said_of(-0.1, 50.0, 2.0), std::nullopt);
}

// A candidate that stalls rarely loses all its gain: beside it the reference looks faster, and what a busy machine adds to
// the reference is no cheat of the reference's.
TEST(OutsideTime, TheReferenceIsNeverAccused) {
  OutsideTime time({kKnob});
  for (int pair = 0; pair < 12; ++pair) {
    Block block;
    block.duration_ns = 100'000'000;
    block.samples = 1000;
    EXPECT_EQ(time.add(with_flag(kKnob, true), true, block, std::chrono::milliseconds(101)),
              std::nullopt);
    block.samples = 1014;
    EXPECT_EQ(time.add(with_flag(kKnob, false), false, block, std::chrono::milliseconds(110)),
              std::nullopt);
  }
}

TEST(OutsideTime, WhatOurOwnKnobsDoBetweenBlocksIsNoFault) {
  EXPECT_EQ(said_of(0.3, 32.0, 2.0, 0.0, "loader.pin_memory"), std::nullopt);
}

TEST(OutsideTime, AnotherConfigurationBeginsAnew) {
  OutsideTime time({kKnob});
  Block block;
  block.duration_ns = 100'000'000;
  for (int i = 0; i < 7; ++i) {
    block.samples = 1000;
    EXPECT_EQ(time.add(with_flag(kKnob, false), false, block, std::chrono::milliseconds(101)),
              std::nullopt);
    block.samples = 2000;
    const auto said = time.add(with_flag(kKnob, true), true, block, std::chrono::milliseconds(210));
    EXPECT_EQ(said.has_value(), i >= 5) << i;
  }
  Configuration third = with_flag(kKnob, true);
  third.set("another", true);
  EXPECT_EQ(time.add(third, true, block, std::chrono::milliseconds(210)), std::nullopt);
}

}  // namespace
}  // namespace autotuned::daemon
