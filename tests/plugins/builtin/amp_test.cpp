// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

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

// What the host takes to start products is no measure of them.
TEST(Amp, CountsTheKernelsOfAGpu) {
  Json json = situation("resnet18_gpu");
  json["metrics"]["operators.gemm_conv_ratio"] = 0.01;
  EXPECT_THAT(first_reason(ask("amp", json)), testing::StartsWith("the machine has tensor cores"));
  json["metrics"]["operators.gemm_conv_share_ratio"] = 0.9;
  json["metrics"]["parts.kernel_ratio"] = 0.5;
  EXPECT_THAT(first_reason(ask("amp", json)),
              HasSubstr("take 45 % of the step, and the machine has"));
  EXPECT_NEAR(first_gain(ask("amp", json)), 1 / (1 - 0.45 * 0.6), 1e-9);
  json["metrics"]["kernels.without_tensor_cores_share_ratio"] = 0.9;
  EXPECT_THAT(first_reason(ask("amp", json)),
              HasSubstr("45 % of the step without tensor cores, and the machine has"));
  json["metrics"]["parts.kernel_ratio"] = 0.02;
  EXPECT_THAT(none_because(ask("amp", json)), HasSubstr("only 1.8 % of the step"));
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
  EXPECT_THAT(none_because(ask("amp", json)), HasSubstr("tune.allow: numerics"));
}

// What the program tells of a trial whose check failed.
void tell_failed_check(Json& situation, const Json& change, std::vector<std::string> parameters,
                       int compared, double ratio = 1.8) {
  tell(situation, change, "rejected", ratio);
  const auto failed = static_cast<int>(parameters.size());
  situation["trials"].back()["check"] = {{"risk", "numerics"},
                                         {"detail", "their updates differ"},
                                         {"parameters", std::move(parameters)},
                                         {"failed", failed},
                                         {"compared", compared}};
}

constexpr const char* kKept = "precision.keep_float32";

Json cpu_with_keeping() {
  Json json = situation("fashion_cnn_cpu");
  json["knobs"][kKept] = {{"type", "list"},
                          {"choices", {"none", "norms", "loss", "last"}},
                          {"risk", "numerics"},
                          {"unavailable", ""}};
  json["incumbent"][kKept] = "none";
  return json;
}

TEST(Amp, KeepsTheModulesThatFailedTheCheck) {
  Json json = cpu_with_keeping();
  tell_failed_check(json, {{kAutocast, "bf16"}}, {"conv1.weight", "conv1.bias"}, 12);
  Json answer = ask("amp", json);
  const Json first = {{kAutocast, "bf16"}, {kKept, "conv1"}};
  EXPECT_EQ(first_change(answer), first);
  EXPECT_EQ(first_reason(answer),
            "bf16 failed its check in 2 of 12 parameters, so conv1 would stay in 32 bits");
  EXPECT_NEAR(first_gain(answer), 1.8, 1e-9);
  // Another one now: both are kept. Then nothing more may fail.
  tell_failed_check(json, first, {"linear.bias"}, 12, 1.5);
  answer = ask("amp", json);
  const Json second = {{kAutocast, "bf16"}, {kKept, "conv1,linear"}};
  EXPECT_EQ(first_change(answer), second);
  EXPECT_THAT(first_reason(answer), HasSubstr("3 of 12 parameters"));
  tell_failed_check(json, second, {"conv2.weight"}, 12);
  EXPECT_EQ(none_because(ask("amp", json)),
            "16-bit arithmetic was tried and was not better; too many parameters fail the check to "
            "keep single modules in 32 bits");
}

TEST(Amp, KeepsNothingWhereThatIsNoAnswer) {
  const auto after = [](const Json& start, std::vector<std::string> parameters, int compared) {
    Json json = start;
    tell_failed_check(json, {{kAutocast, "bf16"}}, std::move(parameters), compared);
    return none_because(ask("amp", json));
  };
  const Json start = cpu_with_keeping();
  EXPECT_THAT(after(start, {"a.weight", "b.weight"}, 4), HasSubstr("too many parameters"));
  EXPECT_THAT(after(start, {"cls_token"}, 100), HasSubstr("cls_token fails"));
  EXPECT_EQ(after(start, {}, 100), "16-bit arithmetic was tried and was not better");  // not finite
  Json opaque = start;
  opaque["job"]["keep_float32_obstacle"] = "TorchScript's interpreter calls the modules";
  EXPECT_THAT(after(opaque, {"a.weight"}, 100), HasSubstr("; TorchScript's interpreter"));
  Json other = start;
  other["permissions"] = {{"knobs", {kAutocast}}};
  EXPECT_THAT(after(other, {"a.weight"}, 100),
              HasSubstr("changes of precision.keep_float32 are not permitted"));
  // Slower with them kept: that was the last word.
  Json slower = start;
  tell_failed_check(slower, {{kAutocast, "bf16"}}, {"a.weight"}, 100);
  tell(slower, {{kAutocast, "bf16"}, {kKept, "a"}}, "rejected", 0.9);
  EXPECT_EQ(none_because(ask("amp", slower)), "16-bit arithmetic was tried and was not better");
}

}  // namespace
}  // namespace autotuned::plugins
