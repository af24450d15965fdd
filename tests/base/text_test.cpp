// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace autotuned {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

const std::vector<std::string> kKnobs = {"loader.workers", "loader.pin_memory", "batch_size",
                                         "precision.autocast", "lr"};

TEST(Trimmed, LeavesOutBlanksAtBothEnds) {
  EXPECT_EQ(trimmed(" \t two words\r\n"), "two words");
  EXPECT_EQ(trimmed("word"), "word");
  EXPECT_EQ(trimmed(" \n"), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(FirstLine, EndsAtTheFirstLineEnd) {
  EXPECT_EQ(first_line("a message\nand a page of details"), "a message");
  EXPECT_EQ(first_line("a message"), "a message");
  EXPECT_EQ(first_line(nullptr), "unknown error");
}

TEST(NearestName, FindsSlips) {
  EXPECT_EQ(nearest_name("loader.worker", kKnobs), "loader.workers");
  EXPECT_EQ(nearest_name("bacth_size", kKnobs), "batch_size");  // two neighbours swapped
  EXPECT_EQ(nearest_name("rl", kKnobs), "lr");                  // which counts as one
  EXPECT_EQ(nearest_name("BATCH_SIZE", kKnobs), "batch_size");  // case does not count
  EXPECT_EQ(nearest_name("lt", kKnobs), "lr");                  // one is always allowed
}

TEST(NearestName, SaysNothingWhenNothingIsNear) {
  EXPECT_EQ(nearest_name("momentum", kKnobs), std::nullopt);
  EXPECT_EQ(nearest_name("xy", kKnobs), std::nullopt);
  EXPECT_EQ(nearest_name("anything", {}), std::nullopt);
  EXPECT_EQ(nearest_name("", kKnobs), std::nullopt);
}

TEST(NearestName, AThirdOfTheLengthIsTheLimit) {
  const std::vector<std::string> names = {"abcdefghi"};
  EXPECT_EQ(nearest_name("abcdefxyz", names), "abcdefghi");
  EXPECT_EQ(nearest_name("abcdexxyz", names), std::nullopt);
}

TEST(NearestName, TakesTheNearerAndThenTheFirst) {
  const std::vector<std::string> names = {"workers_a", "workers", "workerz"};
  EXPECT_EQ(nearest_name("workersx", names), "workers");
  EXPECT_EQ(nearest_name("workerq", names), "workers");
}

TEST(FormatDuration, PicksTheUnit) {
  EXPECT_EQ(format_duration(0ns), "0 ns");
  EXPECT_EQ(format_duration(999ns), "999 ns");
  EXPECT_EQ(format_duration(12us), "12 µs");
  EXPECT_EQ(format_duration(1500us), "1.5 ms");
  EXPECT_EQ(format_duration(850ms), "850 ms");
  EXPECT_EQ(format_duration(12300ms), "12.3 s");
  EXPECT_EQ(format_duration(4min + 5s), "4 min 05 s");
  EXPECT_EQ(format_duration(2h + 3min), "2 h 03 min");
  EXPECT_EQ(format_duration(-850ms), "-850 ms");
}

TEST(FormatExactDuration, IsWhatPeopleWrite) {
  EXPECT_EQ(format_exact_duration(0ns), "0s");
  EXPECT_EQ(format_exact_duration(90s), "90s");
  EXPECT_EQ(format_exact_duration(2min), "2min");
  EXPECT_EQ(format_exact_duration(3h), "3h");
  for (const nanoseconds duration : {nanoseconds(1500ms), nanoseconds(61s), nanoseconds(7us)}) {
    EXPECT_EQ(parse_duration(format_exact_duration(duration)).value(), duration);
  }
}

TEST(FormatSpan, HasThreeFigures) {
  EXPECT_EQ(format_span(0), "0 ns");
  EXPECT_EQ(format_span(351.4), "351 ns");
  EXPECT_EQ(format_span(1500), "1.50 µs");
  EXPECT_EQ(format_span(12'340), "12.3 µs");
  EXPECT_EQ(format_span(456'700), "457 µs");
  EXPECT_EQ(format_span(8'046'000), "8.05 ms");
  EXPECT_EQ(format_span(1'234'000'000), "1.23 s");
  EXPECT_EQ(format_span(-8'046'000), "-8.05 ms");
  EXPECT_EQ(format_span(245e9), "4 min 05 s");
}

TEST(FormatSpan, RoundingMovesToTheNextUnit) {
  EXPECT_EQ(format_span(-0.2), "0 ns");
  EXPECT_EQ(format_span(999.6), "1.00 µs");
  EXPECT_EQ(format_span(9'996), "10.0 µs");
  EXPECT_EQ(format_span(99'960), "100 µs");
  EXPECT_EQ(format_span(999.6e6), "1.00 s");
  EXPECT_EQ(format_span(59.98e9), "1 min 00 s");
  EXPECT_EQ(format_span(1e300), format_span(9e18));
  EXPECT_EQ(format_span(std::nan("")), "unknown");
}

TEST(FormatDuration, RoundingMovesToTheNextUnit) {
  EXPECT_EQ(format_duration(999'600us), "1.0 s");
  EXPECT_EQ(format_duration(999'600ns), "1.0 ms");
  EXPECT_EQ(format_duration(9'960us), "10 ms");
  EXPECT_EQ(format_duration(59'970ms), "1 min 00 s");
  EXPECT_EQ(format_duration(59min + 59'700ms), "1 h 00 min");
  EXPECT_EQ(format_duration(1h + 59min + 45s), "2 h 00 min");
  EXPECT_EQ(format_duration(nanoseconds::min()).front(), '-');
}

TEST(FormatBytes, PicksTheUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(3LL << 29U), "1.5 GiB");
  EXPECT_EQ(format_bytes((1 << 20) - 1), "1.0 MiB");  // not "1024.0 KiB"
  EXPECT_EQ(format_bytes(-2048), "-2.0 KiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<std::int64_t>::max()), "8.0 EiB");
}

TEST(FormatCount, GroupsByThree) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(12345), "12,345");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-123), "-123");
  EXPECT_EQ(format_count(-1234), "-1,234");
  EXPECT_EQ(format_count(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(FormatGain, ShowsTheSignAndOneDigit) {
  EXPECT_EQ(format_gain(1.234), "+23.4 %");
  EXPECT_EQ(format_gain(0.98), "-2.0 %");
  EXPECT_EQ(format_gain(1.0), "+0.0 %");
  EXPECT_EQ(format_gain(0.99999), "+0.0 %");  // never "-0.0 %"
  EXPECT_EQ(format_gain(3.5), "+250.0 %");
  EXPECT_EQ(format_gain(std::nan("")), "unknown");
  EXPECT_EQ(format_gain(1.0003, 2), "+0.03 %");
  EXPECT_EQ(format_gain(0.999999, 2), "+0.00 %");
}

TEST(RatioDecimals, AreMoreWhereRoundingWouldContradictTheInterval) {
  EXPECT_EQ(ratio_decimals(1.18, 1.29, 2), 2);
  EXPECT_EQ(ratio_decimals(0.97, 1.03, 2), 2) << "it holds 1";
  EXPECT_EQ(ratio_decimals(0.9999, 1.03, 2), 2) << "it holds 1, and says so";
  EXPECT_EQ(ratio_decimals(1.002, 1.1, 2), 3) << "it would seem to hold 1";
  EXPECT_EQ(ratio_decimals(0.9, 0.998, 2), 3);
  EXPECT_EQ(ratio_decimals(1.0002, 1.1, 2), 4);
  EXPECT_EQ(ratio_decimals(1.0000002, 1.1, 2), 4) << "no more than two more";
  EXPECT_EQ(ratio_decimals(1.048, 1.052, 2), 3) << "its ends would look equal";
  EXPECT_EQ(ratio_decimals(1.0, 1.0, 2), 2) << "they are equal";
  EXPECT_EQ(ratio_decimals(1.001, 1.1, 3), 3);
  EXPECT_EQ(ratio_decimals(0.0, 1e6, 2), 2) << "no end is known";
}

TEST(FormatRatio, OnlyOneReadsAsOne) {
  EXPECT_EQ(format_ratio(1.0), "1.00");
  EXPECT_EQ(format_ratio(1.005), "1.005");
  EXPECT_EQ(format_ratio(0.9996), "0.9996");
  EXPECT_EQ(format_ratio(1.354), "1.35");
}

TEST(ParseDuration, ReadsWhatPeopleWrite) {
  EXPECT_EQ(*parse_duration("10min"), 10min);
  EXPECT_EQ(*parse_duration("90s"), 90s);
  EXPECT_EQ(*parse_duration("1h30min"), 90min);
  EXPECT_EQ(*parse_duration("250ms"), 250ms);
  EXPECT_EQ(*parse_duration("1.5h"), 90min);
  EXPECT_EQ(*parse_duration(" 4 min 05 s "), 4min + 5s);
  EXPECT_EQ(*parse_duration("0s"), 0s);
  EXPECT_EQ(*parse_duration("1us2ns"), 1002ns);
}

TEST(ParseDuration, RefusesTheRest) {
  for (const char* text :
       {"", " ", "10", "min", "-5s", "5m", "1min1h", "1s1s", "1e3s", "1.2.3s", "inf s", "nan",
        "5 parsecs", "9999999h99", "99999999999999999999h", "1h-1min", "0x10s", "10minx"}) {
    const auto parsed = parse_duration(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::invalid);
    EXPECT_FALSE(parsed.error().remedy.empty());
  }
}

TEST(ParseBytes, ReadsWhatPeopleWrite) {
  EXPECT_EQ(*parse_bytes("6GiB"), 6LL << 30U);
  EXPECT_EQ(*parse_bytes("512MiB"), 512LL << 20U);
  EXPECT_EQ(*parse_bytes("1000"), 1000);
  EXPECT_EQ(*parse_bytes("1.5 KiB"), 1536);
  EXPECT_EQ(*parse_bytes("12B"), 12);
  EXPECT_EQ(*parse_bytes("2TiB"), 2LL << 40U);
  EXPECT_EQ(*parse_bytes("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
}

TEST(ParseBytes, RefusesTheRest) {
  for (const char* text : {"", "GiB", "-1", "-1GiB", "6GB", "6gib", "1e9", "inf", "9999999TiB",
                           "9223372036854775808", "1 2", "12 apples"}) {
    const auto parsed = parse_bytes(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::invalid);
  }
}

TEST(FormatShare, HasADigitBehindThePointWhereItIsSmall) {
  EXPECT_EQ(format_share(0.314), "31 %");
  EXPECT_EQ(format_share(0.004), "0.4 %");
  EXPECT_EQ(format_share(1.0), "100 %");
  EXPECT_EQ(format_share(0.0), "0.0 %");
}

TEST(FormatCounted, HasTheWordInThePlural) {
  EXPECT_EQ(format_counted(0, "run"), "0 runs");
  EXPECT_EQ(format_counted(1, "picture"), "1 picture");
  EXPECT_EQ(format_counted(1200, "picture"), "1,200 pictures");
}

TEST(FormatNames, NamesTheFirstAndCountsTheOthers) {
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  EXPECT_EQ(format_names(names, 2), "a, b and 2 more");
  EXPECT_EQ(format_names(names, 4), "a, b, c, d");
  EXPECT_EQ(format_names(std::span(names).first(1), 4), "a");
  EXPECT_EQ(format_names({}, 4), "");
}

TEST(ParseRatio, ReadsPercentAndFraction) {
  EXPECT_DOUBLE_EQ(*parse_ratio("2%"), 0.02);
  EXPECT_DOUBLE_EQ(*parse_ratio("2.5 %"), 0.025);
  EXPECT_DOUBLE_EQ(*parse_ratio("0.02"), 0.02);
  EXPECT_DOUBLE_EQ(*parse_ratio("0"), 0.0);
  for (const char* text : {"", "%", "-2%", "2%%", "two", "nan", "inf", "1e-2", "2 percent"}) {
    EXPECT_FALSE(parse_ratio(text).has_value()) << text;
  }
}

// Whatever is printed can be typed in again and means the same, up to the digits shown.
TEST(Text, PrintedFiguresReadBack) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    const auto shift = std::uniform_int_distribution<unsigned>(20, 63)(random);
    const auto number = static_cast<std::int64_t>(random() >> shift);
    const auto duration = parse_duration(format_duration(nanoseconds(number)));
    if (number >= 1'000'000) {  // below, the unit is µs, which few can type
      ASSERT_TRUE(duration.has_value()) << format_duration(nanoseconds(number));
      EXPECT_NEAR(static_cast<double>(duration->count()), static_cast<double>(number),
                  0.06 * static_cast<double>(number));
    }
    const auto bytes = parse_bytes(format_bytes(number));
    if (number < (1LL << 50U)) {
      ASSERT_TRUE(bytes.has_value()) << format_bytes(number);
      EXPECT_NEAR(static_cast<double>(*bytes), static_cast<double>(number),
                  0.06 * static_cast<double>(number));
    }
  }
}

}  // namespace
}  // namespace autotuned
