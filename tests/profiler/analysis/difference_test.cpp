// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/difference.hpp"

#include <gmock/gmock.h>

#include "tests/profiler/trace_text.hpp"

namespace autotuned::analysis {
namespace {

TraceProfile analysis_of(const TraceText& text) {
  const auto trace = read_trace_text(text.text());
  EXPECT_TRUE(trace) << trace.error().message();
  return profile_of(*trace, Depth::views);
}

// The second has twice as many steps: what counts is one of them.
TEST(Difference, ComparesOneStep) {
  TraceText before;
  before.step(1, 0, 100);
  before.event("cpu_op", "aten::mm", 0, 60).event("cpu_op", "aten::relu", 70, 10);
  TraceText after;
  for (int step = 0; step < 2; ++step) {
    after.step(step, 100 * step, 80);
    after.event("cpu_op", "aten::mm", 100 * step, 20);
    after.event("cpu_op", "aten::relu", 100 * step + 30, 10);
    after.event("cpu_op", "aten::gelu", 100 * step + 50, 5);
  }
  const Difference difference = difference_of({analysis_of(before)}, {analysis_of(after)});
  EXPECT_DOUBLE_EQ(difference.before_step_ns, 100'000);
  EXPECT_DOUBLE_EQ(difference.after_step_ns, 80'000);
  EXPECT_THAT(difference.operators,
              testing::ElementsAre(TimeChange{"aten::mm", 60'000, 20'000, 1, 1},
                                   TimeChange{"aten::gelu", 0, 5'000, 0, 1},
                                   TimeChange{"aten::relu", 10'000, 10'000, 1, 1}));
  ASSERT_EQ(difference.parts.size(), kParts);
  EXPECT_EQ(difference.parts[0].name, "CPU Exec");
  EXPECT_DOUBLE_EQ(difference.parts[0].change_ns(), -35'000);
  EXPECT_TRUE(difference.kernels.empty());
  EXPECT_TRUE(difference.modules.empty());
  EXPECT_TRUE(difference.input.empty());
  EXPECT_TRUE(difference.memory.empty());
}

// Steps of 100 us with a module, a wait and an allocation.
TraceText whole_steps(int count, double module, double wait, int bytes) {
  TraceText text;
  for (int step = 0; step < count; ++step) {
    const int at = 100 * step;
    text.step(step, at, 100);
    text.event("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
               at, wait);
    text.event("python_function", "nn.Module: Net_0", at + 50, module);
    text.event("cpu_op", "aten::empty", at + 51, 5);
    text.memory(at + 52, bytes, bytes).memory(at + 90, -bytes, 0);
    text.event("user_annotation", "random_crop", at, 20, Json::object(), 7);
  }
  return text;
}

TEST(Difference, ComparesModulesInputAndMemory) {
  const Difference difference = difference_of({analysis_of(whole_steps(1, 30, 10, 4000))},
                                              {analysis_of(whole_steps(2, 40, 2, 1000))});
  EXPECT_THAT(difference.modules, testing::ElementsAre(TimeChange{"Net_0", 30'000, 40'000, 1, 1}));
  EXPECT_THAT(difference.input,
              testing::ElementsAre(TimeChange{"waiting for a batch", 10'000, 2'000, 1, 1},
                                   TimeChange{"random_crop", 20'000, 20'000, 1, 1}));
  EXPECT_THAT(difference.memory,
              testing::UnorderedElementsAre(SizeChange{"aten::empty on CPU", 4000, 1000},
                                            SizeChange{"peak of CPU", 4000, 1000}));
}

}  // namespace
}  // namespace autotuned::analysis
