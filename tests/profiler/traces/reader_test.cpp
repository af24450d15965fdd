// SPDX-License-Identifier: Apache-2.0
#include "profiler/traces/reader.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "base/file.hpp"
#include "tests/places.hpp"
#include "tests/profiler/trace_text.hpp"

namespace autotuned::traces {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string data_file(const std::string& name) {
  return tests::source_folder() / "tests/profiler/data" / name;
}

TEST(Reader, ReadsWhatAnEventSays) {
  TraceText text;
  text.event(
      "cpu_op", "aten::mm", 4423779779975.504, 42.449,
      {{"External id", 3}, {"Input type", {"float", "float"}}, {"Input Dims", {{2, 3}, {3, 4}}}});
  text.event("kernel", "sgemm", 4423779780000.001, 7,
             {{"device", 1},
              {"stream", 7},
              {"correlation", 12},
              {"External id", 3},
              {"blocks per SM", 0.5},
              {"est. achieved occupancy %", 25}});
  text.event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 10, 2,
             {{"bytes", 4096}, {"device", 0}});
  text.json()["deviceProperties"] = {{{"id", 1},
                                      {"name", "NVIDIA \"X\""},
                                      {"totalGlobalMem", 1000},
                                      {"computeMajor", 9},
                                      {"computeMinor", 0}}};
  text.json()["distributedInfo"] = {{"backend", "nccl"}, {"rank", 3}, {"world_size", 8}};
  const auto trace = read_trace_text(text.text());
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_THAT(trace->damage, IsEmpty());
  EXPECT_THAT(trace->notes, IsEmpty());
  EXPECT_TRUE(trace->is_complete);
  const Events& events = trace->events;
  EXPECT_THAT(events.kind,
              ElementsAre(EventKind::cpu_operator, EventKind::kernel, EventKind::copy));
  EXPECT_EQ(trace->name_of(0), "aten::mm");
  EXPECT_EQ(events.start_ns[0], 4423779779975504);
  EXPECT_EQ(events.length_ns[0], 42449);
  EXPECT_THAT(events.external_id, ElementsAre(3, 3, kNoId));
  EXPECT_THAT(events.correlation, ElementsAre(kNoId, 12, kNoId));
  EXPECT_THAT(trace->names.text(events.detail[0]), HasSubstr("\"float\""));
  const DeviceDetail& kernel = trace->details[events.detail[1]];
  EXPECT_EQ(kernel.device, 1);
  EXPECT_EQ(kernel.stream, 7);
  EXPECT_FLOAT_EQ(kernel.blocks_per_sm, 0.5F);
  EXPECT_FLOAT_EQ(kernel.occupancy_percent, 25);
  EXPECT_EQ(trace->details[events.detail[2]].bytes, 4096);
  ASSERT_EQ(trace->devices.size(), 1U);
  EXPECT_EQ(trace->devices[0].name, "NVIDIA \"X\"");
  EXPECT_EQ(trace->devices[0].compute_major, 9);
  EXPECT_EQ(trace->devices[0].memory_bytes, 1000);
  EXPECT_EQ(trace->rank, 3);
  EXPECT_EQ(trace->world_size, 8);
  EXPECT_EQ(trace->backend, "nccl");
}

// In Kineto's order: what is exchanged stands behind what every kernel has.
TEST(Reader, ReadsWhatIsExchanged) {
  const auto trace = read_trace_text(R"({"traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 7, "ts": 5, "dur": 3,
     "args": {"External id": 4, "device": 0, "stream": 7, "correlation": 9, "blocks per SM": 0.1,
              "est. achieved occupancy %": 2, "Collective name": "allreduce", "In msg nelems": 300,
              "Out msg nelems": 300, "Group size": 8, "dtype": "BFloat16"}},
    {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "ts": 1, "dur": 3,
     "args": {"External id": 4, "Input type": [], "Input Dims": [], "Sequence number": 1,
              "Fwd thread id": 0, "Collective name": "broadcast", "In msg nelems": 20, "dtype": "Long"}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 6, "dur": 3,
     "args": {"In msg nelems": 20, "dtype": "Long"}}]})");
  ASSERT_TRUE(trace) << trace.error().message();
  ASSERT_EQ(trace->collectives.size(), 2U);
  EXPECT_EQ(trace->collectives[0].row, 0U);
  EXPECT_EQ(trace->collectives[0].bytes, 600);
  EXPECT_EQ(trace->names.text(trace->collectives[0].name), "allreduce");
  EXPECT_EQ(trace->collectives[1].row, 1U);
  EXPECT_EQ(trace->collectives[1].bytes, 160);
}

// As PyTorch 2.11 writes Gloo's operations with record_shapes=True.
TEST(Reader, ReadsWhatGlooExchanges) {
  const auto bytes_of = [](const std::string& name, const std::string& arguments) {
    const auto trace = read_trace_text(
        R"({"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": ")" + name +
        R"(", "pid": 673, "tid": 762, "ts": 5, "dur": 3, "args": {"External id": 1025, )" +
        R"("Record function id": 0, )" + arguments + R"("Ev Idx": 0}}]})");
    EXPECT_TRUE(trace) << trace.error().message();
    return trace->collectives.empty() ? 0 : trace->collectives[0].bytes;
  };
  EXPECT_EQ(bytes_of("gloo:all_reduce",
                     R"("Concrete Inputs": [""], "Input type": ["double"], "Input Strides": [[1]],
                        "Input Dims": [[1000]], )"),
            8000);
  EXPECT_EQ(bytes_of("gloo:scatter",
                     R"("Concrete Inputs": ["", ""], "Input type": ["float", "long int"],
                        "Input Strides": [[3, 1], [1]], "Input Dims": [[5, 3], [5]], )"),
            60 + 40);
  EXPECT_EQ(bytes_of("gloo:all_reduce", R"("Input type": ["float"], "Input Dims": [[]], )"), 4);
  EXPECT_EQ(bytes_of("gloo:barrier", ""), 0);
  for (const char* dims : {"[[-5]]", "[[99999999999999999]]", "[[1099511627776, 1099511627776]]",
                           "[[[5], [6]]]", "[]", R"([["x"]])", R"("[[")", "7"}) {
    EXPECT_EQ(bytes_of("gloo:all_reduce",
                       R"("Input type": ["float"], "Input Dims": )" + std::string(dims) + ", "),
              0)
        << dims;
  }
  EXPECT_EQ(bytes_of("gloo:all_reduce", R"("Input type": ["bird"], "Input Dims": [[5]], )"), 0);
  EXPECT_EQ(bytes_of("anything", R"("Input type": ["float"], "Input Dims": [[5]], )"), 0);
}

// AMD's launches and kernels; older versions call the category hip_runtime.
TEST(Reader, ReadsHip) {
  TraceText text;
  text.event("cuda_runtime", "hipLaunchKernel", 1, 2, {{"correlation", 3}});
  text.event("hip_runtime", "hipMemcpyWithStream", 4, 2, {{"correlation", 4}});
  text.event("kernel", "Cijk_Ailk_Bljk_SB_MT64x64", 5, 6,
             {{"correlation", 3}, {"device", 0}, {"stream", 1}, {"kind", "Dispatch Kernel"}});
  text.event("gpu_memcpy", "CopyHostToDevice", 12, 6, {{"correlation", 4}, {"device", 0}});
  const auto trace = read_trace_text(text.text());
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_THAT(trace->notes, IsEmpty());
  EXPECT_THAT(trace->events.kind, ElementsAre(EventKind::runtime_call, EventKind::runtime_call,
                                              EventKind::kernel, EventKind::copy));
  EXPECT_TRUE(std::isnan(trace->details[trace->events.detail[2]].occupancy_percent));
}

TEST(Reader, ReadsWhatPyTorchWrote) {
  const auto trace = read_trace(data_file("classifier.pt.trace.json.gz"));
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_THAT(trace->damage, IsEmpty());
  EXPECT_THAT(trace->notes, IsEmpty());
  EXPECT_EQ(std::ranges::count(trace->events.kind, EventKind::step), 4);
  EXPECT_EQ(std::ranges::count(trace->events.kind, EventKind::data_loading), 4);
  EXPECT_TRUE(trace->has_input_types);
  EXPECT_GT(trace->memory.size(), 50U);
}

TEST(Reader, KeepsStacksForThoseWhoAsk) {
  TraceText text;
  text.python("train.py(3): \"main\"", 1, 50, 1).python("nn.Module: Net_0", 2, 40, 2, 1);
  text.event("cpu_op", "aten::mm", 3, 2,
             {{"External id", 1},
              {"Sequence number", 1},
              {"Fwd thread id", 0},
              {"Input type", {"float"}},
              {"Input Dims", {{2}}},
              {"Zuletzt", 1},
              {"Call stack", "a.py(1): f;b\\c.py(2): g;"}});
  text.python("broken", 4, -1, 3, 2);
  const auto trace = read_trace_text(text.text(), {.with_stacks = true});
  ASSERT_TRUE(trace) << trace.error().message();
  ASSERT_EQ(trace->python_calls.size(), 2U);
  EXPECT_EQ(trace->names.text(trace->python_calls[0].name), "train.py(3): \"main\"");
  EXPECT_EQ(trace->python_calls[0].caller, -1);
  EXPECT_EQ(trace->python_calls[1].id, 2);
  EXPECT_EQ(trace->python_calls[1].caller, 1);
  EXPECT_EQ(trace->python_calls[1].start_ns, 2000);
  EXPECT_EQ(trace->python_calls[1].length_ns, 40'000);
  EXPECT_THAT(trace->events.kind, ElementsAre(EventKind::module, EventKind::cpu_operator));
  ASSERT_EQ(trace->call_stacks.size(), 1U);
  EXPECT_EQ(trace->call_stacks[0].row, 1U);
  EXPECT_EQ(trace->names.text(trace->call_stacks[0].text), "a.py(1): f;b\\c.py(2): g;");
  EXPECT_THAT(trace->damage, ElementsAre(HasSubstr("one event is a call of a Python function")));

  const auto plain = read_trace_text(text.text());
  ASSERT_TRUE(plain);
  EXPECT_THAT(plain->python_calls, IsEmpty());
  EXPECT_THAT(plain->call_stacks, IsEmpty());
  EXPECT_THAT(plain->events.kind, ElementsAre(EventKind::module, EventKind::cpu_operator));
}

TEST(Reader, TakesABareListAndAByteOrderMark) {
  TraceText text;
  text.event("cpu_op", "aten::mm", 1, 2);
  const auto trace = read_trace_text("\xEF\xBB\xBF" + text.json()["traceEvents"].dump());
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->events.size(), 1U);
}

TEST(Reader, KeepsEscapesOfWindowsPaths) {
  TraceText text;
  text.event("cpu_op", "PLACE", 1, 2).event("cpu_op", "aten::mm", 3, 4);
  std::string json = text.text();
  json.replace(json.find("PLACE"), 5, R"(C:\Users\train.py\n)");
  const std::string end = R"(, "traceName": "D:\work\trace.json"})";
  json.replace(json.rfind('}'), 1, end);
  const auto trace = read_trace_text(json);
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->name_of(0), "C:\\Users\train.py\n");
  EXPECT_EQ(trace->events.size(), 2U);
  EXPECT_THAT(trace->damage, ElementsAre(HasSubstr("an escape that JSON does not know")));
}

TEST(Reader, MendsWhatIsNearlyJson) {
  TraceText text;
  text.event("cpu_op", "PLACE", 1, 2, {{"External id", "NUMBER"}})
      .event("cpu_op", "aten::mm", 3, 4);
  std::string json = text.text();
  json.replace(json.find("PLACE"), 5, "raw\nline and \xff byte");
  json.replace(json.find("\"NUMBER\""), 8, "N/A");
  const auto trace = read_trace_text(json);
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->name_of(0), "raw line and ? byte");
  EXPECT_EQ(trace->events.external_id[0], kNoId);
  EXPECT_EQ(trace->events.size(), 2U);
  EXPECT_THAT(trace->damage, ElementsAre(HasSubstr("had to be repaired")));
}

// A path that ends in a backslash takes the closing quotation mark with it.
TEST(Reader, GoesOnBehindAStringWithoutAnEnd) {
  std::string json = R"({"traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "one", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {}},
    {"ph": "X", "cat": "cpu_op", "name": "D:\dir\", "pid": 1, "tid": 1, "ts": 2, "dur": 1, "args": {}},
    {"ph": "X", "cat": "cpu_op", "name": "three", "pid": 1, "tid": 1, "ts": 3, "dur": 1, "args": {}},
    {"ph": "X", "cat": "cpu_op", "name": "four", "pid": 1, "tid": 1, "ts": 4, "dur": 1, "args": {}}
  ]})";
  const auto trace = read_trace_text(json);
  ASSERT_TRUE(trace) << trace.error().message();
  ASSERT_EQ(trace->events.size(), 3U);
  EXPECT_EQ(trace->name_of(0), "one");
  EXPECT_EQ(trace->name_of(1), "three");
  EXPECT_EQ(trace->name_of(2), "four");
  EXPECT_FALSE(trace->damage.empty());
}

TEST(Reader, NamesWhatMakesNoSense) {
  TraceText text;
  text.event("cpu_op", "good", 1, 2);
  text.event("cpu_op", "negative", 3, -2);
  text.event("cpu_op", "huge", 1e300, 2);
  text.event("cpu_op", "endless", 1, 1e15);
  text.event("cpu_op", "late", 3, 4);
  text.json()["traceEvents"].push_back({{"ph", "X"}, {"cat", "cpu_op"}, {"name", "no time"}});
  text.json()["traceEvents"].push_back({{"cat", "cpu_op"}, {"name", "no phase"}});
  const auto trace = read_trace_text(text.text());
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->events.size(), 3U);
  EXPECT_THAT(trace->events.length_ns, ElementsAre(2000, 0, 4000));
  EXPECT_THAT(trace->damage, Contains(HasSubstr("one event has a negative \"dur\"")));
  EXPECT_THAT(trace->damage, Contains(HasSubstr("2 events")));
  EXPECT_THAT(trace->damage, Contains(HasSubstr("too long to be true")));
  EXPECT_THAT(trace->damage, Contains(HasSubstr("no \"ph\"")));
}

TEST(Reader, KnowsOtherAccelerators) {
  TraceText text;
  text.event("cpu_op", "aten::mm", 1, 2);
  text.event("xpu_runtime", "urEnqueueKernelLaunch", 1, 2);
  text.event("privateuse1_runtime", "launch", 1, 2);
  text.event("mtia_ccp_events", "something", 1, 2);
  text.event("kernel", "gemm", 5, 6, {{"device", 0}, {"stream", 1}});
  const auto trace = read_trace_text(text.text());
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(std::ranges::count(trace->events.kind, EventKind::runtime_call), 2);
  EXPECT_EQ(trace->events.size(), 4U);
  EXPECT_THAT(trace->damage, IsEmpty());
  EXPECT_THAT(trace->notes, ElementsAre("1 event of the unknown category \"mtia_ccp_events\" was "
                                        "passed over"));
}

TEST(Reader, SaysWhereATruncatedFileEnds) {
  TraceText text;
  for (int i = 0; i < 100; ++i)
    text.event("cpu_op", "aten::mm", i, 1);
  const std::string json = text.text();
  const auto trace = read_trace_text(json.substr(0, json.size() / 2));
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_FALSE(trace->is_complete);
  EXPECT_GT(trace->events.size(), 45U);
  EXPECT_LT(trace->events.size(), 51U);
  EXPECT_THAT(trace->damage, ElementsAre(HasSubstr("the file ends inside")));
}

TEST(Reader, SaysWhereACompressedFileEnds) {
  const auto packed = read_file(data_file("classifier.pt.trace.json.gz"), 1 << 20);
  ASSERT_TRUE(packed);
  const auto trace = read_trace_text(packed->substr(0, packed->size() / 2));
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_FALSE(trace->is_complete);
  EXPECT_GT(trace->events.size(), 50U);
  // Without the file: who tells it names that.
  EXPECT_THAT(trace->damage,
              ElementsAre("the compressed data is damaged (the file ends); copy or download it "
                          "again; everything before was read"));
}

struct Hopeless {
  std::string text;
  std::string what;
};

TEST(Reader, RefusesWhatIsNoTrace) {
  const std::vector<Hopeless> files = {
      {"", "the file is empty"},
      {"   \n ", "the file is empty"},
      {"hello", "not JSON"},
      {std::string(1000, '\0'), "not JSON"},
      {"{}", "no list \"traceEvents\""},
      {R"({"schemaVersion": 1, "traceEvents")", "the file ends before"},
      {R"({"a" 1})", "a ':' was expected"},
      {R"({"schemaVersion": 1)", "the file ends before"},
      {R"({"traceEvents": 5})", "not a list"},
      {R"({"traceEvents": []})", "nothing to analyse (0 elements)"},
      {R"({"traceEvents": [1, "two", null]})", "nothing to analyse"},
      {R"({"traceEvents": [{"ph": "M", "name": "x"}]})", "nothing to analyse (1 elements)"},
      {R"({"traceEvents": [)", "the file ends inside the list"},
      {R"({"traceEvents": [{"ph": "X", )", "the file ends inside an event"},
      {"[" + std::string(5000, '['), "the file ends inside the list"},
      {R"({"traceEvents": [)" + std::string(100000, '{'), "the file ends inside an event"},
  };
  for (const Hopeless& file : files) {
    const auto trace = read_trace_text(file.text);
    ASSERT_FALSE(trace) << file.text.substr(0, 60);
    EXPECT_THAT(trace.error().what, HasSubstr(file.what));
    EXPECT_THAT(trace.error().where, HasSubstr("trace.json"));
    EXPECT_FALSE(trace.error().remedy.empty());
  }
}

TEST(Reader, RefusesFoldersAndWhatIsNotThere) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_trace(folder / "none.json").error().kind, ErrorKind::not_found);
  const auto of_folder = read_trace(folder / ".");
  ASSERT_FALSE(of_folder);
  EXPECT_THAT(of_folder.error().message(), HasSubstr("not a regular file"));
}

// Nesting costs no stack, and an event without an end no memory without a limit.
TEST(Reader, SurvivesDeepNesting) {
  TraceText text;
  text.event("cpu_op", "aten::mm", 1, 2, {{"deep", "PLACE"}}).event("cpu_op", "good", 3, 4);
  std::string json = text.text();
  json.replace(json.find("\"PLACE\""), 7, std::string(200000, '[') + std::string(200000, ']'));
  const auto trace = read_trace_text(json);
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->name_of(trace->events.size() - 1), "good");
}

}  // namespace
}  // namespace autotuned::traces
