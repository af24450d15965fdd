// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

constexpr const char* kCpu = "fashion_cnn_cpu";

TEST(Uint8Transfer, ProposesItForEightBitData) {
  Answers answers("uint8_transfer");
  const Json change = {{"transfer.dtype", "uint8"}};
  EXPECT_LT(first_gain(answers.proposes("a CPU", situation(kCpu), change)), 1.05);
  EXPECT_GT(first_gain(answers.proposes("a GPU", situation("resnet18_gpu"), change)), 1.2);
}

// So that the tuner spends no trial where even all of it would be too little.
TEST(Uint8Transfer, SaysOnACpuHowMuchConvertingLateCouldSave) {
  Json json = situation(kCpu);
  json["metrics"]["step.data_wait_ratio"] = 0.01;
  EXPECT_NEAR(first_share(ask("uint8_transfer", json)), 0.004 * 0.75 + 0.01 * 0.3, 1e-9);
  // Where loading and training share busy CPUs, what is not converted there is time for training:
  // 0.3 of 0.72 ms, of 12 ms and 4 CPUs.
  json["metrics"]["cpu.utilization_ratio"] = 0.97;
  EXPECT_NEAR(first_share(ask("uint8_transfer", json)), 0.006 + 0.3 * 0.72 / 48, 1e-9);
}

TEST(Uint8Transfer, BelievesATraceOfTheCopies) {
  Json json = situation("resnet18_gpu");
  json["metrics"]["copies.host_to_device_ratio"] = 0.04;
  json["metrics"]["parts.data_loading_ratio"] = 0.0;
  EXPECT_NEAR(first_share(ask("uint8_transfer", json)), 0.04 * 0.75, 1e-9);
}

TEST(Uint8Transfer, SaysWhyNot) {
  Answers answers("uint8_transfer");
  Json json = situation(kCpu);
  tell(json, {{"transfer.dtype", "uint8"}}, "rejected", 1.0);
  answers.declines("it was tried", json);
  answers.declines("floats", json, {{"metrics", {{"loader.float_from_uint8_ratio", 0.0}}}});
  answers.declines("no measurement", json,
                   {{"metrics", {{"loader.float_from_uint8_ratio", nullptr}}}});
  answers.declines("it is set", json, {{"incumbent", {{"transfer.dtype", "uint8"}}}});
}

}  // namespace
}  // namespace autotuned::plugins
