// SPDX-License-Identifier: Apache-2.0
#include "base/identifier.hpp"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string_view>

#include "base/clock.hpp"

namespace autotuned {
namespace {

TEST(RunId, CarriesTheDayInUtc) {
  const std::regex shape("r-19700101-[0-9a-f]{6}");
  EXPECT_TRUE(std::regex_match(make_run_id(0).text, shape)) << make_run_id(0).text;
  EXPECT_TRUE(std::regex_match(make_run_id(86'399'999'999'999).text, shape));
  EXPECT_TRUE(make_run_id(86'400'000'000'000).text.starts_with("r-19700102-"));
  EXPECT_TRUE(make_run_id(1'795'219'200'000'000'000).text.starts_with("r-20261121-"));
}

TEST(RunId, DiffersWithinOneInstant) {
  std::set<std::string> ids;
  for (int i = 0; i < 50; ++i)
    ids.insert(make_run_id(0).text);
  EXPECT_GE(ids.size(), 49U);  // two equal among 50 of 2^24: one chance in 14,000
}

TEST(RunId, HasOneForm) {
  EXPECT_TRUE(is_run_id(make_run_id(0).text));
  EXPECT_TRUE(is_run_id(make_run_id(1'795'219'200'000'000'000).text));
  for (const std::string_view other :
       {"", "r-", "r-20261121-7f3a9", "r-20261121-7f3a9c0", "r-20261121-7f3a9c\n",
        "r-20261121-7f3a9g", "r-20261121-7F3A9C", "r-2026112a-7f3a9c", "s-20261121-7f3a9c",
        "r-20261121.7f3a9c", "../../../../tmp/x", "r-20261121-../../"})
    EXPECT_FALSE(is_run_id(other)) << other;
}

TEST(TrialId, IsTheRunAndANumber) {
  EXPECT_EQ((TrialId{RunId{"r-20261121-7f3a9c"}, 3}).text(), "r-20261121-7f3a9c.3");
}

TEST(SystemClock, DoesNotGoBack) {
  const SystemClock clock;
  const auto before = clock.now();
  EXPECT_GE(clock.now(), before);
  EXPECT_GT(before.count(), 0);
  EXPECT_GT(clock.unix_time_ns(), 1'600'000'000'000'000'000);
}

}  // namespace
}  // namespace autotuned
