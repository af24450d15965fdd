// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/plugins/share.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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
  Json json = cold_photos();
  const Json answer = ask("page_cache", json);
  EXPECT_EQ(first_change(answer), Json({{kReadAhead, 8}}));
  EXPECT_THAT(first_reason(answer),
              AllOf(HasSubstr("waits 60 %"), HasSubstr("takes 50 % of a sample's time"),
                    HasSubstr("1.6 MiB from storage"), Not(HasSubstr("input.cache"))));
  EXPECT_NEAR(first_share(answer), 0.3, 1e-9);
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.15), 1e-9);
  tell(json, {{kReadAhead, 8}}, "accepted", 1.2);
  EXPECT_EQ(first_change(ask("page_cache", json)), Json({{kReadAhead, 32}}));
  tell(json, {{kReadAhead, 32}}, "rejected", 1.0);
  EXPECT_THAT(none_because(ask("page_cache", json)), HasSubstr("32 batches ahead was tried"));
  json["incumbent"][kReadAhead] = 64;
  EXPECT_THAT(none_because(ask("page_cache", json)), HasSubstr("has its largest value"));
}

TEST(PageCache, SaysWhenTheDataFitIntoMemory) {
  Json json = cold_photos();
  json["job"]["cache_raw_bytes"] = 1LL << 30;
  EXPECT_THAT(first_reason(ask("page_cache", json)),
              HasSubstr("all 1.0 GiB fit into memory: with input.cache: raw"));
}

TEST(PageCache, SaysWhyNot) {
  Json json = cold_photos();
  json["metrics"]["input.read_ratio"] = 0.01;
  EXPECT_THAT(none_because(ask("page_cache", json)), HasSubstr("only 1.0 %"));
  json["metrics"]["input.storage_bytes_per_step"] = 0;
  EXPECT_THAT(none_because(ask("page_cache", json)), HasSubstr("all files in memory"));
  json["metrics"]["step.data_wait_ratio"] = 0.01;
  EXPECT_THAT(none_because(ask("page_cache", json)), HasSubstr("waits only 1.0 %"));
  json["metrics"].erase("step.data_wait_ratio");
  EXPECT_THAT(none_because(ask("page_cache", json)), HasSubstr("does not say"));
  json["job"]["cache_raw_bytes"] = 0;
  EXPECT_THAT(none_because(ask("page_cache", json)), HasSubstr("not read from files"));
}

}  // namespace
}  // namespace autotuned::plugins
