// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

// Many small operators in a short step.
Json launch_bound() {
  Json json = situation("resnet18_gpu");
  json["knobs"]["cuda.graph"] = json["knobs"]["cudnn.benchmark"];
  json["incumbent"]["cuda.graph"] = false;
  json["permissions"]["numerics"] = true;
  json["metrics"]["step.duration_ns"] = 10e6;
  json["metrics"]["operators.count_per_step"] = 1200;
  json["metrics"]["operators.mean_ns"] = 7000;
  return json;
}

TEST(CudaGraph, FollowsWhatStartingOperatorsTakes) {
  Answers answers("cuda_graph");
  Json json = launch_bound();
  const Json change = {{"cuda.graph", true}};
  const Json answer = answers.proposes("1200 operators of 7 us", json, change);
  EXPECT_NEAR(first_share(answer), 0.84, 1e-9);
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.42), 1e-9);
  tell(json, change, "rejected", 0.98);
  answers.declines("it was tried", json);
}

// What a trace saw counts more than what the operators might cost.
TEST(CudaGraph, FollowsTheWaitingOfTheGpuWhereThereIsATrace) {
  Answers answers("cuda_graph");
  Json json = launch_bound();
  const Json change = {{"cuda.graph", true}};
  json["metrics"]["device.launch_wait_ratio"] = 0.1;
  answers.declines("10 % of waiting", json);
  json["metrics"]["device.launch_wait_ratio"] = 0.6;
  json["metrics"]["operators.mean_ns"] = 1;
  const Json answer = answers.proposes("60 % of waiting", json, change);
  EXPECT_NEAR(first_share(answer), 0.6, 1e-9);
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.3), 1e-9);
  tell(json, change, "rejected", 0.98);
  answers.declines("it was tried", json);
}

TEST(CudaGraph, SaysWhyNot) {
  Answers answers("cuda_graph");
  const Json json = launch_bound();
  answers.declines("operators that take long are no launches", json,
                   {{"metrics", {{"step.duration_ns", 200e6}, {"operators.mean_ns", 160'000}}}});
  answers.declines("a paced model", json, {{"recipe", {{"model", "paced"}}}});
  answers.declines("the loss is read at every step", json,
                   {{"incumbent", {{"train.loss_reading", "every_step"}}}});
  answers.declines("it is set", json, {{"incumbent", {{"cuda.graph", true}}}});
  answers.declines("no measurement", json, {{"metrics", {{"operators.mean_ns", nullptr}}}});
  answers.declines("no knob", json, {{"knobs", {{"cuda.graph", nullptr}}}});
  answers.declines("a CPU", situation("fashion_cnn_cpu"));
}

}  // namespace
}  // namespace autotuned::plugins
