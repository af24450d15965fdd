// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

constexpr const char* kAutocast = "precision.autocast";
const Json kBf16 = {{kAutocast, "bf16"}};
const Json kFp16 = {{kAutocast, "fp16"}};

TEST(Amp, ProposesBf16WhereTheCpuHasIt) {
  Answers answers("amp");
  const Json json = situation("fashion_cnn_cpu");
  const Json answer = answers.proposes("AVX512-BF16", json, kBf16);
  EXPECT_EQ(answer.at("candidates").size(), 1U) << "fp16 has no units on this CPU";
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.62 * (1 - 1 / 2.2)), 1e-6);
  answers.proposes("AMX-BF16", json, kBf16, {{"environment", {{"cpu_features", {"amx_bf16"}}}}});
  answers.declines("neither", json, {{"environment", {{"cpu_features", {"avx2", "avx512f"}}}}});
}

TEST(Amp, LooksAtTheGpuThatTheJobRunsOn) {
  Answers answers("amp");
  Json json = situation("resnet18_gpu");
  const Json both = answers.proposes("an H100", json, kBf16);
  ASSERT_EQ(both.at("candidates").size(), 2U);
  EXPECT_EQ(both.at("candidates")[1].at("change"), kFp16);
  json["job"]["device"] = "cuda:0";  // a V100 has fp16 only
  EXPECT_EQ(answers.proposes("a V100", json, kFp16).at("candidates").size(), 1U);
  json["environment"]["gpus"][0]["compute_capability"] = "6.1";
  answers.declines("no tensor cores", json);
}

// What the host takes to start products is no measure of them.
TEST(Amp, CountsTheKernelsOfAGpu) {
  Answers answers("amp");
  Json json = situation("resnet18_gpu");
  json["metrics"]["operators.gemm_conv_ratio"] = 0.01;
  answers.proposes("no trace", json, kBf16);
  json["metrics"]["operators.gemm_conv_share_ratio"] = 0.9;
  json["metrics"]["parts.kernel_ratio"] = 0.5;
  const Json answer = answers.proposes("a trace", json, kBf16);
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.45 * 0.6), 1e-9);
  json["metrics"]["kernels.without_tensor_cores_share_ratio"] = 0.9;
  answers.proposes("kernels without tensor cores", json, kBf16);
  answers.declines("few kernels", json, {{"metrics", {{"parts.kernel_ratio", 0.02}}}});
}

TEST(Amp, TriesFp16AfterBf16Lost) {
  Answers answers("amp");
  Json json = situation("resnet18_gpu");
  tell(json, kBf16, "rejected", 0.9);
  answers.proposes("bf16 lost", json, kFp16);
  tell(json, kFp16, "failed", 0.0);
  answers.declines("both lost", json);
}

TEST(Amp, LeavesAloneWhatCannotGain) {
  Answers answers("amp");
  Json json = situation("fashion_cnn_cpu");
  answers.declines("3 % in products", json, {{"metrics", {{"operators.gemm_conv_ratio", 0.03}}}});
  json["metrics"].erase("operators.gemm_conv_ratio");
  answers.proposes("no measurement", json, kBf16);
  answers.declines("it is set", json, {{"incumbent", kBf16}});
  json["permissions"] = Json::object();
  answers.declines("no consent", json);
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
  Answers answers("amp");
  Json json = cpu_with_keeping();
  tell_failed_check(json, kBf16, {"conv1.weight", "conv1.bias"}, 12);
  const Json first = {{kAutocast, "bf16"}, {kKept, "conv1"}};
  EXPECT_NEAR(first_gain(answers.proposes("conv1 failed", json, first)), 1.8, 1e-9);
  // Another one now: both are kept. Then nothing more may fail.
  tell_failed_check(json, first, {"linear.bias"}, 12, 1.5);
  const Json second = {{kAutocast, "bf16"}, {kKept, "conv1,linear"}};
  answers.proposes("linear failed, too", json, second);
  tell_failed_check(json, second, {"conv2.weight"}, 12);
  answers.declines("conv2 failed, too", json);
}

TEST(Amp, KeepsNothingWhereThatIsNoAnswer) {
  Answers answers("amp");
  const auto after = [&answers](const std::string& given, Json json,
                                std::vector<std::string> parameters, int compared) {
    tell_failed_check(json, kBf16, std::move(parameters), compared);
    answers.declines(given, json);
  };
  const Json start = cpu_with_keeping();
  after("half of the parameters", start, {"a.weight", "b.weight"}, 4);
  after("a parameter of no module", start, {"cls_token"}, 100);
  after("a loss that is not finite", start, {}, 100);
  Json opaque = start;
  opaque["job"]["keep_float32_obstacle"] = "TorchScript's interpreter calls the modules";
  after("modules out of reach", opaque, {"a.weight"}, 100);
  Json other = start;
  other["permissions"] = {{"knobs", {kAutocast}}};
  after("no consent to keeping", other, {"a.weight"}, 100);
  // Slower with them kept: that was the last word.
  Json slower = start;
  tell_failed_check(slower, kBf16, {"a.weight"}, 100);
  tell(slower, {{kAutocast, "bf16"}, {kKept, "a"}}, "rejected", 0.9);
  answers.declines("slower with the module kept", slower);
}

}  // namespace
}  // namespace autotuned::plugins
