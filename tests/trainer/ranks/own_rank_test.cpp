// SPDX-License-Identifier: Apache-2.0
#include "trainer/ranks/own_rank.hpp"

#include <gmock/gmock.h>

#include <map>
#include <string>

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Result<std::optional<OwnRank>> place_in(const Variables& variables) {
  return own_rank_from([&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found != variables.end() ? found->second.c_str() : nullptr;
  });
}

std::string error_in(const Variables& variables) {
  const auto place = place_in(variables);
  return place ? "" : place.error().message();
}

TEST(OwnRank, IsReadAsItWasWritten) {
  Variables variables;
  for (const std::string& one : rank_variables({.rank = 2, .ranks = 4, .store = "/proc/7/fd/5"}))
    variables[one.substr(0, one.find('='))] = one.substr(one.find('=') + 1);
  const auto place = place_in(variables);
  ASSERT_TRUE(place && *place);
  EXPECT_EQ((*place)->rank, 2);
  EXPECT_EQ((*place)->ranks, 4);
  EXPECT_EQ((*place)->store, "/proc/7/fd/5");
}

TEST(OwnRank, IsNoneWithoutVariables) {
  const auto place = place_in({});
  ASSERT_TRUE(place);
  EXPECT_FALSE(place->has_value());
}

TEST(OwnRank, NamesTheVariableThatIsWrong) {
  EXPECT_THAT(error_in({{"AUTOTUNED_RANK", "1"}}), HasSubstr("AUTOTUNED_RANKS"));
  EXPECT_THAT(error_in({{"AUTOTUNED_RANK", "one"}}), HasSubstr("found 'one'"));
  EXPECT_THAT(error_in({{"AUTOTUNED_RANK", "-1"}}), HasSubstr("found '-1'"));
  EXPECT_THAT(error_in({{"AUTOTUNED_RANK", "1"}, {"AUTOTUNED_RANKS", "2"}}),
              HasSubstr("AUTOTUNED_RANK_STORE"));
  EXPECT_THAT(
      error_in(
          {{"AUTOTUNED_RANK", "2"}, {"AUTOTUNED_RANKS", "2"}, {"AUTOTUNED_RANK_STORE", "/tmp/x"}}),
      HasSubstr("there is no rank 2 among 2"));
}

}  // namespace
}  // namespace autotuned::trainer
