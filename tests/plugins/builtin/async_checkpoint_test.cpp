// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/plugins/share.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
  Json json = slow_disk();
  const Json answer = ask("async_checkpoint", json);
  EXPECT_EQ(first_change(answer), Json({{kAsync, true}}));
  EXPECT_THAT(first_reason(answer), AllOf(HasSubstr("9.0 % of the training's time"),
                                          HasSubstr("0.5 s every 5.0 s"), HasSubstr("0.050 s")));
  EXPECT_NEAR(first_share(answer), 0.09, 1e-9);
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.072), 1e-9);
  tell(json, {{kAsync, true}}, "rejected", 1.0);
  EXPECT_THAT(none_because(ask("async_checkpoint", json)), HasSubstr("was tried"));
  tell(json, {{kAsync, true}}, "accepted", 1.08);
  EXPECT_THAT(none_because(ask("async_checkpoint", json)), HasSubstr("already"));
}

// What no block can show is said, not tried.
TEST(AsyncCheckpoint, LeavesRareOnesToTheUser) {
  Json json = slow_disk();
  json["recipe"]["checkpoint_every_ns"] = 60'000'000'000;
  EXPECT_THAT(none_because(ask("async_checkpoint", json)),
              AllOf(HasSubstr("every 60.0 s"), HasSubstr("checkpoint.async: on under start")));
}

TEST(AsyncCheckpoint, SaysWhyNot) {
  Json json = slow_disk();
  json["metrics"]["train.checkpoint_ratio"] = 0.0001;
  EXPECT_THAT(none_because(ask("async_checkpoint", json)), HasSubstr("takes 0.0 %"));
  json["metrics"]["checkpoint.write_ns"] = 0;
  EXPECT_THAT(none_because(ask("async_checkpoint", json)), HasSubstr("does not say"));
}

}  // namespace
}  // namespace autotuned::plugins
