// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/difference.hpp"

#include <gmock/gmock.h>

#include "tests/profiler/trace_text.hpp"

namespace autotuned::analysis {
namespace {

TraceAnalysis analysis_of(const TraceText& text) {
  const auto trace = read_trace_text(text.text());
  EXPECT_TRUE(trace) << trace.error().message();
  return analyze(*trace);
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
              testing::ElementsAre(Change{"aten::mm", 60'000, 20'000, 1, 1},
                                   Change{"aten::gelu", 0, 5'000, 0, 1},
                                   Change{"aten::relu", 10'000, 10'000, 1, 1}));
  ASSERT_EQ(difference.parts.size(), kParts);
  EXPECT_EQ(difference.parts[0].name, "CPU Exec");
  EXPECT_DOUBLE_EQ(difference.parts[0].change_ns(), -35'000);
  EXPECT_TRUE(difference.kernels.empty());
}

}  // namespace
}  // namespace autotuned::analysis
