// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

const Json kPinned = {{"loader.pin_memory", true}};
const Json kBeside = {{"transfer.non_blocking", true}};
const Json kBoth = {{"loader.pin_memory", true}, {"transfer.non_blocking", true}};

TEST(PinnedMemory, PinsAndCopiesBesideTheStep) {
  Answers answers("pinned_memory");
  Json json = situation("resnet18_gpu");
  const Json answer = answers.proposes("8 workers with 2 batches each", json, kBoth);
  EXPECT_NEAR(first_gain(answer), 1 / 0.75, 1e-9);
  json["incumbent"].update(kPinned);
  answers.proposes("pinned memory", json, kBeside);
  tell(json, kBeside, "rejected", 1.0);
  answers.declines("pinned memory, and the rest was tried", json);
  answers.declines("both are set", json, {{"incumbent", kBeside}});
}

TEST(PinnedMemory, BelievesATraceOfTheCopies) {
  Answers answers("pinned_memory");
  Json json = situation("resnet18_gpu");
  json["metrics"]["copies.pageable_ratio"] = 0.12;
  json["metrics"]["parts.copy_ratio"] = 0.03;
  json["metrics"]["waiting.synchronous_copy_ratio"] = 0.0;
  EXPECT_NEAR(first_gain(answers.proposes("a trace", json, kBoth)), 1 / 0.88, 1e-9);
  // Page-locked already: what kernels hide is not to be had.
  json["incumbent"].update(kPinned);
  EXPECT_NEAR(first_gain(answers.proposes("pinned memory", json, kBeside)), 1 / 0.97, 1e-9);
  json["metrics"]["waiting.synchronous_copy_ratio"] = 0.05;
  EXPECT_NEAR(first_gain(answers.proposes("waits for copies", json, kBeside)), 1 / 0.95, 1e-9);
  // The host's own time in handing batches over says no more then.
  json["metrics"]["waiting.synchronous_copy_ratio"] = 0.0;
  json["metrics"]["parts.copy_ratio"] = 0.001;
  answers.declines("short copies", json);
}

TEST(PinnedMemory, PinsAloneWhereBothTogetherLost) {
  Answers answers("pinned_memory");
  Json json = situation("resnet18_gpu");
  tell(json, kBoth, "rejected", 0.99);
  EXPECT_NEAR(first_gain(answers.proposes("both lost", json, kPinned)), 1 / 0.9, 1e-9);
  tell(json, kPinned, "rejected", 0.98);
  answers.declines("pinned memory lost, too", json);
  Json full = situation("resnet18_gpu");
  tell(full, kBoth, "failed", 0.0);
  full["trials"].back()["failure"] = "out_of_memory";
  answers.declines("no memory for it", full);
}

TEST(PinnedMemory, OfAScriptOnlyTheMemoryIsChanged) {
  Answers answers("pinned_memory");
  Json json = situation("resnet18_gpu");
  json["knobs"].erase("transfer.non_blocking");
  json["incumbent"].erase("transfer.non_blocking");
  EXPECT_NEAR(first_gain(answers.proposes("a script", json, kPinned)), 1 / 0.9, 1e-9);
  tell(json, kPinned, "rejected", 0.98);
  answers.declines("it was tried", json);
}

TEST(PinnedMemory, SaysWhyNot) {
  Answers answers("pinned_memory");
  answers.declines("a CPU", situation("fashion_cnn_cpu"));
  const Json json = situation("resnet18_gpu");
  answers.declines("0.1 % in copies", json, {{"metrics", {{"step.transfer_ratio", 0.001}}}});
  answers.declines("no measurement", json, {{"metrics", {{"step.transfer_ratio", nullptr}}}});
}

}  // namespace
}  // namespace autotuned::plugins
