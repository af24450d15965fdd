// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

const Json kDefault = {{"model.compile", "default"}};

// A script whose step takes 50 ms, 90 % of it in forward and backward pass.
Json script(const std::string& data = "fashion_cnn_cpu") {
  Json json = situation(data);
  json["knobs"]["model.compile"] = {
      {"type", "choice"},
      {"default", "off"},
      {"switch", "live"},
      {"risk", "numerics"},
      {"choices", {"off", "default", "reduce-overhead", "max-autotune-no-cudagraphs"}}};
  json["incumbent"]["model.compile"] = "off";
  json["permissions"]["numerics"] = true;
  json["permissions"]["option"] = "--allow";
  json["permissions"]["knobs"] = Json::array();
  json["metrics"]["step.duration_ns"] = 50e6;
  json["metrics"]["step.forward_ratio"] = 0.3;
  json["metrics"]["step.backward_ratio"] = 0.6;
  json["job"]["steps_left"] = 100'000;
  return json;
}

TEST(TorchCompile, IsProposedToAScriptThatTrainsForLong) {
  Answers answers("torch_compile");
  Json json = script();
  const Json answer = answers.proposes("100,000 steps left", json, kDefault);
  ASSERT_EQ(answer.at("candidates").size(), 1);
  EXPECT_NEAR(first_share(answer), 0.9, 1e-9);
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.18), 1e-9);
  EXPECT_EQ(answer.at("candidates").at(0).at("preparation_s"), 60.0);
  tell(json, kDefault, "rejected", 0.98);
  answers.declines("it was tried", json);
}

TEST(TorchCompile, IsNotProposedWhereWhatIsLeftCannotRepayIt) {
  Answers answers("torch_compile");
  Json json = script();
  json["job"]["steps_left"] = 6000;
  answers.declines("6,000 steps left", json);
  json["job"]["steps_left"] = 6700;
  answers.proposes("6,700 steps left", json, kDefault);
  json["job"]["steps_left"] = 0;
  answers.declines("not known", json);
  answers.proposes("consent", json, kDefault, {{"permissions", {{"knobs", {"model.compile"}}}}});
}

TEST(TorchCompile, SearchesForKernelsWhereThatIsRepaid) {
  Answers answers("torch_compile");
  Json json = script();
  tell(json, kDefault, "accepted", 1.2);
  answers.declines("100,000 steps left", json);
  answers.proposes("1,000,000 steps left", json, {{"model.compile", "max-autotune-no-cudagraphs"}},
                   {{"job", {{"steps_left", 1'000'000}}}});
}

TEST(TorchCompile, ProposesGraphsOnAGpuOnly) {
  Json json = script("resnet18_gpu");
  json["job"]["device"] = "cuda:0";
  const Json both = ask("torch_compile", json);
  ASSERT_EQ(both.at("candidates").size(), 2);
  EXPECT_EQ(both.at("candidates")[1].at("change"), Json({{"model.compile", "reduce-overhead"}}));
  json["knobs"]["model.compile"]["unavailable_choices"] = {
      {"reduce-overhead", "a step has several forward or backward passes"}};
  EXPECT_EQ(ask("torch_compile", json).at("candidates").size(), 1);
}

TEST(TorchCompile, SaysWhyNot) {
  Answers answers("torch_compile");
  const Json json = script();
  answers.declines("3 % in passes", json,
                   {{"metrics", {{"step.forward_ratio", 0.01}, {"step.backward_ratio", 0.02}}}});
  answers.declines(
      "no compiler", json,
      {{"knobs", {{"model.compile", {{"unavailable", "needs a C++ compiler: there is no g++"}}}}}});
  answers.declines("a recipe", situation("fashion_cnn_cpu"));
}

}  // namespace
}  // namespace autotuned::plugins
