// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

TEST(SetToNone, ProposesItByTheShareOfFilling) {
  Answers answers("set_to_none");
  const Json answer = answers.proposes("1.2 % in filling", situation("fashion_cnn_cpu"),
                                       {{"optimizer.set_to_none", true}});
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.024), 1e-9);
  EXPECT_NEAR(first_share(answer), 0.024, 1e-9);
}

TEST(SetToNone, ReleasesWhatTheOptimizerMissesThenOnlyAsNumerics) {
  Answers answers("set_to_none");
  Json json = situation("fashion_cnn_cpu");
  const Json change = {{"optimizer.set_to_none", true}};
  json["metrics"]["gradients.complete"] = 0;
  json["permissions"]["numerics"] = true;
  answers.proposes("consent", json, change);
  json["permissions"]["numerics"] = false;
  answers.declines("no consent", json);
  json["permissions"]["option"] = "--allow";
  answers.declines("no consent to a script", json);
  json["metrics"].erase("gradients.complete");
  answers.proposes("not known: the check decides then", json, change);
}

TEST(SetToNone, SaysWhyNot) {
  Answers answers("set_to_none");
  Json json = situation("fashion_cnn_cpu");
  tell(json, {{"optimizer.set_to_none", true}}, "rejected", 1.001);
  answers.declines("it was tried", json);
  json["metrics"]["step.zero_grad_ratio"] = 0.0002;
  json["metrics"].erase("operators.fill_ratio");
  answers.declines("no time in it", json);
  json["metrics"].erase("step.zero_grad_ratio");
  answers.declines("no measurement", json);
  answers.declines("it is set", json, {{"incumbent", {{"optimizer.set_to_none", true}}}});
}

}  // namespace
}  // namespace autotuned::plugins
