// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/events/stacks.hpp"

#include <gmock/gmock.h>

#include <map>

#include "profiler/analysis/events/call_tree.hpp"
#include "profiler/analysis/events/tables.hpp"
#include "profiler/analysis/flame.hpp"
#include "tests/places.hpp"
#include "tests/profiler/trace_text.hpp"

namespace autotuned::analysis {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Pair;
using testing::StartsWith;
using testing::UnorderedElementsAre;

traces::Trace read(const std::string& text) {
  auto trace = read_trace_text(text, {.with_stacks = true});
  EXPECT_TRUE(trace) << trace.error().message();
  return *std::move(trace);
}

// The stack of each operator; "": it has none.
std::map<std::string, std::string> stacks_in(const TraceText& text) {
  const traces::Trace trace = read(text.text());
  const Stacks stacks = stacks_of(trace);
  std::map<std::string, std::string> result;
  for (std::uint32_t row = 0; row < stacks.of_row.size(); ++row) {
    if (trace.events.kind[row] != traces::EventKind::cpu_operator) continue;
    result[trace.name_of(row)] = stack_text(stacks, stacks.of_row[row]);
  }
  return result;
}

TEST(Stacks, AreThePythonFunctionsAround) {
  TraceText text;
  text.python("train.py(30): main", 0, 100).python("model.py(12): forward", 10, 40);
  text.python("nn.Module: Linear_0", 12, 30).python("<built-in function linear>", 14, 20);
  text.event("cpu_op", "aten::linear", 15, 10).event("cpu_op", "aten::sum", 60, 10);
  text.event("cpu_op", "aten::late", 120, 10).event("cpu_op", "aten::worker", 15, 5, {}, 2);
  EXPECT_THAT(
      stacks_in(text),
      UnorderedElementsAre(
          Pair("aten::linear", "nn.Module: Linear_0 ← model.py(12): forward ← train.py(30): main"),
          Pair("aten::sum", "train.py(30): main"), Pair("aten::late", ""),
          Pair("aten::worker", "")));
}

TEST(Stacks, AreNotThereWhereNobodyAskedOrNothingWasRecorded) {
  TraceText text;
  text.event("cpu_op", "aten::mm", 5, 2, {{"Call stack", "a.py(1): f;"}});
  EXPECT_TRUE(stacks_of(read(text.text())).has_any);
  const auto plain = read_trace_text(text.text());
  ASSERT_TRUE(plain);
  EXPECT_FALSE(stacks_of(*plain).has_any);
  text.json()["traceEvents"][0]["args"].erase("Call stack");
  EXPECT_FALSE(stacks_of(read(text.text())).has_any);
}

// Times in whole microseconds: the second call seems to begin within the first one.
TEST(Stacks, FollowTheNumberOfTheCaller) {
  TraceText text;
  text.python("main", 0, 100, 1).python("first", 10, 11, 2, 1).python("second", 20, 10, 3, 1);
  text.event("cpu_op", "aten::mm", 22, 5);
  EXPECT_EQ(stacks_in(text)["aten::mm"], "second ← main");
  // Numbers that make no sense are as good as none.
  TraceText odd;
  odd.python("main", 0, 100, 1, 1).python("inner", 10, 20, 1'999'999'999, 77);
  odd.event("cpu_op", "aten::mm", 12, 5);
  EXPECT_EQ(stacks_in(odd)["aten::mm"], "inner ← main");
}

TEST(Stacks, AreWhatTorchScriptTells) {
  TraceText text;
  text.event("cpu_op", "aten::mm", 5, 2,
             {{"External id", 1}, {"Call stack", "model.py(7): inner;model.py(3): forward;"}});
  text.event("cpu_op", "aten::add", 8, 2, {{"Call stack", ";;"}});
  EXPECT_THAT(stacks_in(text),
              UnorderedElementsAre(Pair("aten::mm", "model.py(7): inner ← model.py(3): forward"),
                                   Pair("aten::add", "")));
}

TEST(Stacks, OfTheBackwardPassAreThoseOfItsForward) {
  TraceText text;
  text.python("train.py(30): main", 0, 300).python("model.py(12): forward", 10, 40);
  text.python("tensor.py(5): backward", 100, 100);
  text.event("cpu_op", "aten::mm", 15, 10, {{"Sequence number", 4}});
  const Json node = {{"Sequence number", 4}, {"Fwd thread id", 1}};
  text.event("cpu_op", "MmBackward0", 110, 20, node).event("cpu_op", "aten::t", 112, 5);
  text.event("cpu_op", "AccumulateGrad", 140, 5);
  text.event("cpu_op", "OtherBackward0", 150, 5, {{"Sequence number", 5}, {"Fwd thread id", 1}});
  const std::string of_forward = "(backward) ← model.py(12): forward ← train.py(30): main";
  const std::string of_pass = "tensor.py(5): backward ← train.py(30): main";
  EXPECT_THAT(
      stacks_in(text),
      UnorderedElementsAre(Pair("aten::mm", "model.py(12): forward ← train.py(30): main"),
                           Pair("MmBackward0", of_forward), Pair("aten::t", of_forward),
                           Pair("AccumulateGrad", of_pass), Pair("OtherBackward0", of_pass)));
}

// Two threads count alike, as those of DataParallel do.
TEST(Stacks, OfTheBackwardPassAreThoseOfTheThreadThatCounted) {
  TraceText text;
  text.python("a.py(1): first", 0, 100).python("b.py(2): second", 0, 100, 0, 0, 2);
  text.event("cpu_op", "aten::mm", 10, 10, {{"Sequence number", 4}}, 1);
  text.event("cpu_op", "aten::add", 30, 10, {{"Sequence number", 4}}, 2);
  text.event("cpu_op", "MmBackward0", 200, 10, {{"Sequence number", 4}, {"Fwd thread id", 1}}, 3);
  text.event("cpu_op", "AddBackward0", 220, 10, {{"Sequence number", 4}, {"Fwd thread id", 2}}, 3);
  auto stacks = stacks_in(text);
  EXPECT_EQ(stacks["MmBackward0"], "(backward) ← a.py(1): first");
  EXPECT_EQ(stacks["AddBackward0"], "(backward) ← b.py(2): second");
}

// The depth of stacks and of flame graphs is the same.
TEST(Stacks, AreAsDeepAsTheFlameGraph) {
  TraceText text;
  for (int i = 0; i < 150; ++i)
    text.python("f" + std::to_string(i), i, 1000 - 2 * i);
  text.event("cpu_op", "aten::mm", 500, 0.5);
  const traces::Trace trace = read(text.text());
  const Stacks stacks = stacks_of(trace);
  EXPECT_EQ(stacks.frames.size(), 150U);
  const Flame flame = flame_of(trace, call_tree(trace, launches_of(trace), CallTreeOf::everything),
                               1000, FlameOf::python_too);
  EXPECT_EQ(flame.frames.size(), 151U);
}

TEST(Stacks, AreReadFromWhatPyTorchWrote) {
  const auto trace =
      traces::read_trace(tests::source_folder() / "tests/profiler/data/stacks.pt.trace.json.gz",
                         {.with_stacks = true});
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_TRUE(trace->damage.empty());
  EXPECT_FALSE(trace->python_calls.empty());
  const Stacks stacks = stacks_of(*trace);
  std::map<std::string, std::string> found;
  for (std::uint32_t row = 0; row < trace->events.size(); ++row)
    found[trace->name_of(row)] = stack_text(stacks, stacks.of_row[row], 100);
  const std::string linear =
      "torch/nn/modules/linear.py(130): forward ← torch/nn/modules/module.py(1783): _call_impl ← "
      "nn.Module: Linear_0 ← ";
  EXPECT_THAT(found["aten::addmm"],
              AllOf(StartsWith(linear), HasSubstr("train ← write_traces.py(")));
  EXPECT_EQ(found["AddmmBackward0"], "(backward) ← " + found["aten::addmm"]);
  EXPECT_THAT(found["torch::autograd::AccumulateGrad"], HasSubstr("backward ← "));
}

TEST(Stacks, GroupTheTableOfOperators) {
  TraceText text;
  text.python("train.py(30): main", 0, 200).python("model.py(12): forward", 10, 40);
  text.event("cpu_op", "aten::mm", 15, 10).event("cpu_op", "aten::mm", 30, 10);
  text.event("cpu_op", "aten::mm", 70, 5);
  const traces::Trace trace = read(text.text());
  const auto rows =
      operator_table(trace, launches_of(trace), OperatorsBy::stacks, stacks_of(trace));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].calls, 2);
  EXPECT_EQ(rows[0].host_self_ns, 20'000);
  EXPECT_EQ(rows[0].stack, "model.py(12): forward ← train.py(30): main");
  EXPECT_EQ(rows[1].stack, "train.py(30): main");
  EXPECT_EQ(operator_table(trace, launches_of(trace), OperatorsBy::stacks).size(), 1U);
}

TEST(Stacks, AreBounded) {
  TraceText text;
  std::string written;
  for (int i = 0; i < 3000; ++i) {
    text.python("f" + std::to_string(i), i, 6000 - 2 * i, i + 1, i);
    written += "g" + std::to_string(i) + ";";
  }
  text.event("cpu_op", "aten::mm", 3000, 0.5)
      .event("cpu_op", "aten::add", 9000, 1, {{"Call stack", written}});
  const traces::Trace trace = read(text.text());
  const Stacks stacks = stacks_of(trace);
  EXPECT_LT(stacks.frames.size(), 1000U);
  for (std::uint32_t row = 0; row < trace.events.size(); ++row) {
    const std::string stack = stack_text(stacks, stacks.of_row[row], 2);
    EXPECT_THAT(stack, testing::EndsWith(" ← …")) << stack;
  }
  EXPECT_EQ(stack_text(stacks, stacks.of_row[1], 1), "g0 ← …");
}

}  // namespace
}  // namespace autotuned::analysis
