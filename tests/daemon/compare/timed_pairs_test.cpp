// SPDX-License-Identifier: Apache-2.0
// The line protocol over which the Python package asks for a verdict.
#include "daemon/compare/timed_pairs.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "daemon/common/exit_codes.hpp"

namespace autotuned::daemon {
namespace {

using testing::HasSubstr;

struct Talk {
  int code = 0;
  std::vector<Json> answers;
};

Talk talk(const std::string& lines) {
  std::istringstream in(lines);
  std::ostringstream out;
  Talk done;
  done.code = judge_pairs(in, out);
  std::istringstream answers(out.str());
  for (std::string line; std::getline(answers, line);)
    done.answers.push_back(Json::parse(line));
  return done;
}

std::string pair_line(double a_seconds, double b_seconds) {
  const Json line = {
      {"a_seconds", a_seconds}, {"a_calls", 10}, {"b_seconds", b_seconds}, {"b_calls", 10}};
  return to_line(line) + "\n";
}

const std::string kRules = "{\"min_gain_ratio\": 0.02}\n";

// So many pairs of blocks of a tenth of a second, with noise of 3 %; B is faster by that factor.
std::string pairs_of(int count, double factor, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0.0, 0.03);
  std::string lines = kRules;
  for (int i = 0; i < count; ++i)
    lines += pair_line(0.1 * std::exp(noise(random)), 0.1 / factor * std::exp(noise(random)));
  return lines;
}

TEST(TimedPairs, AnswersEveryPair) {
  const Talk done = talk(pairs_of(3, 1.2, 1));
  EXPECT_EQ(done.code, kDone);
  ASSERT_EQ(done.answers.size(), 3U);
  EXPECT_EQ(done.answers[2].at("pairs"), 3);
  EXPECT_EQ(done.answers[0].at("low"), nullptr) << "one pair refutes nothing";
  EXPECT_EQ(done.answers[0].at("high"), nullptr);
  EXPECT_EQ(done.answers[0].at("is_decided"), false);
  EXPECT_EQ(done.answers[0].at("verdict"), "undecided_in_time");
}

TEST(TimedPairs, AGainOfAFifthIsFound) {
  const Talk done = talk(pairs_of(40, 1.2, 2));
  const Json& last = done.answers.back();
  EXPECT_EQ(last.at("verdict"), "faster");
  EXPECT_EQ(last.at("is_decided"), true);
  EXPECT_LT(last.at("low").get<double>(), 1.2);
  EXPECT_GT(last.at("low").get<double>(), 1.0);
  EXPECT_GT(last.at("high").get<double>(), 1.2);
  EXPECT_NEAR(last.at("a_per_second").get<double>(), 100.0, 5.0);
  EXPECT_NEAR(last.at("b_per_second").get<double>(), 120.0, 6.0);
}

TEST(TimedPairs, ALossIsSlower) {
  const Json last = talk(pairs_of(40, 0.8, 3)).answers.back();
  EXPECT_EQ(last.at("verdict"), "slower");
  EXPECT_EQ(last.at("is_decided"), true);
}

TEST(TimedPairs, ASmallGainWaitsForRareStallsUnlessBlocksAreLong) {
  // Seven equal signs show the sign; a gain below 30 % of short blocks takes 22 pairs all the same.
  std::string quick = kRules;
  std::string slow = kRules;
  for (int i = 0; i < 12; ++i) {
    quick += pair_line(0.12, 0.1);
    slow += pair_line(2.4, 2.0);
  }
  EXPECT_EQ(talk(quick).answers.back().at("is_decided"), false);
  EXPECT_EQ(talk(slow).answers.back().at("verdict"), "faster");
}

TEST(TimedPairs, AMedianThatStallsContradictIsNoGain) {
  std::string lines = kRules;
  for (int i = 0; i < 50; ++i)
    lines += pair_line(0.12, i % 5 == 4 ? 0.3 : 0.1);
  EXPECT_EQ(talk(lines).answers.back().at("verdict"), "totals");
}

TEST(TimedPairs, EqualSidesAreHardlyEverToldApart) {
  int faster = 0;
  int slower = 0;
  constexpr int kTalks = 60;
  for (int i = 0; i < kTalks; ++i) {
    const Talk done = talk(pairs_of(60, 1.0, 100U + static_cast<unsigned>(i)));
    bool has_won = false;
    bool has_lost = false;
    for (const Json& answer : done.answers) {
      has_won = has_won || (answer.at("is_decided") == true && answer.at("verdict") == "faster");
      has_lost = has_lost || answer.at("verdict") == "slower";
    }
    faster += has_won ? 1 : 0;
    slower += has_lost ? 1 : 0;
  }
  // 1 % each, at any time: more than three of sixty would have a probability of 1 in 1,000.
  EXPECT_LE(faster, 3);
  EXPECT_LE(slower, 3);
}

TEST(TimedPairs, RefusesWhatCannotBeUsed) {
  for (const std::string& lines :
       {std::string("nonsense\n"), std::string("{\"min_gain_ratio\": -1}\n"),
        kRules + "{\"a_seconds\": 1}\n", kRules + pair_line(0.0, 1.0), kRules + pair_line(1.0, 1e9),
        kRules + "{\"a_seconds\": 1, \"a_calls\": 0, \"b_seconds\": 1, \"b_calls\": 1}\n"}) {
    const Talk done = talk(lines + kRules);
    EXPECT_EQ(done.code, kUsageError) << lines;
    ASSERT_EQ(done.answers.size(), 1U) << lines;
    EXPECT_FALSE(done.answers[0].at("error").get<std::string>().empty()) << lines;
  }
  EXPECT_THAT(talk(kRules + "{}\n").answers.at(0).at("error").get<std::string>(),
              HasSubstr("a_seconds"));
}

}  // namespace
}  // namespace autotuned::daemon
