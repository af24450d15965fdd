// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

constexpr const char* kReadAhead = "input.read_ahead";

// Photos on a disk that is slower than the decoder.
Json cold_photos() {
  Json json = situation("fashion_cnn_cpu");
  json["metrics"]["step.data_wait_ratio"] = 0.6;
  json["metrics"]["input.read_ratio"] = 0.5;
  json["metrics"]["input.storage_bytes_per_step"] = 1.6 * (1 << 20);
  json["job"]["cache_raw_bytes"] = 100LL << 30;
  return json;
}

TEST(PageCache, ReadsAheadWhereStorageIsRead) {
  Answers answers("page_cache");
  Json json = cold_photos();
  const Json answer = answers.proposes("100 GiB on a slow disk", json, {{kReadAhead, 8}});
  EXPECT_NEAR(first_share(answer), 0.3, 1e-9);
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.15), 1e-9);
  answers.proposes("data that fit into memory", json, {{kReadAhead, 8}},
                   {{"job", {{"cache_raw_bytes", 1LL << 30}}}});
  tell(json, {{kReadAhead, 8}}, "accepted", 1.2);
  answers.proposes("8 were faster", json, {{kReadAhead, 32}});
  tell(json, {{kReadAhead, 32}}, "rejected", 1.0);
  answers.declines("32 were not", json);
  answers.declines("the largest value", json, {{"incumbent", {{kReadAhead, 64}}}});
}

TEST(PageCache, SaysWhyNot) {
  Answers answers("page_cache");
  const Json json = cold_photos();
  answers.declines("1 % in reading", json, {{"metrics", {{"input.read_ratio", 0.01}}}});
  answers.declines("nothing is read", json, {{"metrics", {{"input.storage_bytes_per_step", 0}}}});
  answers.declines("1 % of waiting", json, {{"metrics", {{"step.data_wait_ratio", 0.01}}}});
  answers.declines("no measurement", json, {{"metrics", {{"step.data_wait_ratio", nullptr}}}});
  answers.declines("no files", json, {{"job", {{"cache_raw_bytes", 0}}}});
}

}  // namespace
}  // namespace autotuned::plugins
