// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/events/breakdown.hpp"

#include <gmock/gmock.h>

#include <random>

#include "tests/profiler/trace_text.hpp"

namespace autotuned::analysis {
namespace {

Breakdown breakdown_of_text(const TraceText& text) {
  const auto trace = read_trace_text(text.text());
  EXPECT_TRUE(trace) << trace.error().message();
  return breakdown_of(*trace, launches_of(*trace));
}

std::int64_t part_us(const Step& step, Part part) {
  return step.part_ns[static_cast<std::size_t>(part)] / 1000;
}

TEST(Breakdown, EveryMomentGoesToTheFirstThatClaimsIt) {
  TraceText text;
  text.step(3, 0, 100);
  text.event("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0,
             20);
  text.event("cpu_op", "aten::mm", 15, 25);                          // 20..40, minus what follows
  text.event("user_annotation", "Optimizer.step#SGD.step", 80, 10);  // nothing by itself
  text.kernel("sgemm", 30, 35, 15);                                  // call 30..31, kernel 35..50
  text.event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 45, 10, {{"device", 0}});  // 50..55
  text.event("gpu_memset", "Memset (Device)", 54, 3, {{"device", 0}});                  // 55..57
  text.kernel("ncclDevKernel_AllReduce", 58, 60, 5, {{"External id", 9}});
  const Breakdown breakdown = breakdown_of_text(text);
  ASSERT_EQ(breakdown.steps.size(), 1U);
  const Step& step = breakdown.steps[0];
  EXPECT_EQ(step.name, "3");
  EXPECT_EQ(part_us(step, Part::kernel), 15);
  EXPECT_EQ(part_us(step, Part::copy), 5);
  EXPECT_EQ(part_us(step, Part::fill), 2);
  EXPECT_EQ(part_us(step, Part::communication), 5);
  EXPECT_EQ(part_us(step, Part::runtime), 2);
  EXPECT_EQ(part_us(step, Part::data_loading), 20);
  EXPECT_EQ(part_us(step, Part::cpu), 14);
  EXPECT_EQ(part_us(step, Part::other), 100 - 63);
  EXPECT_DOUBLE_EQ(breakdown.ratio_of(Part::data_loading), 0.2);
}

std::int64_t phase_us(const Step& step, CpuPhase phase) {
  return step.cpu_phase_ns[static_cast<std::size_t>(phase)] / 1000;
}

// As torch.profiler records a step without the calls of modules.
TEST(Breakdown, SplitsTheOperatorsByThePhaseOfTheTraining) {
  TraceText text;
  const auto numbered = [](int sequence, int forward_thread) {
    return Json{{"Sequence number", sequence}, {"Fwd thread id", forward_thread}};
  };
  text.step(1, 0, 100);
  text.event("cpu_op", "aten::to", 0, 5, numbered(7, 0));  // before the model: no node names it
  text.event("cpu_op", "aten::linear", 10, 20, numbered(8, 0));
  text.event("cpu_op", "aten::addmm", 12, 10);
  text.event("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 40, 30,
             numbered(8, 1), 2);
  text.event("cpu_op", "aten::mm", 45, 20, Json::object(), 2);
  text.event("cpu_op", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 70,
             5, Json::object(), 2);
  text.event("user_annotation", "Optimizer.step#SGD.step", 80, 15);
  text.event("cpu_op", "aten::add_", 82, 8);
  const Breakdown breakdown = breakdown_of_text(text);
  ASSERT_EQ(breakdown.steps.size(), 1U);
  const Step& step = breakdown.steps[0];
  EXPECT_TRUE(breakdown.has_cpu_phases);
  EXPECT_EQ(part_us(step, Part::cpu), 5 + 20 + 35 + 8);
  EXPECT_EQ(phase_us(step, CpuPhase::forward), 20);
  EXPECT_EQ(phase_us(step, CpuPhase::backward), 35);
  EXPECT_EQ(phase_us(step, CpuPhase::optimizer), 8);  // of its annotation only what operators do
  EXPECT_EQ(phase_us(step, CpuPhase::elsewhere), 5);
}

// As `autotuned profile` records it; what runs again inside of the backward pass is time of that.
TEST(Breakdown, TakesPhasesFromAnnotations) {
  TraceText text;
  text.step(1, 0, 100);
  text.event("user_annotation", "forward", 0, 20).event("user_annotation", "loss", 20, 10);
  text.event("user_annotation", "backward", 30, 40);
  text.event("cpu_op", "aten::linear", 0, 18).event("cpu_op", "aten::nll_loss", 22, 4);
  text.event("cpu_op", "aten::mm", 35, 30).event("cpu_op", "aten::zero_", 80, 3);
  text.event("user_annotation", "features", 40, 10, {{"Module Hierarchy", "features"}});
  const Breakdown breakdown = breakdown_of_text(text);
  const Step& step = breakdown.steps[0];
  EXPECT_EQ(phase_us(step, CpuPhase::forward), 18 + 4);
  EXPECT_EQ(phase_us(step, CpuPhase::backward), 30);
  EXPECT_EQ(phase_us(step, CpuPhase::optimizer), 0);
  EXPECT_EQ(phase_us(step, CpuPhase::elsewhere), 3);
}

TEST(Breakdown, KnowsNoPhasesOfATraceThatHasNone) {
  TraceText text;
  text.step(1, 0, 100).event("cpu_op", "aten::mm", 10, 20);
  const Breakdown breakdown = breakdown_of_text(text);
  EXPECT_FALSE(breakdown.has_cpu_phases);
  EXPECT_EQ(phase_us(breakdown.steps[0], CpuPhase::elsewhere), 20);
}

TEST(Breakdown, AStepLastsUntilTheDeviceIsDone) {
  TraceText text;
  text.step(1, 0, 100).step(2, 100, 100).step(3, 200, 100);
  text.kernel("a", 10, 20, 120);   // of step 1, until 140
  text.kernel("b", 110, 145, 30);  // of step 2
  text.kernel("c", 210, 310, 40);  // of step 3, until 350
  const Breakdown breakdown = breakdown_of_text(text);
  ASSERT_EQ(breakdown.steps.size(), 3U);
  EXPECT_EQ(breakdown.steps[0].time, (Interval{0, 140'000}));
  EXPECT_EQ(breakdown.steps[1].time, (Interval{140'000, 200'000}));
  EXPECT_EQ(breakdown.steps[2].time, (Interval{200'000, 350'000}));
  EXPECT_THAT(breakdown.stretches.intervals(), testing::ElementsAre(Interval{0, 350'000}));
}

TEST(Breakdown, DropsALastStepThatWasCutOff) {
  TraceText text;
  text.step(1, 0, 100).step(2, 100, 100).step(3, 200, 100);
  for (int i = 0; i < 10; ++i) {
    text.kernel("a", 10 + i, 20 + i, 1).kernel("a", 110 + i, 120 + i, 1);
    if (i < 7) text.kernel("a", 210 + i, 220 + i, 1);
  }
  const Breakdown breakdown = breakdown_of_text(text);
  EXPECT_EQ(breakdown.steps.size(), 2U);
  EXPECT_EQ(breakdown.unfinished_steps, 1);
}

TEST(Breakdown, WithoutStepsTheOperatorsAreOne) {
  TraceText text;
  text.event("user_annotation", "mine", 0, 100)
      .event("cpu_op", "a", 10, 20)
      .event("cpu_op", "b", 40, 20);
  const Breakdown breakdown = breakdown_of_text(text);
  EXPECT_FALSE(breakdown.has_steps);
  ASSERT_EQ(breakdown.steps.size(), 1U);
  EXPECT_EQ(breakdown.steps[0].time, (Interval{10'000, 60'000}));
  EXPECT_DOUBLE_EQ(breakdown.ratio_of(Part::cpu), 0.8);
}

TEST(Breakdown, CommunicationIsKnownByItsOperatorToo) {
  TraceText text;
  text.step(1, 0, 100);
  text.event("user_annotation", "nccl:all_gather", 10, 5, {{"External id", 4}});
  text.kernel("custom_collective", 12, 50, 10, {{"External id", 4}});
  const Breakdown breakdown = breakdown_of_text(text);
  EXPECT_EQ(part_us(breakdown.steps[0], Part::communication), 15);
  EXPECT_EQ(part_us(breakdown.steps[0], Part::kernel), 0);
}

TEST(Breakdown, CommunicationOfEveryMaker) {
  for (const char* kernel : {"ncclDevKernel_AllReduce_Sum_f32", "rcclGenericKernel",
                             "hcom_allReduce__1", "HcclAllReduce", "oneccl_allreduce_large"}) {
    TraceText text;
    text.step(1, 0, 100).kernel(kernel, 10, 20, 30);
    EXPECT_EQ(part_us(breakdown_of_text(text).steps[0], Part::communication), 30) << kernel;
  }
  for (const char* call : {"nccl:all_reduce", "xccl:all_reduce", "gloo:broadcast", "ucc:barrier"}) {
    TraceText text;
    text.step(1, 0, 100).event("user_annotation", call, 10, 30);
    EXPECT_EQ(part_us(breakdown_of_text(text).steps[0], Part::communication), 30) << call;
  }
  TraceText other;
  other.step(1, 0, 100).event("cpu_op", "mpi::mine", 10, 30);
  EXPECT_EQ(part_us(breakdown_of_text(other).steps[0], Part::cpu), 30);
}

// As kernels do on a device.
TEST(Breakdown, OperatorsHideCommunicationOfTheHost) {
  TraceText text;
  text.step(1, 0, 100).event("user_annotation", "gloo:all_reduce", 10, 60, Json::object(), 2);
  text.event("cpu_op", "aten::mm", 5, 45);
  const Breakdown breakdown = breakdown_of_text(text);
  EXPECT_EQ(part_us(breakdown.steps[0], Part::communication), 20);
  EXPECT_EQ(part_us(breakdown.steps[0], Part::cpu), 45);
  EXPECT_EQ(part_us(breakdown.steps[0], Part::other), 35);
}

// Whatever events there are, in whatever order, the parts add up to the steps.
TEST(Breakdown, PartsAddUp) {
  const std::vector<std::string> categories = {"cpu_op",  "user_annotation", "cuda_runtime",
                                               "kernel",  "gpu_memcpy",      "gpu_memset",
                                               "overhead"};
  const std::vector<std::string> names = {
      "aten::mm", "ProfilerStep#4", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
      "nccl:all_reduce", "ncclDevKernel_X"};
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; ++i) {
    TraceText text;
    for (auto left = 1 + random() % 40; left > 0; --left) {
      const auto start = static_cast<double>(random() % 1000) / 4;
      text.event(categories[random() % categories.size()], names[random() % names.size()], start,
                 static_cast<double>(random() % 400) / 8,
                 {{"correlation", random() % 10}, {"External id", random() % 5}, {"device", 0}},
                 static_cast<int>(random() % 3));
    }
    const Breakdown breakdown = breakdown_of_text(text);
    std::int64_t end_ns = std::numeric_limits<std::int64_t>::min();
    for (const Step& step : breakdown.steps) {
      std::int64_t sum = 0;
      for (const std::int64_t part : step.part_ns) {
        EXPECT_GE(part, 0);
        sum += part;
      }
      EXPECT_EQ(sum, step.time.length_ns());
      EXPECT_GE(step.time.start_ns, end_ns);
      end_ns = step.time.end_ns;
    }
  }
}

}  // namespace
}  // namespace autotuned::analysis
