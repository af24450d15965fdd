// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/plugins/share.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Uint8Transfer, ProposesItForEightBitData) {
  const Json answer = ask("uint8_transfer", situation("fashion_cnn_cpu"));
  EXPECT_EQ(first_change(answer), Json({{"transfer.dtype", "uint8"}}));
  EXPECT_THAT(first_reason(answer), AllOf(HasSubstr("98.0 KiB of floats"), HasSubstr("0.4 %")));
  EXPECT_LT(first_gain(answer), 1.05);
  EXPECT_GT(first_gain(ask("uint8_transfer", situation("resnet18_gpu"))), 1.2);
}

// So that the tuner spends no trial where even all of it would be too little.
TEST(Uint8Transfer, SaysOnACpuHowMuchConvertingLateCouldSave) {
  Json json = situation("fashion_cnn_cpu");
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
  Json json = situation("fashion_cnn_cpu");
  tell(json, {{"transfer.dtype", "uint8"}}, "rejected", 1.0);
  EXPECT_THAT(none_because(ask("uint8_transfer", json)), HasSubstr("was tried"));
  json["metrics"]["loader.float_from_uint8_ratio"] = 0.0;
  EXPECT_THAT(none_because(ask("uint8_transfer", json)), HasSubstr("not 8-bit"));
  json["metrics"].erase("loader.float_from_uint8_ratio");
  EXPECT_THAT(none_because(ask("uint8_transfer", json)), HasSubstr("does not say"));
  json["incumbent"]["transfer.dtype"] = "uint8";
  EXPECT_THAT(none_because(ask("uint8_transfer", json)), HasSubstr("already"));
}

}  // namespace
}  // namespace autotuned::plugins
