// SPDX-License-Identifier: Apache-2.0
// Input, timelines, communication, and what is drawn.
#include "profiler/analysis/profile.hpp"

#include <gmock/gmock.h>

#include "tests/profiler/trace_text.hpp"

namespace autotuned::analysis {
namespace {

using testing::ElementsAre;

TraceProfile profile_of(const TraceText& text, Depth depth = Depth::plots) {
  const auto trace = read_trace_text(text.text());
  EXPECT_TRUE(trace) << trace.error().message();
  return profile_of(*trace, depth);
}

// The period of waits with these lengths, one after the other.
std::int64_t period_of(const std::vector<std::int64_t>& lengths_ns) {
  Intervals waits;
  std::int64_t at_ns = 0;
  for (const std::int64_t length_ns : lengths_ns) {
    waits.push_back({at_ns, at_ns + length_ns});
    at_ns += length_ns;
  }
  return rhythm_of(waits).period;
}

TEST(InputUse, FindsTheRhythmOfTheWorkers) {
  const std::int64_t ms = 1'000'000;
  EXPECT_EQ(period_of({9 * ms, ms, ms, ms, 9 * ms, ms, ms, ms, 8 * ms, ms, ms, ms}), 4);
  EXPECT_EQ(period_of({9 * ms, ms, ms, 9 * ms, ms, ms, ms, ms, ms, 8 * ms, ms, ms}), 0);
  EXPECT_EQ(period_of({9 * ms, 9 * ms, 9 * ms, 9 * ms}), 0);  // all the same
  EXPECT_EQ(period_of({9 * ms, 1, 1, 9 * ms, 1, 1, 9 * ms}), 3);
  EXPECT_EQ(period_of({9 * ms, ms, 9 * ms, ms, 9 * ms, ms}), 2);
  EXPECT_EQ(period_of({90'000, 1, 1, 90'000, 1, 1, 90'000}), 0);  // too short to matter
  EXPECT_EQ(period_of({}), 0);
}

TEST(InputUse, SumsWhatHappensInside) {
  TraceText text;
  const std::string next = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
  text.step(1, 0, 100).step(2, 100, 100);
  text.event("user_annotation", next, 0, 40);
  text.event("cpu_op", "aten::div", 5, 20);
  text.event("cpu_op", "aten::to", 6, 10);
  text.event("cpu_op", "aten::mm", 50, 20);
  text.event("user_annotation", next, 100, 10);
  text.event("user_annotation", "resize", 0, 30, Json::object(), 7);
  text.event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 60, 2,
             {{"device", 0}, {"bytes", 4000}});
  const InputUse input = profile_of(text).input;
  EXPECT_EQ(input.loader, "_SingleProcessDataLoaderIter");
  ASSERT_EQ(input.waits.size(), 2U);
  EXPECT_EQ(input.waits[1].step, "2");
  EXPECT_DOUBLE_EQ(input.waiting_ratio, 0.25);
  EXPECT_EQ(input.longest_wait_ns, 40'000);
  EXPECT_THAT(input.inside, ElementsAre(Occurrence{"aten::div", 1, 20'000, 20'000, 0}));
  EXPECT_THAT(input.annotations, ElementsAre(Occurrence{"resize", 1, 30'000, 30'000, 0}));
  EXPECT_THAT(input.copies,
              ElementsAre(Occurrence{"Memcpy HtoD (Pageable -> Device)", 1, 2'000, 2'000, 4000}));
}

TEST(Timelines, TellGapsAndWhatTheHostDid) {
  TraceText text;
  text.step(1, 0, 100);
  text.kernel("a", 1, 10, 10).kernel("b", 40, 70, 30);
  text.event("cpu_op", "aten::item", 22, 40);
  const TimelineTable table = profile_of(text).timelines;
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_FALSE(table.rows[0].is_device);
  EXPECT_EQ(table.rows[1].name, "GPU 0, stream 7");
  EXPECT_DOUBLE_EQ(table.rows[1].busy_ratio, 0.4);
  ASSERT_EQ(table.gaps.size(), 2U);
  EXPECT_EQ(table.gaps[0].time, (Interval{20'000, 70'000}));
  EXPECT_EQ(table.gaps[0].meanwhile, "aten::item");
  EXPECT_DOUBLE_EQ(table.gaps[0].meanwhile_ratio, 0.8);
  EXPECT_EQ(table.gaps[1].time.length_ns(), 10'000);
}

TEST(Timelines, ADeviceStandsStillWhenAllStreamsDo) {
  TraceText text;
  text.step(1, 0, 100);
  text.kernel("a", 1, 0, 60);
  text.event("kernel", "b", 50, 30, {{"device", 0}, {"stream", 20}}, 20);
  const TimelineTable table = profile_of(text).timelines;
  ASSERT_EQ(table.gaps.size(), 1U);
  EXPECT_EQ(table.gaps[0].time, (Interval{80'000, 100'000}));
  EXPECT_EQ(table.rows[table.gaps[0].timeline].name, "GPU 0, stream 7");
}

// As `autotuned profile` writes a loader's threads.
TEST(Timelines, WorkersWithoutOperatorsAreBusyToo) {
  TraceText text;
  text.step(1, 0, 100).event("cpu_op", "aten::mm", 10, 40);
  for (const int worker : {5, 6}) {
    text.event("user_annotation", "make_samples", 0, 90, Json::object(), worker);
    text.event("user_annotation", "read_sample", 10, 20, Json::object(), worker);
    text.event("user_annotation", "random_crop", 30, worker * 10, Json::object(), worker);
  }
  text.event("user_annotation", "mine", 20, 60);  // beside operators it only holds them
  const TimelineTable table = profile_of(text).timelines;
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_DOUBLE_EQ(table.rows[0].busy_ratio, 0.8);
  EXPECT_DOUBLE_EQ(table.rows[1].busy_ratio, 0.7);
  EXPECT_DOUBLE_EQ(table.rows[2].busy_ratio, 0.4);
  // Gaps are those of the thread that trains.
  ASSERT_FALSE(table.gaps.empty());
  EXPECT_EQ(table.gaps[0].timeline, 2U);
}

TEST(Timelines, UseTheNamesOfThreads) {
  TraceText text;
  text.event("cpu_op", "aten::mm", 0, 10).event("cpu_op", "aten::mm", 0, 20, Json::object(), 2);
  text.json()["traceEvents"].push_back({{"ph", "M"},
                                        {"name", "thread_name"},
                                        {"pid", 100},
                                        {"tid", 2},
                                        {"args", {{"name", "worker 3"}}}});
  const TimelineTable table = profile_of(text).timelines;
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[0].name, "worker 3");
  EXPECT_EQ(table.rows[1].name, "thread 1 of 100");
}

TEST(Communication, TellsExposedFromOverlapped) {
  TraceText text;
  text.step(1, 0, 100);
  text.kernel("gemm", 1, 10, 40).kernel("ncclDevKernel_AllReduce", 2, 30, 40);
  const Communication one = profile_of(text, Depth::views).communication;
  EXPECT_EQ(one.computation_ns, 40'000);
  EXPECT_EQ(one.communication_ns, 40'000);
  EXPECT_EQ(one.overlapped_ns, 20'000);
  EXPECT_EQ(one.exposed_ns(), 20'000);
  ASSERT_EQ(one.operations.size(), 1U);
}

// As c10d and Kineto write it: with the kernel, or with the operator that launched it.
TEST(Communication, TellsSizes) {
  TraceText text;
  text.step(1, 0, 1000);
  const Json exchange = {{"Collective name", "allreduce"},
                         {"In msg nelems", 1000},
                         {"Out msg nelems", 1000},
                         {"Group size", 8},
                         {"dtype", "Float"}};
  Json kernel = {{"device", 0},          {"stream", 7},
                 {"blocks per SM", 0.1}, {"est. achieved occupancy %", 2},
                 {"External id", 4},     {"correlation", 5}};
  kernel.update(exchange);
  text.event("cuda_runtime", "cudaLaunchKernel", 5, 1, {{"correlation", 5}});
  text.event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10, 40, kernel, 7);
  Json half = exchange;
  half.update({{"In msg nelems", 500}, {"dtype", "BFloat16"}, {"External id", 9}});
  text.event("cpu_op", "record_param_comms", 100, 20, half);
  text.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 105, 110, 40, {{"External id", 9}});
  text.kernel("ncclDevKernel_Broadcast", 205, 210, 40);
  const Communication one = profile_of(text, Depth::views).communication;
  ASSERT_EQ(one.operations.size(), 3U);
  EXPECT_EQ(one.operations[0].bytes, 4000);
  EXPECT_EQ(one.operations[0].what, "allreduce");
  EXPECT_EQ(one.operations[1].bytes, 1000);
  EXPECT_EQ(one.operations[2].bytes, 0);
  const auto table = collective_table({&one, &one});
  ASSERT_EQ(table.size(), 2U);
  EXPECT_EQ(table[0].what, "allreduce");
  EXPECT_EQ(table[0].calls, 2);
  EXPECT_EQ(table[0].bytes, 5000);
  EXPECT_EQ(table[1].bytes, std::nullopt);
}

// The traces are those of two ranks on CPUs, recorded with shapes or without.
TEST(Communication, TellsSizesOfGloo) {
  const auto of_rank = [](bool is_root, bool has_shapes) {
    const auto tensors = [&](const char* sizes, const char* types) {
      return has_shapes
                 ? Json{{"Input Dims", Json::parse(sizes)}, {"Input type", Json::parse(types)}}
                 : Json::object();
    };
    TraceText text;
    text.step(1, 0, 1000);
    text.event("cpu_op", "aten::mm", 5, 5, tensors("[[2, 2]]", R"(["float"])"));
    text.event("user_annotation", "gloo:all_reduce", 10, 40, tensors("[[1000]]", R"(["double"])"),
               2);
    text.event("user_annotation", "gloo:all_reduce", 60, 40, tensors("[[7]]", R"(["long int"])"),
               2);
    // Only the root gives anything.
    text.event("user_annotation", "gloo:scatter", 110, 30,
               is_root ? tensors("[[5], [5]]", R"(["float", "float"])") : Json::object(), 2);
    text.event("user_annotation", "gloo:barrier", 150, 10, Json::object(), 2);
    return profile_of(text, Depth::views).communication;
  };
  for (const bool has_shapes : {true, false}) {
    const Communication root = of_rank(true, has_shapes);
    const Communication other = of_rank(false, has_shapes);
    const auto table = collective_table({&root, &other});
    ASSERT_EQ(table.size(), 3U);
    EXPECT_EQ(table[0].name, "gloo:all_reduce");
    EXPECT_EQ(table[1].name, "gloo:scatter");
    if (has_shapes) {
      EXPECT_EQ(table[0].bytes, 8056);
      EXPECT_EQ(table[1].bytes, 40);
    } else {
      EXPECT_EQ(table[0].bytes, std::nullopt);
      EXPECT_EQ(table[1].bytes, std::nullopt);
    }
    EXPECT_EQ(table[2].bytes, std::nullopt) << "a barrier exchanges nothing";
  }
}

// Nonsense is no size.
TEST(Communication, HostileSizesAreNone) {
  for (const char* elements : {"-5", "99999999999999999", "many", "0"}) {
    TraceText text;
    text.step(1, 0, 100).kernel("ncclDevKernel_AllReduce", 5, 10, 40,
                                {{"In msg nelems", elements}, {"dtype", "Float"}});
    EXPECT_EQ(profile_of(text, Depth::views).communication.operations[0].bytes, 0) << elements;
  }
}

TEST(Communication, WhoIsEarlyWaits) {
  Communication early;
  early.operations = {{"all_reduce", 50}, {"all_reduce", 12}, {"broadcast", 5}};
  Communication late;
  late.operations = {{"all_reduce", 10}, {"all_reduce", 12}};
  const auto table = collective_table({&early, &late});
  ASSERT_EQ(table.size(), 2U);
  EXPECT_EQ(table[0].name, "all_reduce");
  EXPECT_EQ(table[0].calls, 2);
  EXPECT_EQ(table[0].total_ns, 42);
  EXPECT_EQ(table[0].waiting_ns, 20);
  EXPECT_EQ(table[0].transfer_ns, 22);
  EXPECT_EQ(table[1].waiting_ns, 0);  // the other rank has none: nothing is known
}

TraceText two_calls_in_steps() {
  TraceText text;
  for (int step = 0; step < 2; ++step) {
    const int at = 100 * step;
    text.step(step, at, 90);
    text.event("cpu_op", "aten::linear", at + 10, 50, {{"External id", 2 * step + 1}});
    text.event("cpu_op", "aten::addmm", at + 20, 20, {{"External id", 2 * step + 2}});
    text.kernel("gemm", at + 25, at + 30, 8, {{"External id", 2 * step + 2}});
  }
  return text;
}

TEST(Flame, MergesTheSameCallsOfAllSteps) {
  const Flame flame = profile_of(two_calls_in_steps()).flame;
  ASSERT_EQ(flame.frames.size(), 2U);
  EXPECT_EQ(flame.names[flame.frames[0].name], "aten::linear");
  EXPECT_EQ(flame.frames[0].parent, kNoNode);
  EXPECT_EQ(flame.frames[0].calls, 2);
  EXPECT_EQ(flame.frames[0].host_ns, 100'000);
  EXPECT_EQ(flame.frames[0].device_ns, 16'000);
  EXPECT_EQ(flame.frames[1].parent, 0U);
  EXPECT_EQ(flame.frames[1].host_ns, 40'000);
}

TEST(Flame, LeavesOutTheShortest) {
  const auto trace = read_trace_text(two_calls_in_steps().text());
  ASSERT_TRUE(trace);
  const Flame flame =
      flame_of(*trace, call_tree(*trace, launches_of(*trace), CallTreeOf::everything), 1);
  ASSERT_EQ(flame.frames.size(), 1U);
  EXPECT_EQ(flame.names, (std::vector<std::string>{"aten::linear"}));
  EXPECT_EQ(flame.left_out, 1);
}

TEST(Flame, HasThePythonFunctionsToo) {
  TraceText text = two_calls_in_steps();
  for (int step = 0; step < 2; ++step) {
    const int at = 100 * step;
    text.python("train.py(1): step", at + 5, 80);
    text.python("nn.Module: Linear_0", at + 8, 60).python("<built-in linear>", at + 9, 52);
    text.python("train.py(9): log", at + 70, 10);
  }
  const auto trace = read_trace_text(text.text(), {.with_stacks = true});
  ASSERT_TRUE(trace);
  const TraceProfile profile = profile_of(*trace, Depth::plots);
  const auto names = [](const Flame& flame) {
    std::vector<std::string> result;
    for (const FlameFrame& frame : flame.frames)
      result.push_back(flame.names[frame.name]);
    return result;
  };
  const Flame& flame = profile.python_flame;
  EXPECT_THAT(names(profile.flame),
              ElementsAre("nn.Module: Linear_0", "aten::linear", "aten::addmm"));
  EXPECT_THAT(names(flame), ElementsAre("train.py(1): step", "nn.Module: Linear_0", "aten::linear",
                                        "aten::addmm", "train.py(9): log"));
  EXPECT_EQ(flame.frames[0].calls, 2);
  EXPECT_EQ(flame.frames[0].host_ns, 160'000);
  EXPECT_EQ(flame.frames[0].device_ns, 16'000);
  EXPECT_EQ(flame.frames[3].parent, 2U);
  EXPECT_EQ(flame.frames[4].parent, 0U);
  EXPECT_EQ(flame.frames[4].device_ns, 0);
  EXPECT_TRUE(profile_of(text).python_flame.frames.empty()) << "nobody asked for stacks";
}

TEST(OperatorTable, ByShapes) {
  TraceText text;
  text.event("cpu_op", "aten::mm", 0, 10, {{"Input Dims", Json::array({{2, 3}, {3, 4}})}});
  text.event("cpu_op", "aten::mm", 20, 20, {{"Input Dims", Json::array({{8, 3}, {3, 4}})}});
  text.event("cpu_op", "aten::mm", 50, 10, {{"Input Dims", Json::array({{2, 3}, {3, 4}})}});
  const auto rows = profile_of(text).operators_by_shape;
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].calls + rows[1].calls, 3);
  EXPECT_NE(rows[0].shapes, rows[1].shapes);
  EXPECT_FALSE(rows[0].shapes.empty());
}

}  // namespace
}  // namespace autotuned::analysis
