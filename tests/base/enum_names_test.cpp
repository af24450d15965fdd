// SPDX-License-Identifier: Apache-2.0
#include "base/enum_names.hpp"

#include <gtest/gtest.h>

namespace autotuned {
namespace {

enum class Colour { red, green, blue };

constexpr EnumNames<Colour, 2> kColours = {{{Colour::red, "red"}, {Colour::green, "green"}}};

static_assert(enum_name(kColours, Colour::green) == "green");
static_assert(enum_value(kColours, "green") == Colour::green);

TEST(EnumNames, ReadBack) {
  for (const Colour colour : {Colour::red, Colour::green})
    EXPECT_EQ(enum_value(kColours, enum_name(kColours, colour)), colour);
}

TEST(EnumNames, ThatTheTableLacksAreNotGuessed) {
  EXPECT_EQ(enum_name(kColours, Colour::blue), "unknown");
  EXPECT_EQ(enum_value(kColours, "blue"), std::nullopt);
  EXPECT_EQ(enum_value(kColours, "re"), std::nullopt);
  EXPECT_EQ(enum_value(kColours, ""), std::nullopt);
}

}  // namespace
}  // namespace autotuned
