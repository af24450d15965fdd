// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/characters.hpp"

#include <gtest/gtest.h>

#include <string>

namespace autotuned::daemon {
namespace {

constexpr const char* kAccent = "e\xCC\x81";  // e and a combining accent
// A woman and a laptop, joined: one picture.
constexpr const char* kJoined = "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB";

TEST(Characters, TakeTheColumnsOfATerminal) {
  EXPECT_EQ(columns_of(""), 0);
  EXPECT_EQ(columns_of("loader"), 6);
  EXPECT_EQ(columns_of("0 → 2"), 5);
  EXPECT_EQ(columns_of("模型"), 4);
  EXPECT_EQ(columns_of("🚀"), 2);
  EXPECT_EQ(columns_of("█░…⠋"), 4);
  EXPECT_EQ(columns_of(kAccent), 1);
}

TEST(Characters, WhatIsDrawnAsOnePictureCountsAtLeastThat) {
  EXPECT_GE(columns_of(kJoined), 2);
}

TEST(Characters, ABeginningNeverHasHalfACharacter) {
  EXPECT_EQ(beginning_of("loader", 3), "loa");
  EXPECT_EQ(beginning_of("loader", 6), "loader");
  EXPECT_EQ(beginning_of("loader", 0), "");
  EXPECT_EQ(beginning_of("模型", 3), "模");
  EXPECT_EQ(beginning_of("模型", 1), "");
  const std::string accents = std::string(kAccent) + kAccent;
  EXPECT_EQ(beginning_of(accents, 1), kAccent);
  const std::string joined = std::string("a") + kJoined;
  EXPECT_EQ(beginning_of(joined, 3), "a");
  EXPECT_EQ(beginning_of(joined, 1 + columns_of(kJoined)), joined);
}

TEST(Characters, BytesThatAreNoTextAreReplaced) {
  EXPECT_EQ(valid_text("a\xFFz"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(valid_text("模\xE6\xA8"), "模\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(columns_of("a\xFFz"), 3);
  EXPECT_EQ(valid_text("模型 🚀"), "模型 🚀");
}

}  // namespace
}  // namespace autotuned::daemon
