// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/events/tables.hpp"

#include <gmock/gmock.h>

#include "tests/profiler/trace_text.hpp"

namespace autotuned::analysis {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

std::vector<OperatorRow> operators_of(const TraceText& text) {
  const auto trace = read_trace_text(text.text());
  EXPECT_TRUE(trace) << trace.error().message();
  return operator_table(*trace, launches_of(*trace));
}

TEST(OperatorTable, ChargesTimeToTheInnermost) {
  TraceText text;
  text.event("cpu_op", "aten::linear", 0, 100, {{"External id", 1}});
  text.event("cpu_op", "aten::mm", 10, 60, {{"External id", 2}});
  text.kernel("sgemm", 20, 200, 40, {{"External id", 2}});
  text.event("cpu_op", "aten::mm", 300, 10, {{"External id", 3}}, 2);  // another thread
  EXPECT_THAT(operators_of(text),
              UnorderedElementsAre(OperatorRow{"aten::linear", 1, 100'000, 40'000, 40'000, 0},
                                   OperatorRow{"aten::mm", 2, 70'000, 69'000, 40'000, 40'000}));
}

TEST(OperatorTable, CountsAChainOfOneNameOnce) {
  TraceText text;
  text.event("cpu_op", "aten::to", 0, 100, {{"External id", 1}});
  text.event("cpu_op", "aten::to", 10, 80, {{"External id", 2}});
  text.event("cpu_op", "aten::copy_", 20, 50, {{"External id", 3}});
  text.kernel("copy", 90, 95, 7, {{"External id", 2}});
  EXPECT_THAT(operators_of(text),
              UnorderedElementsAre(OperatorRow{"aten::to", 1, 100'000, 49'000, 7'000, 7'000},
                                   OperatorRow{"aten::copy_", 1, 50'000, 50'000, 0, 0}));
}

TEST(OperatorTable, LeavesOutWhatIsNoOperator) {
  TraceText text;
  text.step(1, 0, 100);
  text.event("cpu_op", "DistributedDataParallel.forward", 0, 90);
  text.event("user_annotation", "Optimizer.step#SGD.step", 10, 50);
  text.event("cpu_op", "aten::add_", 20, 10);
  EXPECT_THAT(operators_of(text), ElementsAre(OperatorRow{"aten::add_", 1, 10'000, 10'000, 0, 0}));
}

// Events of one thread that overlap are damage: no time may become negative or be lost.
TEST(OperatorTable, SurvivesEventsThatOverlap) {
  TraceText text;
  text.event("cpu_op", "a", 0, 100).event("cpu_op", "b", 50, 100).event("cpu_op", "c", 120, 10);
  EXPECT_THAT(operators_of(text), UnorderedElementsAre(OperatorRow{"a", 1, 100'000, 100'000, 0, 0},
                                                       OperatorRow{"b", 1, 100'000, 90'000, 0, 0},
                                                       OperatorRow{"c", 1, 10'000, 10'000, 0, 0}));
}

// Moments that a program has rounded to quarters of a microsecond; lengths are as they were.
TEST(OperatorTable, AnOperatorHoldsWhatEndsLaterByRounding) {
  TraceText text;
  text.event("cpu_op", "aten::linear", 0, 100);
  text.event("cpu_op", "aten::addmm", 40, 60.25);
  text.kernel("sgemm", 99.5, 200, 40);
  EXPECT_THAT(operators_of(text),
              UnorderedElementsAre(OperatorRow{"aten::linear", 1, 100'000, 39'750, 40'000, 0},
                                   OperatorRow{"aten::addmm", 1, 60'250, 59'250, 40'000, 40'000}));
}

// Two that overlap by rounding are both children of the operator around them, and so is one that ends after it.
TEST(OperatorTable, NeighboursThatOverlapByRoundingStayNeighbours) {
  TraceText text;
  text.event("cpu_op", "aten::linear", 0, 100);
  text.event("cpu_op", "aten::t", 10, 21).event("cpu_op", "aten::addmm", 30.25, 1.5);
  text.event("cpu_op", "aten::relu", 99, 1.5);
  EXPECT_THAT(operators_of(text),
              UnorderedElementsAre(OperatorRow{"aten::linear", 1, 100'000, 76'000, 0, 0},
                                   OperatorRow{"aten::t", 1, 21'000, 21'000, 0, 0},
                                   OperatorRow{"aten::addmm", 1, 1'500, 1'500, 0, 0},
                                   OperatorRow{"aten::relu", 1, 1'500, 1'500, 0, 0}));
}

TEST(OperatorTable, CountsFloatingPointOperationsWhereShapesWereRecorded) {
  TraceText text;
  text.event("cpu_op", "aten::mm", 0, 10, {{"Input Dims", Json::parse("[[2, 3], [3, 5]]")}});
  text.event("cpu_op", "aten::mm", 20, 10, {{"Input Dims", Json::parse("[[4, 3], [3, 5]]")}});
  text.event("cpu_op", "aten::mm", 40, 10);
  text.event("cpu_op", "aten::add", 60, 10, {{"Input Dims", Json::parse("[[4, 3], [4, 3]]")}});
  text.event("cpu_op", "aten::conv1d", 80, 10,
             {{"Concrete Inputs", Json::parse(R"(["", "", "", "[1]", "[0]", "[1]", "1"])")},
              {"Input Dims", Json::parse("[[1, 1, 9], [1, 1, 3], [], [], [], [], []]")}});
  for (const OperatorRow& row : operators_of(text)) {
    EXPECT_EQ(row.flop, row.name == "aten::mm"       ? 60 + 120
                        : row.name == "aten::conv1d" ? 42
                                                     : 0)
        << row.name;
  }
}

TEST(OperatorTable, FindsWorkWhoseLaunchIsMissing) {
  TraceText text;
  text.event("cpu_op", "aten::mm", 0, 10, {{"External id", 5}});
  text.event("kernel", "gemm", 20, 30, {{"External id", 5}, {"device", 0}});
  EXPECT_THAT(operators_of(text),
              ElementsAre(OperatorRow{"aten::mm", 1, 10'000, 10'000, 30'000, 30'000}));
}

// Some versions give a launch a number of its own as external id.
TEST(OperatorTable, ChargesALaunchOfNobodyToWhatHoldsIt) {
  TraceText text;
  text.event("cpu_op", "aten::linear", 0, 100, {{"External id", 1}});
  text.event("cpu_op", "aten::mm", 10, 50, {{"External id", 2}});
  text.kernel("gemm", 20, 200, 40, {{"External id", 900}});
  text.kernel("bias", 70, 250, 5, {{"External id", 901}});
  text.kernel("nobody", 150, 260, 3, {{"External id", 902}});
  EXPECT_THAT(operators_of(text),
              UnorderedElementsAre(OperatorRow{"aten::linear", 1, 100'000, 49'000, 45'000, 5'000},
                                   OperatorRow{"aten::mm", 1, 50'000, 49'000, 40'000, 40'000}));
}

// Kineto gives a launch its correlation as external id where it knows no operator, and some versions always.
TEST(OperatorTable, TakesACorrelationForNoOperator) {
  TraceText text;
  text.event("cpu_op", "aten::empty", 0, 10, {{"External id", 7}});
  text.event("cpu_op", "aten::conv2d", 20, 100, {{"External id", 8}});
  text.event("cuda_runtime", "cudaLaunchKernel", 30, 60, {{"External id", 7}, {"correlation", 7}});
  text.event("kernel", "conv", 100, 40, {{"External id", 7}, {"correlation", 7}, {"device", 0}});
  EXPECT_THAT(
      operators_of(text),
      UnorderedElementsAre(OperatorRow{"aten::empty", 1, 10'000, 10'000, 0, 0},
                           OperatorRow{"aten::conv2d", 1, 100'000, 40'000, 40'000, 40'000}));
}

TEST(KernelTable, WeighsByDuration) {
  TraceText text;
  text.kernel("long", 0, 10, 30, {{"blocks per SM", 2}, {"est. achieved occupancy %", 50}});
  text.kernel("long", 0, 50, 10, {{"blocks per SM", 6}, {"est. achieved occupancy %", 10}});
  text.kernel("short_hmma", 0, 70, 5);
  const auto trace = read_trace_text(text.text());
  ASSERT_TRUE(trace);
  const auto table = kernel_table(*trace);
  ASSERT_EQ(table.size(), 2U);
  EXPECT_EQ(table[0].name, "long");
  EXPECT_EQ(table[0].calls, 2);
  EXPECT_EQ(table[0].total_ns, 40'000);
  EXPECT_EQ(table[0].min_ns, 10'000);
  EXPECT_EQ(table[0].max_ns, 30'000);
  EXPECT_DOUBLE_EQ(table[0].blocks_per_sm.value(), 3);
  EXPECT_DOUBLE_EQ(table[0].occupancy_percent.value(), 40);
  EXPECT_EQ(table[1].tensor_cores, TensorCores::yes);
  EXPECT_EQ(table[1].blocks_per_sm, std::nullopt);
  EXPECT_EQ(table[1].occupancy_percent, std::nullopt);
}

TEST(KernelTable, ACallWhoseFiguresAreUnknownIsNoCallWithNone) {
  TraceText text;
  text.kernel("gemm", 0, 10, 30, {{"blocks per SM", 2}, {"est. achieved occupancy %", 50}});
  text.kernel("gemm", 0, 50, 30);
  const auto trace = read_trace_text(text.text());
  ASSERT_TRUE(trace);
  const auto table = kernel_table(*trace);
  ASSERT_EQ(table.size(), 1U);
  EXPECT_EQ(table[0].calls, 2);
  EXPECT_DOUBLE_EQ(table[0].blocks_per_sm.value(), 2);
  EXPECT_DOUBLE_EQ(table[0].occupancy_percent.value(), 50);
}

}  // namespace
}  // namespace autotuned::analysis
