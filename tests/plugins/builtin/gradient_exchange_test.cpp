// SPDX-License-Identifier: Apache-2.0
// gradient_buckets and gradient_compression: what they propose for ranks that wait for gradients.
#include <gtest/gtest.h>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

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
  Answers answers("gradient_buckets");
  const Json answer = answers.proposes("one bucket", json, {{kCap, 20}});
  EXPECT_EQ(changes_of(answer), Json({{{kCap, 20}}, {{kCap, 40}}, {{kView, true}}}));
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.2 * 0.75), 1e-9);
  EXPECT_NEAR(first_share(answer), 0.2, 1e-9);
  tell(json, {{kCap, 20}}, "rejected", 0.9);
  answers.proposes("20 MiB were tried", json, {{kCap, 40}});
}

TEST(GradientBuckets, JoinManySmallOnes) {
  Json json = waiting_ranks();
  json["incumbent"][kCap] = 1;
  const Json answer = Answers("gradient_buckets").proposes("80 buckets", json, {{kCap, 80}});
  EXPECT_EQ(changes_of(answer), Json({{{kCap, 80}}, {{kView, true}}}));
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.2 * 0.25), 1e-9);
}

TEST(GradientBuckets, SayWhyNot) {
  Answers answers("gradient_buckets");
  const Json json = waiting_ranks();
  answers.declines("1 % of waiting", json, {{"metrics", {{"ranks.exposed_ratio", 0.01}}}});
  answers.declines("no measurement", json, {{"metrics", {{"ranks.exposed_ratio", nullptr}}}});
  answers.declines("no knob", json,
                   {{"knobs", {{kCap, {{"unavailable", "needs several ranks (train.ranks)"}}}}}});
}

TEST(GradientBuckets, SmallGradientsHaveNoSizeToTry) {
  Answers answers("gradient_buckets");
  Json json = waiting_ranks();
  json["metrics"]["parameters.bytes"] = 200'000;
  const Json answer = answers.proposes("200 kB", json, {{kView, true}});
  EXPECT_EQ(changes_of(answer), Json::array({{{kView, true}}}));
  answers.declines("200 kB, and the view is set", json, {{"incumbent", {{kView, true}}}});
}

TEST(GradientCompression, HalvesWhatIsWaitedFor) {
  Answers answers("gradient_compression");
  Json json = waiting_ranks();
  const Json answer = answers.proposes("20 % of waiting", json, {{kHook, "bf16"}});
  EXPECT_EQ(changes_of(answer), Json({{{kHook, "bf16"}}, {{kHook, "fp16"}}}));
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.4 * 0.2), 1e-9);
  answers.declines("4 % of waiting", json, {{"metrics", {{"ranks.exposed_ratio", 0.04}}}});
  answers.declines("it is set", json, {{"incumbent", {{kHook, "bf16"}}}});
  tell(json, {{kHook, "bf16"}}, "rejected", 0.9);
  tell(json, {{kHook, "fp16"}}, "failed", 0.0);
  answers.declines("both were tried", json);
}

}  // namespace
}  // namespace autotuned::plugins
