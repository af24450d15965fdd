// SPDX-License-Identifier: Apache-2.0
#include "profiler/traces/numbers.hpp"

#include <gtest/gtest.h>

namespace autotuned::traces {
namespace {

TEST(Numbers, MicrosecondsBecomeExactNanoseconds) {
  EXPECT_EQ(nanoseconds_from("0"), 0);
  EXPECT_EQ(nanoseconds_from("12"), 12000);
  EXPECT_EQ(nanoseconds_from("0.001"), 1);
  EXPECT_EQ(nanoseconds_from("-0.5"), -500);
  EXPECT_EQ(nanoseconds_from("-3.25"), -3250);
  EXPECT_EQ(nanoseconds_from("4423779779975.504"), 4423779779975504);
  EXPECT_EQ(nanoseconds_from("1.23456789"), 1234);
  EXPECT_EQ(nanoseconds_from("1.5e3"), 1500000);
  EXPECT_EQ(nanoseconds_from("\"7.5\""), 7500);
}

TEST(Numbers, RefusesWhatIsNoTime) {
  for (const char* text : {"", "x", "1.2.3", "1e", "1e400", "9223372036854775807", "1x", "\"",
                           "\"\"", "null", "nan", "1e19"}) {
    EXPECT_EQ(nanoseconds_from(text), std::nullopt) << text;
  }
}

std::string plain(std::string_view text) {
  std::int64_t invalid = 0;
  std::string result = unescaped(text, invalid);
  return result + "|" + std::to_string(invalid);
}

TEST(Numbers, ResolvesEscapes) {
  EXPECT_EQ(plain(R"(a\"b\\c\/d\n)"), "a\"b\\c/d\n|0");
  EXPECT_EQ(plain(R"(\u00e9\u20ac)"), "\u00e9\u20ac|0");
  EXPECT_EQ(plain(R"(\ud83d\ude00)"), "\U0001F600|0");
  EXPECT_EQ(plain(R"(\ud83d)"), "?|0");
  EXPECT_EQ(plain(R"(C:\Users\x\u12)"), "C:\\Users\\x\\u12|3");
  EXPECT_EQ(plain("\\"), "\\|0");
}

TEST(Numbers, MendsOnlyWhatIsBroken) {
  const std::string good = R"({"a": [1, -2.5e3, true, null, "x\n\u00e9"]})";
  EXPECT_EQ(mended(good), good);
  EXPECT_EQ(mended("{\"a\": N/A, \"b\": -nan, \"c\": inf}"),
            R"({"a": null, "b": null, "c": null})");
  EXPECT_EQ(mended("{\"a\": \"x\ny\xffz\\q\"}"), R"({"a": "x y?z\\q"})");
  EXPECT_EQ(mended("{\"a"), "{\"a\"");
  EXPECT_EQ(mended("\"a\\"), "\"a\\\"");
}

}  // namespace
}  // namespace autotuned::traces
