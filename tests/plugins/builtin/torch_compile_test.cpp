// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/plugins/share.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
  Json json = script();
  const Json answer = ask("torch_compile", json);
  ASSERT_EQ(answer.at("candidates").size(), 1);
  EXPECT_EQ(first_change(answer), Json({{"model.compile", "default"}}));
  EXPECT_THAT(first_reason(answer), HasSubstr("90 % of the step"));
  EXPECT_NEAR(first_share(answer), 0.9, 1e-9);
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.18), 1e-9);
  tell(json, {{"model.compile", "default"}}, "rejected", 0.98);
  EXPECT_THAT(none_because(ask("torch_compile", json)), HasSubstr("was tried"));
}

TEST(TorchCompile, IsNotProposedWhereWhatIsLeftCannotRepayIt) {
  Json json = script();
  json["job"]["steps_left"] = 6000;
  EXPECT_THAT(none_because(ask("torch_compile", json)),
              AllOf(HasSubstr("takes about 60 s"),
                    HasSubstr("about 54 s of the 300 s that the script still trains")));
  json["job"]["steps_left"] = 6700;
  EXPECT_EQ(first_change(ask("torch_compile", json)), Json({{"model.compile", "default"}}));
  json["job"]["steps_left"] = 0;
  EXPECT_THAT(none_because(ask("torch_compile", json)), HasSubstr("is not known"));
  json["permissions"]["knobs"] = Json::array({"model.compile"});
  EXPECT_EQ(first_change(ask("torch_compile", json)), Json({{"model.compile", "default"}}));
}

TEST(TorchCompile, SearchesForKernelsWhereThatIsRepaid) {
  Json json = script();
  tell(json, {{"model.compile", "default"}}, "accepted", 1.2);
  EXPECT_THAT(none_because(ask("torch_compile", json)), HasSubstr("takes about 300 s"));
  json["job"]["steps_left"] = 1'000'000;
  EXPECT_EQ(first_change(ask("torch_compile", json)),
            Json({{"model.compile", "max-autotune-no-cudagraphs"}}));
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
  Json json = script();
  json["metrics"]["step.forward_ratio"] = 0.01;
  json["metrics"]["step.backward_ratio"] = 0.02;
  EXPECT_THAT(none_because(ask("torch_compile", json)), HasSubstr("take only 3.0 % of the step"));
  json = script();
  json["knobs"]["model.compile"]["unavailable"] = "needs a C++ compiler: there is no g++";
  EXPECT_THAT(none_because(ask("torch_compile", json)), HasSubstr("there is no g++"));
  EXPECT_THAT(none_because(ask("torch_compile", situation("fashion_cnn_cpu"))),
              HasSubstr("only modules of scripts"));
}

}  // namespace
}  // namespace autotuned::plugins
