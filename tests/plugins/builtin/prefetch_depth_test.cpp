// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

constexpr const char* kDepth = "loader.prefetch_batches";

// Two workers that keep up on average with steps of 10 ms, and steps that wait all the same.
Json unequal_batches() {
  Json json = situation("fashion_cnn_cpu");
  json["incumbent"]["loader.workers"] = 2;
  json["metrics"]["step.data_wait_ratio"] = 0.2;
  json["metrics"]["step.duration_ns"] = 12.5e6;
  json["metrics"]["step.samples"] = 32;
  json["metrics"]["loader.sample_ns"] = 500'000.0;  // 16 ms of a thread, 8 ms of two
  return json;
}

TEST(PrefetchDepth, DoublesTheQueueWhereWorkersKeepUp) {
  Answers answers("prefetch_depth");
  Json json = unequal_batches();
  EXPECT_NEAR(first_share(answers.proposes("20 % of waiting", json, {{kDepth, 4}})), 0.2, 1e-9);
  tell(json, {{kDepth, 4}}, "accepted", 1.1);
  answers.proposes("4 were faster", json, {{kDepth, 8}});
  tell(json, {{kDepth, 8}}, "rejected", 1.0);
  answers.declines("8 were not", json);
  answers.declines("the largest value", json, {{"incumbent", {{kDepth, 16}}}});
}

TEST(PrefetchDepth, SaysWhyNot) {
  Answers answers("prefetch_depth");
  const Json json = unequal_batches();
  answers.declines("slow workers", json, {{"metrics", {{"loader.sample_ns", 900'000.0}}}});
  answers.declines("1 % of waiting", json, {{"metrics", {{"step.data_wait_ratio", 0.01}}}});
  answers.declines("no workers", json, {{"incumbent", {{"loader.workers", 0}}}});
}

}  // namespace
}  // namespace autotuned::plugins
