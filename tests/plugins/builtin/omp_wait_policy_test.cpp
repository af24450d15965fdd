// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/plugins/share.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(OmpWaitPolicy, FollowsTheNumberOfOperators) {
  Json json = situation("fashion_cnn_cpu");
  const Json answer = ask("omp_wait_policy", json);
  EXPECT_EQ(first_change(answer), Json({{"env.GOMP_SPINCOUNT", "300000"}}));
  EXPECT_THAT(first_reason(answer),
              AllOf(HasSubstr("12.0 ms has 160 operators"), HasSubstr("20 % of the step")));
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 160 * 7.5e3 / 12e6), 1e-9);
  EXPECT_NEAR(first_share(answer), 160 * 50e3 / 12e6, 1e-9);
  tell(json, {{"env.GOMP_SPINCOUNT", "300000"}}, "rejected", 0.98);
  EXPECT_THAT(none_because(ask("omp_wait_policy", json)), HasSubstr("were tried"));
}

TEST(OmpWaitPolicy, SaysWhyNot) {
  Json json = situation("fashion_cnn_cpu");
  json["metrics"]["step.duration_ns"] = 12e9;
  EXPECT_THAT(none_because(ask("omp_wait_policy", json)), HasSubstr("at most 0.1 %"));
  json["incumbent"]["threads.intra_op"] = 1;
  EXPECT_THAT(none_because(ask("omp_wait_policy", json)), HasSubstr("one thread"));
  json["incumbent"]["env.GOMP_SPINCOUNT"] = "300000";
  EXPECT_THAT(none_because(ask("omp_wait_policy", json)), HasSubstr("already sets"));
  EXPECT_THAT(none_because(ask("omp_wait_policy", situation("resnet18_gpu"))), HasSubstr("GPU"));
  json["knobs"].erase("env.*");
  EXPECT_THAT(none_because(ask("omp_wait_policy", json)), HasSubstr("no knob env.GOMP_SPINCOUNT"));
}

}  // namespace
}  // namespace autotuned::plugins
