// SPDX-License-Identifier: Apache-2.0
#include "recipes/scalars.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace autotuned::recipes {
namespace {

TEST(Scalars, IntegersAreStrict) {
  EXPECT_EQ(read_integer("0"), 0);
  EXPECT_EQ(read_integer("-12"), -12);
  EXPECT_EQ(read_integer("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  for (const char* text : {"", "-", "1e3", "1.0", "+1", "010", "0x10", "1_000", " 1", "1 ", "1k",
                           "9223372036854775808"}) {
    EXPECT_FALSE(read_integer(text)) << text;
  }
}

TEST(Scalars, NumbersAreDecimalsOrFractions) {
  EXPECT_EQ(read_number("0.5"), 0.5);
  EXPECT_EQ(read_number("-1e-3"), -1e-3);
  EXPECT_EQ(read_number("1/255"), 1.0 / 255.0);
  EXPECT_EQ(read_number("-0.5/2"), -0.25);
  for (const char* text : {"", "/", "1/", "/2", "1/0", "0/0", "1/2/3", "inf", "nan", "infinity",
                           "1e999", "0x1p3", "1 / 2", "abc", "1.2.3", "1/-inf"}) {
    EXPECT_FALSE(read_number(text)) << text;
  }
}

TEST(Scalars, SomeNumbersAreNoneInFloat32) {
  for (const double number : {0.0, 1e-37, -1e-3, 1.0, 3.4e38}) {
    EXPECT_TRUE(fits_float32(number)) << number;
  }
  for (const double number : {1e-60, -1e-39, 3.5e38, -1e308}) {
    EXPECT_FALSE(fits_float32(number)) << number;
  }
}

TEST(Scalars, Booleans) {
  EXPECT_EQ(read_boolean("true"), true);
  EXPECT_EQ(read_boolean("on"), true);
  EXPECT_EQ(read_boolean("false"), false);
  EXPECT_EQ(read_boolean("off"), false);
  for (const char* text : {"", "yes", "no", "True", "1", "0"})
    EXPECT_FALSE(read_boolean(text));
}

TEST(Scalars, Names) {
  EXPECT_TRUE(is_name("Photo masking 2"));
  EXPECT_TRUE(is_name("prüfung"));
  for (const char* text : {"", ".", "..", "a/b", " a", "a ", "a\nb", "a\x7f",
                           // U+0085, U+202E, U+200B
                           "a\xC2\x85", "a\xE2\x80\xAE", "a\xE2\x80\x8B"}) {
    EXPECT_FALSE(is_name(text)) << text;
  }
  EXPECT_TRUE(is_name(std::string(100, 'a')));
  EXPECT_FALSE(is_name(std::string(101, 'a')));
}

TEST(Scalars, Devices) {
  for (const char* text : {"auto", "cpu", "cuda", "cuda:0", "cuda:15"}) {
    EXPECT_TRUE(is_device(text)) << text;
  }
  for (const char* text : {"", "gpu", "cuda:", "cuda:-1", "cuda:01", "cuda:x", "cuda:128", "CPU"}) {
    EXPECT_FALSE(is_device(text)) << text;
  }
}

}  // namespace
}  // namespace autotuned::recipes
