// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

TEST(OmpWaitPolicy, FollowsTheNumberOfOperators) {
  Answers answers("omp_wait_policy");
  Json json = situation("fashion_cnn_cpu");
  const Json change = {{"env.GOMP_SPINCOUNT", "300000"}};
  const Json answer = answers.proposes("160 operators in 12 ms", json, change);
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 160 * 7.5e3 / 12e6), 1e-9);
  EXPECT_NEAR(first_share(answer), 160 * 50e3 / 12e6, 1e-9);
  tell(json, change, "rejected", 0.98);
  answers.declines("it was tried", json);
}

TEST(OmpWaitPolicy, SaysWhyNot) {
  Answers answers("omp_wait_policy");
  const Json json = situation("fashion_cnn_cpu");
  answers.declines("long steps", json, {{"metrics", {{"step.duration_ns", 12e9}}}});
  answers.declines("one thread", json, {{"incumbent", {{"threads.intra_op", 1}}}});
  answers.declines("it is set", json, {{"incumbent", {{"env.GOMP_SPINCOUNT", "300000"}}}});
  answers.declines("a GPU", situation("resnet18_gpu"));
  answers.declines("no knob", json, {{"knobs", {{"env.*", nullptr}}}});
}

}  // namespace
}  // namespace autotuned::plugins
