// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

constexpr const char* kAsync = "checkpoint.async";

// A checkpoint of half a second every five.
Json slow_disk() {
  Json json = situation("fashion_cnn_cpu");
  json["metrics"]["checkpoint.copy_ns"] = 0.05e9;
  json["metrics"]["checkpoint.write_ns"] = 0.45e9;
  json["metrics"]["train.checkpoint_ratio"] = 0.1;
  json["recipe"]["checkpoint_every_ns"] = 5'000'000'000;
  return json;
}

TEST(AsyncCheckpoint, TakesTheWritingOutOfTheTraining) {
  Answers answers("async_checkpoint");
  Json json = slow_disk();
  const Json answer = answers.proposes("0.5 s every 5 s", json, {{kAsync, true}});
  EXPECT_NEAR(first_share(answer), 0.09, 1e-9);
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.072), 1e-9);
  tell(json, {{kAsync, true}}, "rejected", 1.0);
  answers.declines("it was tried", json);
  answers.declines("it is set", json, {{"incumbent", {{kAsync, true}}}});
}

// What no block can show is said, not tried.
TEST(AsyncCheckpoint, SaysWhyNot) {
  Answers answers("async_checkpoint");
  const Json json = slow_disk();
  answers.declines("rare ones", json, {{"recipe", {{"checkpoint_every_ns", 60'000'000'000}}}});
  answers.declines("cheap ones", json, {{"metrics", {{"train.checkpoint_ratio", 0.0001}}}});
  answers.declines("no measurement", json, {{"metrics", {{"checkpoint.write_ns", 0}}}});
}

}  // namespace
}  // namespace autotuned::plugins
