// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/plugins/share.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
  Json json = launch_bound();
  const Json answer = ask("cuda_graph", json);
  EXPECT_EQ(first_change(answer), Json({{"cuda.graph", true}}));
  EXPECT_THAT(first_reason(answer),
              AllOf(HasSubstr("10.0 ms has 1200 operators of 7.0 us"), HasSubstr("84 % of it")));
  EXPECT_NEAR(first_share(answer), 0.84, 1e-9);
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.42), 1e-9);
  tell(json, {{"cuda.graph", true}}, "rejected", 0.98);
  EXPECT_THAT(none_because(ask("cuda_graph", json)), HasSubstr("was tried"));
}

// What a trace saw counts more than what the operators might cost.
TEST(CudaGraph, FollowsTheWaitingOfTheGpuWhereThereIsATrace) {
  Json json = launch_bound();
  json["metrics"]["device.launch_wait_ratio"] = 0.1;
  EXPECT_THAT(none_because(ask("cuda_graph", json)), HasSubstr("waits only 10 % of the time"));
  json["metrics"]["device.launch_wait_ratio"] = 0.6;
  json["metrics"]["operators.mean_ns"] = 1;
  const Json answer = ask("cuda_graph", json);
  EXPECT_EQ(first_change(answer), Json({{"cuda.graph", true}}));
  EXPECT_THAT(first_reason(answer), HasSubstr("for 60 % of the time the GPU waits"));
  EXPECT_NEAR(first_share(answer), 0.6, 1e-9);
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.3), 1e-9);
  tell(json, {{"cuda.graph", true}}, "rejected", 0.98);
  EXPECT_THAT(none_because(ask("cuda_graph", json)), HasSubstr("was tried"));
}

TEST(CudaGraph, AnOperatorThatTakesLongIsNoLaunch) {
  Json json = launch_bound();
  json["metrics"]["step.duration_ns"] = 200e6;
  json["metrics"]["operators.mean_ns"] = 160'000;
  EXPECT_THAT(none_because(ask("cuda_graph", json)), HasSubstr("only 6.0 % of a step"));
}

TEST(CudaGraph, SaysWhyNot) {
  Json json = launch_bound();
  json["recipe"]["model"] = "paced";
  EXPECT_THAT(none_because(ask("cuda_graph", json)), HasSubstr("paced waits on the host"));
  json = launch_bound();
  json["incumbent"]["train.loss_reading"] = "every_step";
  EXPECT_THAT(none_because(ask("cuda_graph", json)), HasSubstr("train.loss_reading: deferred"));
  json = launch_bound();
  json["incumbent"]["cuda.graph"] = true;
  EXPECT_THAT(none_because(ask("cuda_graph", json)), HasSubstr("already"));
  json = launch_bound();
  json["metrics"].erase("operators.mean_ns");
  EXPECT_THAT(none_because(ask("cuda_graph", json)), HasSubstr("does not say"));
  json["knobs"].erase("cuda.graph");
  EXPECT_THAT(none_because(ask("cuda_graph", json)), HasSubstr("no knob cuda.graph"));
  EXPECT_THAT(none_because(ask("cuda_graph", situation("fashion_cnn_cpu"))), HasSubstr("CPU"));
}

}  // namespace
}  // namespace autotuned::plugins
