// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/plugins/loader_scene.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kCache = "input.cache";

// 1,000 photos that come ten times each, most of whose time is decoding.
Json photos() {
  Json json = situation("fashion_cnn_cpu");
  json["metrics"]["loader.cost_ratio"] = 0.9;
  json["metrics"]["input.read_ratio"] = 0.08;
  json["metrics"]["input.decode_ratio"] = 0.8;
  json["metrics"]["input.prefix_ratio"] = 0.8;
  json["job"]["train_samples"] = 1000;
  json["job"]["stored_samples"] = 1000;
  json["job"]["cache_raw_bytes"] = 100LL << 20;
  json["job"]["cache_decoded_bytes"] = 1200LL << 20;
  json["job"]["cache_prefix_bytes"] = 0;
  json["job"]["cache_allowed_bytes"] = 4LL << 30;
  json["recipe"]["train_samples_total"] = 10'000;
  return json;
}

TEST(InputCache, ProposesWhatSavesMostAndFits) {
  Json json = photos();
  const Json answer = ask("input_cache", json);
  EXPECT_EQ(first_change(answer), Json({{kCache, "decoded"}}));
  EXPECT_THAT(first_reason(answer),
              AllOf(HasSubstr("reading and decoding takes 80 %"), HasSubstr("is used 10 times"),
                    HasSubstr("1.2 GiB of memory, of 4.0 GiB allowed")));
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.72), 0.01);
  json["job"]["cache_prefix_bytes"] = 300LL << 20;  // a resize before anything random
  EXPECT_EQ(first_change(ask("input_cache", json)), Json({{kCache, "prefix"}}));
  tell(json, {{kCache, "prefix"}}, "rejected", 0.9);
  EXPECT_EQ(first_change(ask("input_cache", json)), Json({{kCache, "decoded"}}));
}

TEST(InputCache, TakesTheSmallerKindWhereTheLargerDoesNotFit) {
  Json json = photos();
  json["job"]["cache_allowed_bytes"] = 600LL << 20;
  Json answer = ask("input_cache", json);
  EXPECT_EQ(first_change(answer), Json({{kCache, "decoded"}}));
  EXPECT_THAT(first_reason(answer), HasSubstr("so that 50 % of them fit"));
  json["job"]["cache_allowed_bytes"] = 200LL << 20;
  answer = ask("input_cache", json);
  EXPECT_EQ(first_change(answer), Json({{kCache, "raw"}}));
  json["job"]["cache_allowed_bytes"] = 1LL << 20;
  EXPECT_THAT(none_because(ask("input_cache", json)),
              HasSubstr("input.cache: raw would need 100.0 MiB of memory, of 1.0 MiB allowed"));
}

// With room for a fifth of the photos a trial of all of them says nothing.
TEST(InputCache, ExpectsNoMoreOfAPartThanItCanGive) {
  Json json = photos();
  json["history"].push_back(trial_of(json, {{kCache, "decoded"}}, "accepted", 7.0));
  EXPECT_EQ(first_gain(ask("input_cache", json)), 7.0);
  json["job"]["cache_allowed_bytes"] = 300LL << 20;
  EXPECT_NEAR(first_gain(ask("input_cache", json)), 1 / (1 - 0.25 * 0.72), 0.01);
}

TEST(InputCache, ProposesAFileWhereMemoryDoesNotSuffice) {
  Json json = photos();
  json["job"]["cache_disk_allowed_bytes"] = 100LL << 30;
  EXPECT_EQ(first_change(ask("input_cache", json)), Json({{kCache, "decoded"}}));
  json["job"]["cache_allowed_bytes"] = 600LL << 20;
  Json answer = ask("input_cache", json);
  EXPECT_EQ(answer.at("candidates").at(0).at("change"), Json({{kCache, "decoded"}}));
  EXPECT_EQ(answer.at("candidates").at(1).at("change"), Json({{kCache, "decoded_file"}}));
  EXPECT_GT(answer.at("candidates").at(1).at("expected_gain_ratio"),
            answer.at("candidates").at(0).at("expected_gain_ratio"));
  json["job"]["cache_allowed_bytes"] = 1LL << 20;
  answer = ask("input_cache", json);
  EXPECT_EQ(first_change(answer), Json({{kCache, "decoded_file"}}));
  EXPECT_THAT(first_reason(answer),
              HasSubstr("1.2 GiB of disk space, of 100.0 GiB allowed (tune.cache_disk)"));
  json["job"]["cache_disk_allowed_bytes"] = 1LL << 20;
  EXPECT_FALSE(none_because(ask("input_cache", json)).empty());
}

TEST(InputCache, KnowsHowOftenASampleComes) {
  Json json = photos();
  json["recipe"]["train_samples_total"] = 1000;  // one epoch: nothing comes again
  EXPECT_THAT(none_because(ask("input_cache", json)),
              HasSubstr("is used 1.0 times in the training, and a cache"));
  json["job"]["stored_samples"] = 10;  // but ten files are gone through again and again
  json["job"]["cache_decoded_bytes"] = 12LL << 20;
  EXPECT_THAT(first_reason(ask("input_cache", json)), HasSubstr("is used 100 times"));
}

TEST(InputCache, HasNothingToSaveWhereTheStepDoesNotWaitOrMakingIsCheap) {
  Json json = photos();
  json["metrics"]["loader.cost_ratio"] = 0.01;
  EXPECT_THAT(none_because(ask("input_cache", json)), HasSubstr("costs the step only 1.0 %"));
  json = photos();
  for (const char* metric : {"input.read_ratio", "input.decode_ratio", "input.prefix_ratio"})
    json["metrics"][metric] = 0.01;
  EXPECT_THAT(none_because(ask("input_cache", json)), HasSubstr("take too little time to save"));
  EXPECT_FALSE(none_because(ask("input_cache", situation("fashion_cnn_cpu"))).empty());
}

TEST(InputCache, SaysWhatTheOneInPlaceCostAndWhenItPays) {
  Json json = photos();
  tell(json, {{kCache, "decoded"}}, "accepted", 3.0);
  json["metrics"]["input.cached_ratio"] = 1.0;
  json["metrics"]["input.cache_bytes"] = 1200LL << 20;
  json["metrics"]["input.cache_fill_ns"] = 4e9;
  json["metrics"]["samples_per_second"] = 1000.0;  // an epoch took 3 s, now 1
  EXPECT_THAT(none_because(ask("input_cache", json)),
              AllOf(HasSubstr("holds 100 % of the stored samples in 1.2 GiB"),
                    HasSubstr("filling took 4.0 s; the cache is repaid after 2.0 epochs")));
}

}  // namespace
}  // namespace autotuned::plugins
