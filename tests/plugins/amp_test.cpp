// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/plugins/loader_scene.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kAutocast = "precision.autocast";

TEST(Amp, ProposesBf16WhereTheCpuHasIt) {
  Json json = situation("fashion_cnn_cpu");
  const Json answer = ask("amp", json);
  EXPECT_EQ(answer.at("candidates").size(), 1U) << "fp16 has no units on this CPU";
  EXPECT_EQ(first_change(answer), Json({{kAutocast, "bf16"}}));
  EXPECT_THAT(first_reason(answer), AllOf(HasSubstr("62 %"), HasSubstr("AVX512-BF16")));
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.62 * (1 - 1 / 2.2)), 1e-6);
  json["environment"]["cpu_features"] = {"amx_bf16"};
  EXPECT_THAT(first_reason(ask("amp", json)), HasSubstr("AMX-BF16"));
}

TEST(Amp, NamesTheMissingFeatures) {
  Json json = situation("fashion_cnn_cpu");
  json["environment"]["cpu_features"] = {"avx2", "avx512f"};
  EXPECT_THAT(none_because(ask("amp", json)),
              AllOf(HasSubstr("AVX512-BF16"), HasSubstr("AMX-BF16"), HasSubstr("emulated")));
}

TEST(Amp, LooksAtTheGpuThatTheJobRunsOn) {
  Json json = situation("resnet18_gpu");
  Json answer = ask("amp", json);
  ASSERT_EQ(answer.at("candidates").size(), 2U);
  EXPECT_EQ(first_change(answer), Json({{kAutocast, "bf16"}}));
  EXPECT_EQ(answer.at("candidates")[1].at("change"), Json({{kAutocast, "fp16"}}));
  EXPECT_THAT(first_reason(answer), HasSubstr("NVIDIA H100"));

  json["job"]["device"] = "cuda:0";  // a V100 has fp16 only
  answer = ask("amp", json);
  ASSERT_EQ(answer.at("candidates").size(), 1U);
  EXPECT_EQ(first_change(answer), Json({{kAutocast, "fp16"}}));

  json["environment"]["gpus"][0]["compute_capability"] = "6.1";
  EXPECT_THAT(none_because(ask("amp", json)), HasSubstr("no tensor cores"));
}

TEST(Amp, TriesFp16AfterBf16Lost) {
  Json json = situation("resnet18_gpu");
  tell(json, {{kAutocast, "bf16"}}, "rejected", 0.9);
  EXPECT_EQ(first_change(ask("amp", json)), Json({{kAutocast, "fp16"}}));
  tell(json, {{kAutocast, "fp16"}}, "failed", 0.0);
  EXPECT_THAT(none_because(ask("amp", json)), HasSubstr("was tried"));
}

TEST(Amp, LeavesAloneWhatCannotGain) {
  Json json = situation("fashion_cnn_cpu");
  json["metrics"]["operators.gemm_conv_ratio"] = 0.03;
  EXPECT_THAT(none_because(ask("amp", json)), HasSubstr("only 3.0 %"));
  json["metrics"].erase("operators.gemm_conv_ratio");
  EXPECT_EQ(first_change(ask("amp", json)), Json({{kAutocast, "bf16"}}));
  json["incumbent"][kAutocast] = "bf16";
  EXPECT_THAT(none_because(ask("amp", json)), HasSubstr("already"));
  json["permissions"] = Json::object();
  EXPECT_THAT(none_because(ask("amp", json)), HasSubstr("tune.allow: [numerics]"));
}

}  // namespace
}  // namespace autotuned::plugins
