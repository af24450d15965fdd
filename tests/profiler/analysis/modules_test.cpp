// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/modules.hpp"

#include <gmock/gmock.h>

#include "tests/profiler/trace_text.hpp"

namespace autotuned::analysis {
namespace {

ModuleTable modules_of(const TraceText& text) {
  const auto trace = read_trace_text(text.text());
  EXPECT_TRUE(trace) << trace.error().message();
  return module_table(*trace, call_tree(*trace, launches_of(*trace), CallTreeOf::everything));
}

const ModuleRow& row(const ModuleTable& table, const std::string& path) {
  for (const ModuleRow& row : table.rows) {
    if (row.path == path) return row;
  }
  ADD_FAILURE() << "no module " << path;
  static const ModuleRow kNone;
  return kNone;
}

Json forward(int sequence, int id = 0) {
  return {{"Sequence number", sequence}, {"Fwd thread id", 0}, {"External id", id}};
}
Json backward(int sequence, int id = 0) {
  return {{"Sequence number", sequence}, {"Fwd thread id", 1}, {"External id", id}};
}

// A net of two layers, the second of which runs twice; its backward pass on a thread of its own.
TraceText two_layers() {
  TraceText text;
  text.step(1, 0, 1000);
  text.event("python_function", "nn.Module: Net_0", 10, 100);
  text.event("python_function", "torch/nn/modules/module.py(1): _call_impl", 11, 98);
  text.event("python_function", "nn.Module: Linear_0", 20, 30);
  text.event("cpu_op", "aten::linear", 22, 20, forward(1, 1));
  text.kernel("gemm", 25, 200, 7, {{"External id", 1}});
  text.event("python_function", "nn.Module: Linear_1", 60, 20);
  text.event("cpu_op", "aten::linear", 62, 10, forward(2));
  text.event("python_function", "nn.Module: Linear_1", 85, 10);
  text.event("cpu_op", "aten::linear", 86, 8, forward(3));
  text.event("cpu_op", "aten::nll_loss", 120, 15, forward(4));
  const int other = 2;
  text.event("cpu_op", "autograd::engine::evaluate_function: NllLossBackward0", 200, 5, backward(4),
             other);
  text.event("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 210, 40, backward(1),
             other);
  text.event("cpu_op", "AddmmBackward0", 212, 30, backward(1), other);
  text.event("cpu_op", "aten::mm", 214, 20, {{"External id", 9}}, other);
  text.kernel("gemm", 216, 300, 11, {{"External id", 9}});
  text.event("cpu_op", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 260,
             6, Json::object(), other);
  text.event("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 270, 9, backward(3),
             other);
  return text;
}

TEST(ModuleTable, IsATreeByWhoCallsWhom) {
  const ModuleTable table = modules_of(two_layers());
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_EQ(table.rows[0].path, "Net_0");
  EXPECT_EQ(table.rows[1].path, "Net_0.Linear_0");
  EXPECT_EQ(table.rows[1].name, "Linear_0");
  EXPECT_EQ(table.rows[1].depth, 1);
  EXPECT_EQ(table.rows[1].parent, 0U);
  EXPECT_EQ(table.rows[2].path, "Net_0.Linear_1");
  EXPECT_EQ(table.rows[2].calls, 2);
  EXPECT_EQ(table.rows[0].total.forward_host_ns, 100'000);
  EXPECT_EQ(table.rows[0].own.forward_host_ns, 40'000);  // without 30, 20 and 10
  EXPECT_EQ(table.rows[2].total.forward_host_ns, 30'000);
}

TEST(ModuleTable, ChargesBackwardToTheModuleOfTheForward) {
  const ModuleTable table = modules_of(two_layers());
  // 40 of the node, and 6 of the gradients that are added up right after it.
  EXPECT_EQ(row(table, "Net_0.Linear_0").own.backward_host_ns, 46'000);
  EXPECT_EQ(row(table, "Net_0.Linear_1").own.backward_host_ns, 9'000);
  EXPECT_EQ(row(table, "Net_0").total.backward_host_ns, 55'000);
  EXPECT_EQ(row(table, "Net_0").own.backward_host_ns, 0);
  EXPECT_EQ(row(table, "Net_0.Linear_0").own.forward_device_ns, 7'000);
  EXPECT_EQ(row(table, "Net_0.Linear_0").own.backward_device_ns, 11'000);
  EXPECT_EQ(table.outside.backward_host_ns, 5'000);  // of the loss
  EXPECT_EQ(table.outside.forward_host_ns, 15'000);
}

// If several operators have one number, the last one made the node.
TEST(ModuleTable, TheLatestOperatorOwnsTheNode) {
  TraceText text;
  text.event("python_function", "nn.Module: A_0", 0, 10);
  text.event("cpu_op", "aten::detach", 1, 2, forward(7));
  text.event("python_function", "nn.Module: B_0", 20, 10);
  text.event("cpu_op", "aten::relu", 21, 2, forward(7));
  text.event("cpu_op", "ReluBackward0", 40, 3, backward(7));
  const ModuleTable table = modules_of(text);
  EXPECT_EQ(row(table, "B_0").own.backward_host_ns, 3'000);
  EXPECT_EQ(row(table, "A_0").own.backward_host_ns, 0);
}

// DataParallel: each replica counts for itself, so both have the number 1.
TEST(ModuleTable, TellsThreadsThatCountAlikeApart) {
  TraceText text;
  const auto node = [](int forward_thread) {
    return Json{{"Sequence number", 1}, {"Fwd thread id", forward_thread}};
  };
  text.event("user_annotation", "nn.Module: A_0", 0, 10, Json::object(), 5);
  text.event("cpu_op", "aten::relu", 1, 2, forward(1), 5);
  text.event("user_annotation", "nn.Module: B_0", 4, 10, Json::object(), 4);
  text.event("cpu_op", "aten::relu", 5, 2, forward(1), 4);
  text.event("cpu_op", "ReluBackward0", 40, 3, node(12), 8);
  text.event("cpu_op", "ReluBackward0", 40, 7, node(13), 9);
  const ModuleTable table = modules_of(text);
  EXPECT_EQ(row(table, "A_0").own.backward_host_ns, 3'000);
  EXPECT_EQ(row(table, "B_0").own.backward_host_ns, 7'000);
}

// A thread that loads counts, too, but other numbers: those of the nodes are the training thread's.
TEST(ModuleTable, TakesTheThreadThatCountedTheNumbers) {
  TraceText text;
  text.event("cpu_op", "aten::set_", 0, 1, forward(3), 7);
  text.event("user_annotation", "nn.Module: A_0", 10, 20);
  text.event("cpu_op", "aten::mm", 11, 2, forward(3));
  text.event("cpu_op", "aten::relu", 15, 2, forward(4));
  text.event("cpu_op", "ReluBackward0", 40, 5, backward(4));
  text.event("cpu_op", "MmBackward0", 46, 4, backward(3));
  EXPECT_EQ(row(modules_of(text), "A_0").own.backward_host_ns, 9'000);
}

// Annotations instead of calls of Python, named by the whole path.
TEST(ModuleTable, TakesNamesThatAreWholePaths) {
  TraceText text;
  text.event("user_annotation", "nn.Module: layer1", 0, 100);
  text.event("user_annotation", "nn.Module: layer1.0", 10, 80);
  text.event("user_annotation", "nn.Module: layer1.0.conv", 20, 50);
  const ModuleTable table = modules_of(text);
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_EQ(table.rows[2].path, "layer1.0.conv");
  EXPECT_EQ(table.rows[2].name, "conv");
  EXPECT_EQ(table.rows[2].depth, 2);
}

// As `autotuned profile` writes them.
TEST(ModuleTable, TakesAnnotationsThatAreModules) {
  TraceText text;
  text.event("user_annotation", "forward", 0, 200);
  text.event("user_annotation", "features", 0, 100, {{"Module Hierarchy", "features"}});
  text.event("user_annotation", "features.conv", 10, 30, {{"Module Hierarchy", "features.conv"}});
  text.event("cpu_op", "aten::conv2d", 12, 20, {{"Module Hierarchy", "features.conv"}});
  const ModuleTable table = modules_of(text);
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[1].path, "features.conv");
  EXPECT_EQ(table.rows[1].total.forward_host_ns, 30'000);
  EXPECT_EQ(table.outside.forward_host_ns, 0);
}

TEST(ModuleTable, CountsNoTimeTwice) {
  TraceText text;
  text.event("cpu_op", "DistributedDataParallel.forward", 0, 100);
  text.event("python_function", "nn.Module: Net_0", 10, 70);
  const ModuleTable table = modules_of(text);
  EXPECT_EQ(row(table, "Net_0").own.forward_host_ns, 70'000);
  EXPECT_EQ(table.outside.forward_host_ns, 30'000);
}

// The inner one ends half a microsecond later by rounding, and fills the outer one.
TEST(ModuleTable, AModuleHoldsWhatEndsLaterByRounding) {
  TraceText text;
  text.event("python_function", "nn.Module: Net_0", 10, 100);
  text.event("python_function", "nn.Module: Linear_0", 10.25, 100.25);
  const ModuleTable table = modules_of(text);
  EXPECT_EQ(row(table, "Net_0.Linear_0").own.forward_host_ns, 100'250);
  EXPECT_EQ(row(table, "Net_0").own.forward_host_ns, 0);
}

// Old traces have moments and lengths in whole microseconds, cut off: here of a call from 10.9 to 13.8 and of one in it,
// from 11.0 to 13.7.
TEST(ModuleTable, AShortModuleHoldsWhatEndsAWholeMicrosecondLater) {
  TraceText text;
  text.event("python_function", "nn.Module: Net_0", 0, 100);
  text.event("python_function", "nn.Module: Sequential_0", 10, 2);
  text.event("python_function", "nn.Module: ReLU_0", 11, 2);
  text.event("cpu_op", "aten::relu", 11, 1);
  text.event("python_function", "nn.Module: Linear_0", 20, 5);
  const ModuleTable table = modules_of(text);
  EXPECT_EQ(row(table, "Net_0.Sequential_0.ReLU_0").total.forward_host_ns, 2'000);
  EXPECT_EQ(row(table, "Net_0.Linear_0").depth, 1);
  ASSERT_EQ(table.rows.size(), 4U);
}

// Not so where moments are finer: as much inside as outside is what rounding makes of neighbours, too.
TEST(ModuleTable, ShortModulesThatOverlapByRoundingStayNeighbours) {
  TraceText text;
  text.event("python_function", "nn.Module: Net_0", 0, 100);
  text.event("python_function", "nn.Module: ReLU_0", 10.25, 0.5);
  text.event("python_function", "nn.Module: ReLU_1", 10.5, 0.5);
  const ModuleTable table = modules_of(text);
  EXPECT_EQ(row(table, "Net_0.ReLU_1").depth, 1);
}

TEST(ModuleTable, SurvivesDeepNesting) {
  TraceText text;
  for (int i = 0; i < 2000; ++i)
    text.event("python_function", "nn.Module: M_" + std::to_string(i), i, 10'000 - 2 * i);
  const ModuleTable table = modules_of(text);
  EXPECT_LE(table.rows.size(), 101U);
  EXPECT_EQ(table.rows[0].total.forward_host_ns, 10'000'000);
}

}  // namespace
}  // namespace autotuned::analysis
