// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/plugins/share.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::HasSubstr;

TEST(SetToNone, ProposesItByTheShareOfFilling) {
  const Json answer = ask("set_to_none", situation("fashion_cnn_cpu"));
  EXPECT_EQ(first_change(answer), Json({{"optimizer.set_to_none", true}}));
  EXPECT_THAT(first_reason(answer), HasSubstr("1.2 % of the step"));
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.024), 1e-9);
  EXPECT_NEAR(first_share(answer), 0.024, 1e-9);
}

TEST(SetToNone, ReleasesWhatTheOptimizerMissesThenOnlyAsNumerics) {
  Json json = situation("fashion_cnn_cpu");
  json["metrics"]["gradients.complete"] = 0;
  json["permissions"]["numerics"] = true;
  EXPECT_THAT(first_reason(ask("set_to_none", json)), HasSubstr("is checked as numerics"));
  json["permissions"]["numerics"] = false;
  EXPECT_THAT(none_because(ask("set_to_none", json)),
              HasSubstr("and the recipe does not allow numerics"));
  json["permissions"]["option"] = "--allow";
  EXPECT_THAT(none_because(ask("set_to_none", json)),
              HasSubstr("and --allow does not allow numerics"));
  json["metrics"].erase("gradients.complete");
  EXPECT_FALSE(first_change(ask("set_to_none", json)).is_null()) << "the check decides then";
}

TEST(SetToNone, SaysWhyNot) {
  Json json = situation("fashion_cnn_cpu");
  tell(json, {{"optimizer.set_to_none", true}}, "rejected", 1.001);
  EXPECT_THAT(none_because(ask("set_to_none", json)), HasSubstr("was tried"));
  json["metrics"]["step.zero_grad_ratio"] = 0.0002;
  json["metrics"].erase("operators.fill_ratio");
  EXPECT_THAT(none_because(ask("set_to_none", json)), HasSubstr("only 0.0 %"));
  json["metrics"].erase("step.zero_grad_ratio");
  EXPECT_THAT(none_because(ask("set_to_none", json)), HasSubstr("does not say"));
  json["incumbent"]["optimizer.set_to_none"] = true;
  EXPECT_THAT(none_because(ask("set_to_none", json)), HasSubstr("already"));
}

}  // namespace
}  // namespace autotuned::plugins
