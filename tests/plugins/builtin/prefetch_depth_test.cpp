// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/plugins/share.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
  Json json = unequal_batches();
  const Json answer = ask("prefetch_depth", json);
  EXPECT_EQ(first_change(answer), Json({{"loader.prefetch_batches", 4}}));
  EXPECT_THAT(first_reason(answer),
              AllOf(HasSubstr("waits 20 %"), HasSubstr("2 workers need only 80 %")));
  EXPECT_NEAR(first_share(answer), 0.2, 1e-9);
  tell(json, {{"loader.prefetch_batches", 4}}, "accepted", 1.1);
  EXPECT_EQ(first_change(ask("prefetch_depth", json)), Json({{"loader.prefetch_batches", 8}}));
  tell(json, {{"loader.prefetch_batches", 8}}, "rejected", 1.0);
  EXPECT_THAT(none_because(ask("prefetch_depth", json)), HasSubstr("was tried"));
  json["incumbent"]["loader.prefetch_batches"] = 16;
  EXPECT_THAT(none_because(ask("prefetch_depth", json)),
              HasSubstr("already has its largest length"));
}

TEST(PrefetchDepth, SaysWhyNot) {
  Json json = unequal_batches();
  json["metrics"]["loader.sample_ns"] = 900'000.0;
  EXPECT_THAT(none_because(ask("prefetch_depth", json)),
              AllOf(HasSubstr("144 %"), HasSubstr("cannot fill")));
  json["metrics"]["step.data_wait_ratio"] = 0.01;
  EXPECT_THAT(none_because(ask("prefetch_depth", json)), HasSubstr("only 1.0 %"));
  json["incumbent"]["loader.workers"] = 0;
  EXPECT_THAT(none_because(ask("prefetch_depth", json)), HasSubstr("without loader workers"));
}

}  // namespace
}  // namespace autotuned::plugins
