// SPDX-License-Identifier: Apache-2.0
// From CUPTI's callbacks to the analysis: the fake GPU works, the collector records, the trace is written,
// read and analysed. The parts are computed by hand.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "base/json.hpp"
#include "profiler/analysis/trace_analysis.hpp"
#include "profiler/recorder/cupti_collector.hpp"
#include "profiler/recorder/cupti_occupancy.hpp"
#include "profiler/recorder/timeline_trace.hpp"
#include "profiler/traces/reader.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/places.hpp"
#include "tests/profiler/nesting.hpp"
#include "tests/profiler/packed_json.hpp"
#include "tests/profiler/recorder/cupti_fake.hpp"
#include "tests/profiler/recorder/device_samples.hpp"

namespace autotuned::profiler {
namespace {

using analysis::Part;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using traces::EventKind;

constexpr std::int64_t kTraining = 10;
constexpr std::int64_t kUs = 1'000;
constexpr std::int64_t kStepUs = 100;
constexpr std::int64_t kBegin = 5'000'000'000;  // CLOCK_MONOTONIC, of the first step
constexpr const char* kMatrixProduct = "sm80_xmma_gemm_f16f16_tn";
constexpr const char* kAddition = "void vectorized_elementwise_kernel<4, \"AddFunctor\">(int)";

// 100 multiprocessors, so that the figures are round.
RecordedDevice device() {
  RecordedDevice device = sample_h100();
  device.name = "GPU \"X\"";
  device.multiprocessors = 100;
  return device;
}

// Operators of a step, in microseconds from its start; indices are those of Host::names.
struct Operator {
  std::uint32_t name = 0;
  std::int64_t start_us = 0;
  std::int64_t end_us = 0;
};
constexpr std::array kOperators = {Operator{0, 10, 20}, Operator{1, 20, 30}, Operator{2, 30, 40},
                                   Operator{3, 40, 50}, Operator{4, 90, 95}};

class CuptiTrace : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = CuptiCollector::open(fake_, {.buffers = 4, .buffer_bytes = 65'536});
    ASSERT_TRUE(opened) << opened.error().message();
    collector_ = std::move(*opened);
    ASSERT_TRUE(collector_->enable());
    collector_->restart();
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    gpu_begin_ns_ = static_cast<std::uint64_t>(now.tv_sec * 1'000'000'000 + now.tv_nsec);
  }

  SampleTimes times(std::int64_t step, std::int64_t start_us, std::int64_t end_us) const {
    const auto at = [&](std::int64_t us) {
      return gpu_begin_ns_ + static_cast<std::uint64_t>((step * kStepUs + us) * kUs);
    };
    return {at(start_us), at(end_us)};
  }
  // As TimelineRecorder does it: the operator is known while it runs.
  template <class Work>
  void within(std::int64_t step, std::size_t index, const Work& work) {
    const auto event = static_cast<std::size_t>(step) * kOperators.size() + index;
    collector_->enter_operator(scope_of_operator(0, event));
    work();
    collector_->leave_operator();
  }

  void run_step(std::int64_t step) {
    collector_->enter_span(scope_of_span(static_cast<std::size_t>(2 * step)));
    within(step, 0, [&] {
      fake_.copy(CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE, 40'000,
                 {times(step, 11, 13), times(step, 20, 30)});
    });
    within(step, 1, [&] {
      fake_.launch(kMatrixProduct, {times(step, 22, 24), times(step, 30, 60)}, 50, 1'024);
    });
    within(step, 2, [&] {
      fake_.launch(kAddition, {times(step, 31, 33), times(step, 60, 70)}, 200, 512);
    });
    within(step, 3, [&] { fake_.fill(8'000, {times(step, 41, 42), times(step, 70, 80)}); });
    fake_.synchronize(times(step, 82, 90));  // of no operator
    collector_->leave_span();
  }

  // What the host did in these steps.
  static RecordedSteps host(std::int64_t steps) {
    RecordedSteps recorded{.first_step = 3};
    recorded.timeline.modules = {"model.head"};
    ThreadTimeline thread{.thread = kTraining, .logical_thread = 1};
    thread.names = {"aten::copy_", "aten::mm", "aten::add_", "aten::zero_", "aten::item"};
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::int64_t begin = kBegin + step * kStepUs * kUs;
      const std::ptrdiff_t parent = 2 * step;
      recorded.spans.push_back(
          {.name = span::kStep, .start_ns = begin, .end_ns = begin + kStepUs * kUs});
      recorded.spans.push_back({.name = span::kDataWait,
                                .start_ns = begin,
                                .end_ns = begin + 10 * kUs,
                                .parent = parent});
      for (const Operator& one : kOperators) {
        thread.events.push_back({.start_ns = begin + one.start_us * kUs,
                                 .end_ns = begin + one.end_us * kUs,
                                 .name = one.name,
                                 .module = one.name == 1 ? 0 : kNone});
      }
    }
    recorded.timeline.threads.push_back(std::move(thread));
    return recorded;
  }

  // Both clocks are read one after the other, so the GPU's times are some ns off; here they must not be.
  void align(DeviceTimeline& timeline) const {
    ASSERT_THAT(timeline.calls, testing::Not(IsEmpty()));
    ASSERT_EQ(timeline.calls[0].correlation, 1U);
    const std::int64_t shift = kBegin + 11 * kUs - timeline.calls[0].start_ns;
    const auto move = [&](auto& events) {
      for (auto& event : events) {
        event.start_ns += shift;
        event.end_ns += shift;
      }
    };
    move(timeline.kernels);
    move(timeline.copies);
    move(timeline.fills);
    move(timeline.calls);
    move(timeline.waits);
    move(timeline.overheads);
  }

  Recording recorded(std::int64_t steps) {
    Recording recording{.training_thread = kTraining,
                        .start_ns = kBegin,
                        .end_ns = kBegin + steps * kStepUs * kUs,
                        .optimizer = "sgd",
                        .devices = {device()}};
    RecordedSteps stretch = host(steps);
    stretch.device = collector_->take();
    align(stretch.device);
    // The fake's calls come from the thread of this test.
    for (HostCall& call : stretch.device.calls)
      call.thread = kTraining;
    estimate_occupancy(stretch.device, recording.devices);
    recording.stretches.push_back(std::move(stretch));
    return recording;
  }

  traces::Trace written(Recording recording) const {
    const auto trace = write_recording(recording, 0, file());
    EXPECT_TRUE(trace) << trace.error().message();
    auto read = traces::read_trace(file());
    EXPECT_TRUE(read) << read.error().message();
    return read ? std::move(*read) : traces::Trace();
  }
  Json parsed() const { return read_packed_json(file()); }
  std::filesystem::path file() const { return folder_ / "a.pt.trace.json.gz"; }

  TemporaryFolder folder_;
  FakeCupti fake_;
  std::unique_ptr<CuptiCollector> collector_;
  std::uint64_t gpu_begin_ns_ = 0;
};

TEST_F(CuptiTrace, HasPartsThatAddUp) {
  for (std::int64_t step = 0; step < 2; ++step)
    run_step(step);
  const traces::Trace trace = written(recorded(2));
  EXPECT_THAT(trace.damage, IsEmpty());
  EXPECT_THAT(trace.notes, IsEmpty());
  const auto found = analysis::analyze(trace);

  const auto part_us = [&](Part part) { return found.breakdown.mean_part_ns(part) / kUs; };
  ASSERT_THAT(found.breakdown.steps, SizeIs(2));
  EXPECT_DOUBLE_EQ(found.breakdown.mean_step_ns() / kUs, 100);
  EXPECT_DOUBLE_EQ(part_us(Part::kernel), 40);        // 30 to 70
  EXPECT_DOUBLE_EQ(part_us(Part::copy), 10);          // 20 to 30
  EXPECT_DOUBLE_EQ(part_us(Part::fill), 10);          // 70 to 80
  EXPECT_DOUBLE_EQ(part_us(Part::communication), 0);  // a single rank
  EXPECT_DOUBLE_EQ(part_us(Part::runtime), 10);       // 11 to 13 and 82 to 90
  EXPECT_DOUBLE_EQ(part_us(Part::data_loading), 10);  // 0 to 10
  EXPECT_DOUBLE_EQ(part_us(Part::cpu), 13);           // 10, 13 to 20, 90 to 95
  EXPECT_DOUBLE_EQ(part_us(Part::other), 7);          // 80 to 82, 95 to 100
}

TEST_F(CuptiTrace, HasTheFiguresOfTheDevice) {
  for (std::int64_t step = 0; step < 2; ++step)
    run_step(step);
  const auto found = analysis::analyze(written(recorded(2)));
  ASSERT_THAT(found.devices, SizeIs(1));
  EXPECT_DOUBLE_EQ(found.devices[0].utilization, 0.4);
  // 30 us with half a block for each multiprocessor, 10 us with two, which count as one.
  EXPECT_DOUBLE_EQ(found.devices[0].sm_efficiency.value_or(-1), 0.25);
  // 512 of 2,048 threads for 30 us, 1,024 for 10.
  EXPECT_DOUBLE_EQ(found.devices[0].achieved_occupancy_percent.value_or(-1), 31.25);
  EXPECT_DOUBLE_EQ(found.devices[0].tensor_core_ratio, 0.75);
  ASSERT_THAT(found.properties, SizeIs(1));
  EXPECT_EQ(found.properties[0].name, "GPU \"X\"");
  EXPECT_EQ(found.properties[0].memory_bytes, std::int64_t{80} << 30U);
  EXPECT_EQ(found.properties[0].compute_major, 9);

  ASSERT_THAT(found.kernels, SizeIs(2));
  EXPECT_EQ(found.kernels[0].name, kMatrixProduct);
  EXPECT_EQ(found.kernels[0].calls, 2);
  EXPECT_EQ(found.kernels[0].total_ns, 60 * kUs);
  EXPECT_EQ(found.kernels[1].name, kAddition);
  EXPECT_DOUBLE_EQ(found.kernels[1].blocks_per_sm.value_or(-1), 2.0);
}

TEST_F(CuptiTrace, ChargesWorkToTheOperatorThatLaunchedIt) {
  run_step(0);
  const traces::Trace trace = written(recorded(1));
  std::map<std::string, std::int64_t> number_of;
  for (std::size_t row = 0; row < trace.events.size(); ++row)
    number_of.try_emplace(trace.name_of(row), trace.events.external_id[row]);
  EXPECT_GT(number_of.at("aten::mm"), 0);
  EXPECT_EQ(number_of.at(kMatrixProduct), number_of.at("aten::mm"));
  EXPECT_EQ(number_of.at(kAddition), number_of.at("aten::add_"));
  EXPECT_EQ(number_of.at("Memcpy HtoD (Pageable -> Device)"), number_of.at("aten::copy_"));
  EXPECT_EQ(number_of.at("Memset (Device)"), number_of.at("aten::zero_"));
  EXPECT_EQ(number_of.at("cudaLaunchKernel"), number_of.at("aten::mm"));
  // Outside of every operator it is the span's.
  EXPECT_EQ(number_of.at("cudaStreamSynchronize"), number_of.at("ProfilerStep#3"));

  std::map<std::string, std::int64_t> device_ns_of;
  const auto found = analysis::analyze(trace);
  for (const analysis::OperatorRow& row : found.operators)
    device_ns_of[row.name] = row.device_total_ns;
  EXPECT_EQ(device_ns_of["aten::mm"], 30 * kUs);
  EXPECT_EQ(device_ns_of["aten::add_"], 10 * kUs);
  EXPECT_EQ(device_ns_of["aten::copy_"], 10 * kUs);
  EXPECT_EQ(device_ns_of["aten::item"], 0);
  std::vector<std::string> findings;
  for (const analysis::Finding& finding : found.findings)
    findings.emplace_back(finding.rule->id);
  EXPECT_THAT(findings, Contains("pageable_copies"));
}

TEST_F(CuptiTrace, HasPyTorchsFields) {
  run_step(0);
  fake_.overhead(CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING, times(0, 96, 97));
  (void)written(recorded(1));
  const Json trace = parsed();
  std::map<std::string, Json> first;  // of each category
  Json labels;
  Json arrows = Json::array();
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") first.try_emplace(event.at("cat"), event);
    if (event.at("name") == "process_labels" && event.at("pid") == 0) labels = event;
    if (event.value("cat", "") == "ac2g") arrows.push_back(event);
  }
  const Json& kernel = first.at("kernel");
  EXPECT_EQ(kernel.at("name"), kMatrixProduct);
  EXPECT_EQ(kernel.at("pid"), 0);
  EXPECT_EQ(kernel.at("tid"), 7);
  EXPECT_EQ(kernel.at("dur"), 30.0);
  EXPECT_EQ(kernel.at("args"), (Json{{"External id", 4},
                                     {"queued", 0},
                                     {"device", 0},
                                     {"context", 1},
                                     {"stream", 7},
                                     {"correlation", 2},
                                     {"registers per thread", 32},
                                     {"shared memory", 0},
                                     {"blocks per SM", 0.5},
                                     {"warps per SM", 16.0},
                                     {"grid", {50, 1, 1}},
                                     {"block", {1024, 1, 1}},
                                     {"est. achieved occupancy %", 25}}));
  EXPECT_EQ(first.at("gpu_memcpy").at("args"), (Json{{"External id", 3},
                                                     {"device", 0},
                                                     {"context", 1},
                                                     {"stream", 7},
                                                     {"correlation", 1},
                                                     {"bytes", 40'000},
                                                     {"memory bandwidth (GB/s)", 4.0}}));
  EXPECT_EQ(first.at("gpu_memset").at("name"), "Memset (Device)");
  EXPECT_EQ(first.at("gpu_memset").at("args").at("bytes"), 8'000);
  EXPECT_EQ(first.at("cuda_runtime").at("name"), "cudaMemcpyAsync");
  EXPECT_EQ(first.at("cuda_runtime").at("tid"), kTraining);
  EXPECT_EQ(first.at("cuda_runtime").at("args"),
            (Json{{"External id", 3},
                  {"cbid", int{CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020}},
                  {"correlation", 1}}));
  EXPECT_EQ(first.at("cuda_sync").at("name"), "Stream Sync");
  EXPECT_EQ(first.at("cuda_sync").at("args").at("stream"), 7);
  EXPECT_EQ(first.at("overhead").at("name"), "Lazy Function Loading");
  EXPECT_EQ(labels.at("args").at("labels"), "GPU 0");
  ASSERT_THAT(arrows, SizeIs(8));  // two ends for each of the four that the GPU did
  EXPECT_EQ(arrows[0].at("ph"), "s");
  EXPECT_EQ(arrows[0].at("tid"), kTraining);
  EXPECT_EQ(arrows[1].at("ph"), "f");
  EXPECT_EQ(arrows[1].at("pid"), 0);
  EXPECT_EQ(arrows[1].at("id"), arrows[0].at("id"));
  const Json& properties = trace.at("deviceProperties").at(0);
  EXPECT_EQ(properties.at("numSms"), 100);
  EXPECT_EQ(properties.at("maxThreadsPerMultiprocessor"), 2'048);
}

TEST_F(CuptiTrace, DrawsArrowsFromTheCallOfTheRuntime) {
  run_step(0);
  const Recording recording = recorded(1);
  for (const bool is_inner_first : {true, false}) {
    SCOPED_TRACE(is_inner_first);
    Recording with_driver = recording;
    std::deque<HostCall>& calls = with_driver.stretches[0].device.calls;
    const HostCall outer = calls[0];
    HostCall inner = outer;
    inner.is_driver = true;
    inner.start_ns += kUs;
    if (is_inner_first) {
      calls.push_front(inner);
    } else {
      calls.push_back(inner);
    }
    (void)written(std::move(with_driver));
    Json call;
    Json arrow;
    const Json trace = parsed();
    for (const Json& event : trace.at("traceEvents")) {
      const std::string category = event.value("cat", "");
      if (category == "cuda_runtime" && event.at("args").at("correlation") == outer.correlation) {
        call = event;
      }
      if (category == "ac2g" && event.at("ph") == "s" && event.at("id") == outer.correlation) {
        arrow = event;
      }
    }
    ASSERT_TRUE(call.is_object() && arrow.is_object());
    EXPECT_EQ(arrow.at("ts"), call.at("ts"));
  }
}

// As PyTorch projects annotations onto the device: from the first work launched within to the end
// of the last, on each stream.
TEST_F(CuptiTrace, ProjectsSpansOntoStreams) {
  for (std::int64_t step = 0; step < 2; ++step)
    run_step(step);
  Recording recording = recorded(2);
  DeviceTimeline& timeline = recording.stretches[0].device;
  timeline.copies[0].stream = 9;
  timeline.copies[0].span = scope_of_span(1);  // launched while data were waited for
  const DeviceCopy copy = timeline.copies[0];
  const traces::Trace trace = written(std::move(recording));
  struct Range {
    std::string name;
    Json stream;
    double start_us = 0;
    double length_us = 0;
    Json arguments;
    bool operator==(const Range&) const = default;
  };
  std::vector<Range> ranges;
  double begin_us = 0;
  const Json json = parsed();
  for (const Json& event : json.at("traceEvents")) {
    if (event.value("name", "") == "ProfilerStep#3" && event.at("cat") == "user_annotation")
      begin_us = event.at("ts");
    if (event.value("cat", "") != "gpu_user_annotation") continue;
    EXPECT_EQ(event.at("ph"), "X");
    EXPECT_EQ(event.at("pid"), 0);
    ranges.push_back({event.at("name"), event.at("tid"),
                      std::round(event.at("ts").get<double>() - begin_us), event.at("dur"),
                      event.at("args")});
  }
  const std::string wait = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
  EXPECT_EQ(copy.end_ns - copy.start_ns, 10 * kUs);
  EXPECT_EQ(ranges, (std::vector<Range>{{"ProfilerStep#3", 7, 30, 50, {{"External id", 1}}},
                                        {"ProfilerStep#3", 9, 20, 10, {{"External id", 1}}},
                                        {wait, 9, 20, 10, {{"External id", 2}}},
                                        {"ProfilerStep#4", 7, 120, 60, {{"External id", 3}}}}));
  // They are no work.
  const auto found = analysis::analyze(trace);
  EXPECT_THAT(found.kernels, SizeIs(2));
  EXPECT_EQ(std::ranges::count(trace.events.kind, EventKind::kernel), 4);
  EXPECT_EQ(std::ranges::count(trace.events.kind, EventKind::annotation), 0);
}

TEST_F(CuptiTrace, SaysWhatIsMissing) {
  run_step(0);
  Recording recording = recorded(1);
  recording.notes = {"the GPU was not recorded: another subscriber, \"nsys\", holds CUPTI"};
  recording.stretches[0].device.losses = {.dropped = 1'234, .before_launch = 1};
  const traces::Trace trace = written(std::move(recording));
  EXPECT_THAT(trace.notes,
              ElementsAre("the GPU was not recorded: another subscriber, \"nsys\", holds CUPTI",
                          HasSubstr("1,234 records of the GPU were lost"),
                          HasSubstr("1 event of the GPU began before the call")));
}

TEST_F(CuptiTrace, IsWrittenWhateverTheRecordsSay) {
  run_step(0);
  Recording recording = recorded(1);
  DeviceTimeline& timeline = recording.stretches[0].device;
  timeline.kernels[0].operation = ~ScopeId{0};  // no such operator
  timeline.kernels[0].span = ~ScopeId{0};
  timeline.kernels[1].device = 9;  // of which nothing is known
  timeline.kernels[1].blocks_per_sm = std::numeric_limits<float>::infinity();
  timeline.copies[0].direction = 200;
  timeline.copies[0].source = 200;
  timeline.copies[0].end_ns = timeline.copies[0].start_ns;
  timeline.fills[0].memory = 60'000;
  timeline.waits[0].kind = 77;
  timeline.waits[0].stream = kNoStream;
  timeline.overheads.push_back({.start_ns = kBegin, .end_ns = kBegin + 1, .kind = 0xABCDEF01U});
  const traces::Trace trace = written(std::move(recording));
  EXPECT_THAT(trace.damage, IsEmpty());
  std::vector<std::string> names;
  for (std::size_t row = 0; row < trace.events.size(); ++row)
    names.push_back(trace.name_of(row));
  EXPECT_THAT(names, AllOf(Contains("Memcpy Unknown (Unknown -> Device)"),
                           Contains("Memset (Unknown)"), Contains("Unknown")));
}

// What a reader sees of the complete events, whenever and by whichever process they were written.
Json complete_events(const Json& trace) {
  double first_us = std::numeric_limits<double>::max();
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") first_us = std::min(first_us, event.at("ts").get<double>());
  }
  Json events = Json::array();
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    events.push_back({event.at("name"), event.at("cat"), event.at("tid"),
                      std::llround(1e3 * (event.at("ts").get<double>() - first_us)),
                      std::llround(1e3 * event.at("dur").get<double>())});
  }
  return events;
}

// The oracles have read the trace in the data (docs/metrics.md); it must be one that is written today.
TEST_F(CuptiTrace, IsTheOneThatTheOraclesRead) {
  for (std::int64_t step = 0; step < 3; ++step)
    run_step(step);
  (void)written(recorded(3));
  EXPECT_EQ(crossing_events(parsed()), std::vector<std::string>{});
  const auto known = tests::source_folder() / "tests/profiler/data/cupti.pt.trace.json.gz";
  const bool is_same = std::filesystem::exists(known) &&
                       complete_events(read_packed_json(known)) == complete_events(parsed());
  if (is_same) return;
  const auto fresh = tests::build_folder() / "tests" / known.filename();
  std::filesystem::copy_file(file(), fresh, std::filesystem::copy_options::overwrite_existing);
  ADD_FAILURE() << known << " is another trace than " << fresh
                << ": take that one, and ask the oracles anew";
}

}  // namespace
}  // namespace autotuned::profiler
