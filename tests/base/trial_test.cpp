// SPDX-License-Identifier: Apache-2.0
#include "base/trial.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace autotuned {
namespace {

using testing::HasSubstr;

Json example_block() {
  return *parse_json(
      R"({"start_ns": 5, "end_ns": 105, "duration_ns": 100, "steps": 4, "samples": 128,
      "first_loss": 2.5, "last_loss": 2.25, "losses": [2.5, 2.25], "data_wait_ns": 7, "cpu_ns": 90,
      "peak_host_memory_bytes": 1000, "peak_device_memory_bytes": 0, "one_time_ns": 3000,
      "one_time_samples": 64})",
      "test");
}

TEST(Verdict, NamesReadBack) {
  for (const Verdict verdict : {Verdict::running, Verdict::accepted, Verdict::rejected,
                                Verdict::failed, Verdict::not_applicable, Verdict::interrupted}) {
    EXPECT_EQ(verdict_from(to_string(verdict)), verdict);
  }
  EXPECT_EQ(to_string(Verdict::not_applicable), "not_applicable");
  EXPECT_EQ(verdict_from("maybe"), std::nullopt);
}

// Noise that hides a gain from an ablation is no evidence against it.
TEST(DropsItsChange, NotWhereItWasOnlyTooNoisyToShowAGain) {
  TrialRecord ablation;
  ablation.kind = TrialKind::ablation;
  ablation.verdict = Verdict::rejected;
  ablation.rejection = RejectionReason::undecided_in_time;
  ablation.estimate = {.ratio = 1.4, .low = 0.98, .high = 2.0, .pairs = 12};
  EXPECT_FALSE(drops_its_change(ablation));
  ablation.estimate.ratio = 1.0;
  EXPECT_TRUE(drops_its_change(ablation));
  ablation.failure = ErrorKind::unsupported;
  EXPECT_FALSE(drops_its_change(ablation)) << "something disturbed it";
  ablation.failure.reset();
  ablation.estimate.ratio = 1.4;
  for (const std::optional<RejectionReason> rejection :
       {std::optional(RejectionReason::slower), std::optional(RejectionReason::no_gain),
        std::optional(RejectionReason::totals), std::optional<RejectionReason>()}) {
    ablation.rejection = rejection;
    EXPECT_TRUE(drops_its_change(ablation));
  }
  for (const Verdict verdict : {Verdict::accepted, Verdict::failed, Verdict::interrupted}) {
    ablation.verdict = verdict;
    EXPECT_FALSE(drops_its_change(ablation));
  }
}

TEST(RejectionReason, NamesReadBack) {
  for (const RejectionReason reason :
       {RejectionReason::slower, RejectionReason::no_gain, RejectionReason::undecided_in_time,
        RejectionReason::totals, RejectionReason::memory_limit, RejectionReason::not_repaid,
        RejectionReason::not_same_model}) {
    EXPECT_EQ(rejection_reason_from(to_string(reason)), reason);
  }
  EXPECT_EQ(rejection_reason_from("tired"), std::nullopt);
}

TEST(TrialKind, NamesReadBack) {
  for (const TrialKind kind :
       {TrialKind::proposal, TrialKind::confirmation, TrialKind::verification}) {
    EXPECT_EQ(trial_kind_from(to_string(kind)), kind);
  }
  EXPECT_EQ(trial_kind_from(""), std::nullopt);
}

TEST(Block, RoundTrip) {
  const Result<Block> block = Block::from_json(example_block());
  ASSERT_TRUE(block.has_value());
  EXPECT_EQ(block->steps, 4);
  EXPECT_EQ(block->losses, (std::vector{2.5, 2.25}));
  EXPECT_EQ(block->to_json(), example_block());
  EXPECT_DOUBLE_EQ(block->samples_per_second(), 128e7);
}

TEST(Block, AnEmptyOneHasNoRate) {
  EXPECT_EQ(Block().samples_per_second(), 0.0);
}

TEST(Block, DetailsMayBeLeftOut) {
  Json json = example_block();
  for (const char* field :
       {"losses", "data_wait_ns", "cpu_ns", "peak_host_memory_bytes", "peak_device_memory_bytes",
        "one_time_ns", "one_time_samples", "end_ns"}) {
    json.erase(field);
  }
  EXPECT_TRUE(Block::from_json(json).has_value());
}

TEST(Block, EveryFigureThatCountsIsRequired) {
  for (const char* field :
       {"start_ns", "duration_ns", "steps", "samples", "first_loss", "last_loss"}) {
    Json json = example_block();
    json.erase(field);
    const Result<Block> block = Block::from_json(json);
    ASSERT_FALSE(block.has_value()) << field;
    EXPECT_THAT(block.error().what, HasSubstr(field));
  }
}

TEST(Block, NonsenseIsRefused) {
  for (const auto& [field, text] :
       std::array<std::pair<const char*, const char*>, 11>{{{"duration_ns", "-1"},
                                                            {"steps", "-4"},
                                                            {"steps", "1.5"},
                                                            {"samples", "\"many\""},
                                                            {"first_loss", "\"low\""},
                                                            {"losses", "3"},
                                                            {"losses", "[1, \"x\"]"},
                                                            {"cpu_ns", "-1"},
                                                            {"peak_host_memory_bytes", "true"},
                                                            {"one_time_ns", "-1"},
                                                            {"start_ns", "9223372036854775807"}}}) {
    Json json = example_block();
    json[field] = *parse_json(text, "test");
    const Result<Block> block = Block::from_json(json);
    ASSERT_FALSE(block.has_value()) << field << " " << text;
    EXPECT_EQ(block.error().kind, ErrorKind::invalid);
  }
  EXPECT_FALSE(Block::from_json(Json()).has_value());
  EXPECT_FALSE(Block::from_json(Json::array()).has_value());
}

// The check of the losses depends on it: a training that diverged must not read as loss 0.
TEST(Block, LossesThatAreNotFiniteStayNotFinite) {
  Block block = *Block::from_json(example_block());
  block.last_loss = std::numeric_limits<double>::quiet_NaN();
  block.losses[1] = std::numeric_limits<double>::infinity();
  const Result<Block> back = Block::from_json(*parse_json(to_line(block.to_json()), "test"));
  ASSERT_TRUE(back.has_value());
  EXPECT_FALSE(std::isfinite(back->last_loss));
  EXPECT_FALSE(std::isfinite(back->losses[1]));
  EXPECT_EQ(back->first_loss, 2.5);
}

TEST(TrialRecord, JsonHoldsTheContract) {
  TrialRecord trial;
  trial.number = 3;
  trial.plugin = "num_workers";
  trial.change.set("loader.workers", std::int64_t{2});
  trial.verdict = Verdict::accepted;
  trial.reason = "faster";
  trial.estimate = {.ratio = 1.5, .low = 1.4, .high = 1.6, .pairs = 7};
  const Json json = trial.to_json("r-1");
  EXPECT_EQ(json["id"], "r-1.3");
  EXPECT_EQ(json["plugin"], "num_workers");
  EXPECT_EQ(json["change"], (Json{{"loader.workers", 2}}));
  EXPECT_EQ(json["verdict"], "accepted");
  EXPECT_EQ(json["ratio"], 1.5);
  EXPECT_EQ(json["ratio_low"], 1.4);
  EXPECT_EQ(json["ratio_high"], 1.6);
  EXPECT_EQ(json["reason"], "faster");
  EXPECT_TRUE(json["failure"].is_null());
}

TEST(TrialRecord, WhatWasNotMeasuredIsNull) {
  TrialRecord trial;
  trial.verdict = Verdict::failed;
  trial.failure = ErrorKind::out_of_memory;
  const Json json = trial.to_json("r-1");
  EXPECT_TRUE(json["ratio"].is_null());
  EXPECT_TRUE(json["ratio_low"].is_null());
  EXPECT_TRUE(json["candidate_samples_per_second"].is_null());
  EXPECT_EQ(json["failure"], "out_of_memory");
}

TEST(Trial, ItsJsonSaysWhetherItWasGivenUp) {
  TrialRecord trial;
  trial.verdict = Verdict::rejected;
  trial.rejection = RejectionReason::no_gain;
  trial.reason = "gain unlikely: what a sentence says decides nothing";
  EXPECT_EQ(trial.to_json("r-1").at("is_given_up"), false);
  trial.is_given_up = true;
  EXPECT_EQ(trial.to_json("r-1").at("is_given_up"), true);
}

}  // namespace
}  // namespace autotuned
