// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

const Json kRaw = {{"input.cache", "raw"}};
const Json kPrefix = {{"input.cache", "prefix"}};
const Json kDecoded = {{"input.cache", "decoded"}};
const Json kFile = {{"input.cache", "decoded_file"}};

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
  Answers answers("input_cache");
  Json json = photos();
  const Json answer = answers.proposes("1.2 GiB of 4", json, kDecoded);
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.72), 0.01);
  json["job"]["cache_prefix_bytes"] = 300LL << 20;
  answers.proposes("a resize before anything random", json, kPrefix);
  tell(json, kPrefix, "rejected", 0.9);
  answers.proposes("the smaller ones were tried", json, kDecoded);
}

TEST(InputCache, TakesTheSmallerKindWhereTheLargerDoesNotFit) {
  Answers answers("input_cache");
  Json json = photos();
  const auto allow = [&json](long long mebibytes) {
    json["job"]["cache_allowed_bytes"] = mebibytes << 20;
  };
  allow(600);
  answers.proposes("1.2 GiB of 0.6", json, kDecoded);
  allow(200);
  answers.proposes("1.2 GiB of 0.2", json, kRaw);
  allow(1);
  answers.declines("1.2 GiB of nothing", json);
}

// With room for a fifth of the photos a trial of all of them says nothing.
TEST(InputCache, ExpectsNoMoreOfAPartThanItCanGive) {
  Json json = photos();
  json["history"].push_back(trial_of(json, kDecoded, "accepted", 7.0));
  EXPECT_EQ(first_gain(ask("input_cache", json)), 7.0);
  json["job"]["cache_allowed_bytes"] = 300LL << 20;
  EXPECT_NEAR(first_gain(ask("input_cache", json)), 1 / (1 - 0.25 * 0.72), 0.01);
}

TEST(InputCache, ProposesAFileWhereMemoryDoesNotSuffice) {
  Answers answers("input_cache");
  Json json = photos();
  json["job"]["cache_disk_allowed_bytes"] = 100LL << 30;
  answers.proposes("memory for all", json, kDecoded);
  json["job"]["cache_allowed_bytes"] = 600LL << 20;
  const Json answer = answers.proposes("memory for half", json, kDecoded);
  EXPECT_EQ(answer.at("candidates").at(1).at("change"), kFile);
  EXPECT_GT(answer.at("candidates").at(1).at("expected_gain_ratio"), first_gain(answer));
  json["job"]["cache_allowed_bytes"] = 1LL << 20;
  answers.proposes("memory for none", json, kFile);
  json["job"]["cache_disk_allowed_bytes"] = 1LL << 20;
  answers.declines("nor a disk", json);
}

TEST(InputCache, KnowsHowOftenASampleComes) {
  Answers answers("input_cache");
  Json json = photos();
  json["recipe"]["train_samples_total"] = 1000;
  answers.declines("one epoch: nothing comes again", json);
  json["job"]["stored_samples"] = 10;
  json["job"]["cache_decoded_bytes"] = 12LL << 20;
  answers.proposes("ten files that are gone through again and again", json, kDecoded);
}

TEST(InputCache, HasNothingToSaveWhereTheStepDoesNotWaitOrMakingIsCheap) {
  Answers answers("input_cache");
  answers.declines("1 % in loading", photos(), {{"metrics", {{"loader.cost_ratio", 0.01}}}});
  answers.declines(
      "1 % in each part of it", photos(),
      {{"metrics",
        {{"input.read_ratio", 0.01}, {"input.decode_ratio", 0.01}, {"input.prefix_ratio", 0.01}}}});
  answers.declines("no photos", situation("fashion_cnn_cpu"));
}

TEST(InputCache, SaysWhatTheOneInPlaceCostAndWhenItPays) {
  Answers answers("input_cache");
  Json json = photos();
  tell(json, kDecoded, "accepted", 3.0);
  json["metrics"]["input.cached_ratio"] = 1.0;
  json["metrics"]["input.cache_bytes"] = 1200LL << 20;
  json["metrics"]["input.cache_fill_ns"] = 4e9;
  json["metrics"]["samples_per_second"] = 1000.0;
  answers.declines("an epoch took 3 s, now 1", json);
}

}  // namespace
}  // namespace autotuned::plugins
