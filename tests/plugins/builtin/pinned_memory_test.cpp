// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/plugins/loader_scene.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(PinnedMemory, SaysThatThereIsNoGpu) {
  EXPECT_EQ(none_because(ask("pinned_memory", situation("fashion_cnn_cpu"))),
            "the job runs on the CPU, where nothing is copied to a GPU (no NVIDIA driver "
            "(libnvidia-ml.so.1 is missing))");
}

TEST(PinnedMemory, PinsAndCopiesBesideTheStep) {
  Json json = situation("resnet18_gpu");
  const Json answer = ask("pinned_memory", json);
  EXPECT_EQ(first_change(answer),
            Json({{"loader.pin_memory", true}, {"transfer.non_blocking", true}}));
  EXPECT_THAT(first_reason(answer), AllOf(HasSubstr("25 % of the step"), HasSubstr("18.4 MiB"),
                                          HasSubstr("100 % of the bytes from pageable memory"),
                                          HasSubstr("run during the step"),
                                          // 8 workers, 2 batches each, and two
                                          HasSubstr("330.8 MiB or more would be page-locked")));
  EXPECT_NEAR(first_gain(answer), 1 / 0.75, 1e-9);
  json["incumbent"]["loader.pin_memory"] = true;
  EXPECT_EQ(first_change(ask("pinned_memory", json)), Json({{"transfer.non_blocking", true}}));
  tell(json, {{"transfer.non_blocking", true}}, "rejected", 1.0);
  EXPECT_THAT(none_because(ask("pinned_memory", json)), HasSubstr("was tried"));
  json["incumbent"]["transfer.non_blocking"] = true;
  EXPECT_THAT(none_because(ask("pinned_memory", json)), HasSubstr("already"));
}

TEST(PinnedMemory, BelievesATraceOfTheCopies) {
  Json json = situation("resnet18_gpu");
  json["metrics"]["copies.pageable_ratio"] = 0.12;
  json["metrics"]["parts.copy_ratio"] = 0.03;
  json["metrics"]["waiting.synchronous_copy_ratio"] = 0.0;
  Json answer = ask("pinned_memory", json);
  EXPECT_THAT(first_reason(answer), HasSubstr("from pageable memory to the GPU take 12 % of the "
                                              "step, 3.0 % without other work at the same time"));
  EXPECT_NEAR(first_gain(answer), 1 / 0.88, 1e-9);
  // Page-locked already: what kernels hide is not to be had.
  json["incumbent"]["loader.pin_memory"] = true;
  answer = ask("pinned_memory", json);
  EXPECT_THAT(first_reason(answer), HasSubstr("waits for copies for 3.0 % of its time"));
  EXPECT_NEAR(first_gain(answer), 1 / 0.97, 1e-9);
  json["metrics"]["waiting.synchronous_copy_ratio"] = 0.05;
  EXPECT_NEAR(first_gain(ask("pinned_memory", json)), 1 / 0.95, 1e-9);
  // The host's own time in handing batches over says no more then.
  json["metrics"]["waiting.synchronous_copy_ratio"] = 0.0;
  json["metrics"]["parts.copy_ratio"] = 0.001;
  EXPECT_THAT(none_because(ask("pinned_memory", json)), HasSubstr("only 0.1 % of the step"));
}

TEST(PinnedMemory, PinsAloneWhereBothTogetherLost) {
  const Json both = {{"loader.pin_memory", true}, {"transfer.non_blocking", true}};
  Json json = situation("resnet18_gpu");
  tell(json, both, "rejected", 0.99);
  const Json answer = ask("pinned_memory", json);
  EXPECT_EQ(first_change(answer), Json({{"loader.pin_memory", true}}));
  EXPECT_THAT(first_reason(answer), HasSubstr("copies from page-locked memory are faster"));
  EXPECT_NEAR(first_gain(answer), 1 / 0.9, 1e-9);
  tell(json, {{"loader.pin_memory", true}}, "rejected", 0.98);
  EXPECT_EQ(none_because(ask("pinned_memory", json)),
            "page-locked memory was tried and was not faster");

  Json full = situation("resnet18_gpu");
  tell(full, both, "failed", 0.0);
  full["trials"].back()["failure"] = "out_of_memory";
  EXPECT_THAT(none_because(ask("pinned_memory", full)),
              HasSubstr("more memory than the trainer has"));
}

TEST(PinnedMemory, OfAScriptOnlyTheMemoryIsChanged) {
  Json json = situation("resnet18_gpu");
  json["knobs"].erase("transfer.non_blocking");
  json["incumbent"].erase("transfer.non_blocking");
  const Json answer = ask("pinned_memory", json);
  EXPECT_EQ(first_change(answer), Json({{"loader.pin_memory", true}}));
  EXPECT_NEAR(first_gain(answer), 1 / 0.9, 1e-9);
  tell(json, {{"loader.pin_memory", true}}, "rejected", 0.98);
  EXPECT_THAT(none_because(ask("pinned_memory", json)), HasSubstr("was tried"));
}

TEST(PinnedMemory, NeedsSomethingToGain) {
  Json json = situation("resnet18_gpu");
  json["metrics"]["step.transfer_ratio"] = 0.001;
  EXPECT_THAT(none_because(ask("pinned_memory", json)), HasSubstr("only 0.1 %"));
  json["metrics"].erase("step.transfer_ratio");
  EXPECT_THAT(none_because(ask("pinned_memory", json)), HasSubstr("does not say"));
}

}  // namespace
}  // namespace autotuned::plugins
