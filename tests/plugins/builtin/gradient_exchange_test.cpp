// SPDX-License-Identifier: Apache-2.0
// gradient_buckets and gradient_compression: what they propose for ranks that wait for gradients.
#include <gmock/gmock.h>

#include "tests/plugins/share.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::HasSubstr;

constexpr const char* kCap = "ddp.bucket_cap_mb";
constexpr const char* kView = "ddp.gradient_as_bucket_view";
constexpr const char* kHook = "ddp.comm_hook";

// 80 MiB of gradients on two ranks.
Json waiting_ranks() {
  Json json = situation("fashion_cnn_cpu");
  json["recipe"]["ranks"] = 2;
  json["metrics"]["ranks.exposed_ratio"] = 0.2;
  json["metrics"]["parameters.bytes"] = 80.0 * 1024 * 1024;
  json["knobs"][kCap] = {{"type", "integer"}, {"minimum", 1},     {"maximum", 1024},
                         {"default", 25},     {"switch", "live"}, {"risk", "exact"}};
  json["knobs"][kView] = {
      {"type", "boolean"}, {"default", false}, {"switch", "live"}, {"risk", "exact"}};
  json["knobs"][kHook] = {{"type", "choice"},
                          {"choices", {"none", "bf16", "fp16"}},
                          {"default", "none"},
                          {"switch", "live"},
                          {"risk", "numerics"}};
  for (const char* configuration : {"starting", "incumbent"}) {
    json[configuration][kCap] = 100;
    json[configuration][kView] = false;
    json[configuration][kHook] = "none";
  }
  return json;
}

Json changes_of(const Json& answer) {
  Json changes = Json::array();
  for (const Json& candidate : answer.at("candidates"))
    changes.push_back(candidate.at("change"));
  return changes;
}

TEST(GradientBuckets, SplitWhatIsOneBucket) {
  Json json = waiting_ranks();
  const Json answer = ask("gradient_buckets", json);
  EXPECT_EQ(changes_of(answer), Json({{{kCap, 20}}, {{kCap, 40}}, {{kView, true}}}));
  EXPECT_THAT(first_reason(answer), HasSubstr("waits 20 % of the step"));
  EXPECT_THAT(first_reason(answer), HasSubstr("one bucket"));
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.2 * 0.75), 1e-9);
  EXPECT_NEAR(first_share(answer), 0.2, 1e-9);
  tell(json, {{kCap, 20}}, "rejected", 0.9);
  EXPECT_EQ(first_change(ask("gradient_buckets", json)), Json({{kCap, 40}}));
}

TEST(GradientBuckets, JoinManySmallOnes) {
  Json json = waiting_ranks();
  json["incumbent"][kCap] = 1;
  const Json answer = ask("gradient_buckets", json);
  EXPECT_EQ(changes_of(answer), Json({{{kCap, 80}}, {{kView, true}}}));
  EXPECT_THAT(first_reason(answer), HasSubstr("about 80 buckets"));
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.2 * 0.25), 1e-9);
}

TEST(GradientBuckets, SayWhyNot) {
  Json json = waiting_ranks();
  json["metrics"]["ranks.exposed_ratio"] = 0.01;
  EXPECT_THAT(none_because(ask("gradient_buckets", json)), HasSubstr("waits 1.0 %"));
  json["metrics"].erase("ranks.exposed_ratio");
  EXPECT_THAT(none_because(ask("gradient_buckets", json)), HasSubstr("does not say"));
  json["knobs"][kCap]["unavailable"] = "needs several ranks (train.ranks)";
  EXPECT_THAT(none_because(ask("gradient_buckets", json)), HasSubstr("needs several ranks"));
}

TEST(GradientBuckets, SmallGradientsHaveNoSizeToTry) {
  Json json = waiting_ranks();
  json["metrics"]["parameters.bytes"] = 200'000;
  EXPECT_EQ(changes_of(ask("gradient_buckets", json)), Json::array({{{kView, true}}}));
  json["incumbent"][kView] = true;
  EXPECT_THAT(none_because(ask("gradient_buckets", json)), HasSubstr("no other size"));
}

TEST(GradientCompression, HalvesWhatIsWaitedFor) {
  Json json = waiting_ranks();
  const Json answer = ask("gradient_compression", json);
  EXPECT_EQ(changes_of(answer), Json({{{kHook, "bf16"}}, {{kHook, "fp16"}}}));
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.4 * 0.2), 1e-9);
  tell(json, {{kHook, "bf16"}}, "accepted", 1.1);
  EXPECT_THAT(none_because(ask("gradient_compression", json)), HasSubstr("already"));
}

TEST(GradientCompression, SaysWhyNot) {
  Json json = waiting_ranks();
  json["metrics"]["ranks.exposed_ratio"] = 0.04;
  EXPECT_THAT(none_because(ask("gradient_compression", json)), HasSubstr("waits 4.0 %"));
  json["metrics"]["ranks.exposed_ratio"] = 0.2;
  tell(json, {{kHook, "bf16"}}, "rejected", 0.9);
  tell(json, {{kHook, "fp16"}}, "failed", 0.0);
  EXPECT_THAT(none_because(ask("gradient_compression", json)), HasSubstr("were tried"));
}

}  // namespace
}  // namespace autotuned::plugins
