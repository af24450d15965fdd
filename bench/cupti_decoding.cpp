// SPDX-License-Identifier: Apache-2.0
// How fast records of a GPU are decoded and analysed, without one: buffers made by hand, walked by NVIDIA's library.
// What they say is analysed in memory; writing it as a trace and reading that are what `recording` and
// `trace_reading` time.
//
//   cupti_decoding [RECORDS [LIBRARY]]
#include <cupti.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "profiler/analysis/trace_analysis.hpp"
#include "profiler/recorder/cupti_library.hpp"
#include "profiler/recorder/cupti_records.hpp"
#include "profiler/spans.hpp"
#include "profiler/traces/trace.hpp"
#include "tests/profiler/recorder/cupti_samples.hpp"

namespace {

using namespace autotuned;
using namespace autotuned::profiler;
using traces::EventKind;
using traces::Trace;

constexpr std::uint64_t kLaunchNs = 10'000;  // from one launch to the next
constexpr std::int64_t kLaunchesPerStep = 1'000;
// The C library keeps what the queues give back piece by piece unless it is told.
constexpr std::int64_t kLaunchesPerRelease = 200'000;

// What others at work on the machine do not change.
std::int64_t cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

std::int64_t peak_memory_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

// Time that passed, and processor time.
class Stopwatch {
 public:
  void start() {
    started_ns_ = now_ns();
    started_cpu_ns_ = cpu_ns();
  }
  void stop() {
    ns_ += now_ns() - started_ns_;
    cpu_ns_ += cpu_ns() - started_cpu_ns_;
  }
  [[nodiscard]] double seconds() const { return static_cast<double>(ns_) / 1e9; }
  [[nodiscard]] std::string text() const {
    return fmt::format("{:.2f} s ({:.2f} s of processor time)", seconds(),
                       static_cast<double>(cpu_ns_) / 1e9);
  }

 private:
  std::int64_t started_ns_ = 0;
  std::int64_t started_cpu_ns_ = 0;
  std::int64_t ns_ = 0;
  std::int64_t cpu_ns_ = 0;
};

void reserve(traces::Events& events, std::size_t rows) {
  events.kind.reserve(rows);
  events.name.reserve(rows);
  events.thread.reserve(rows);
  events.start_ns.reserve(rows);
  events.length_ns.reserve(rows);
  events.external_id.reserve(rows);
  events.correlation.reserve(rows);
  events.detail.reserve(rows);
  events.module.reserve(rows);
  events.shapes.reserve(rows);
  events.values.reserve(rows);
  events.sequence.reserve(rows);
  events.is_backward.reserve(rows);
  events.forward_thread.reserve(rows);
}

void add_row(Trace& trace, EventKind kind, traces::NameId name, const DeviceEventBase& event,
             std::uint32_t detail = traces::kNoDetail) {
  traces::Events& events = trace.events;
  events.kind.push_back(kind);
  events.name.push_back(name);
  events.thread.push_back(is_on_device(kind) ? 1 : 0);
  events.start_ns.push_back(event.start_ns);
  events.length_ns.push_back(event.end_ns - event.start_ns);
  events.external_id.push_back(event.operation == 0 ? traces::kNoId
                                                    : static_cast<std::int64_t>(event.operation));
  events.correlation.push_back(event.correlation == 0 ? traces::kNoId : event.correlation);
  events.detail.push_back(detail);
  events.module.push_back(traces::kNoDetail);
  events.shapes.push_back(traces::kNoDetail);
  events.values.push_back(traces::kNoDetail);
  events.sequence.push_back(traces::kNoId);
  events.is_backward.push_back(false);
  events.forward_thread.push_back(0);
}

// The columns that reading a written trace would give: calls and kernels, and steps of a thousand launches. Gives the
// timeline's memory back as it goes.
Trace trace_of(DeviceTimeline timeline) {
  Trace trace;
  trace.threads = {{"1", "1", {}}, {"0", "7", {}}};
  const std::size_t launches = timeline.calls.size();
  reserve(trace.events, timeline.kernels.size() + launches + launches / kLaunchesPerStep + 1);
  trace.details.reserve(timeline.kernels.size());
  std::vector<traces::NameId> names;
  for (const std::string& name : timeline.names)
    names.push_back(trace.names.intern(name));
  std::int64_t number = 0;
  DeviceEventBase step;
  for (; !timeline.calls.empty(); timeline.calls.pop_front()) {
    const HostCall& call = timeline.calls.front();
    if (number % kLaunchesPerStep == 0) {
      step.start_ns = call.start_ns;
      step.end_ns = call.start_ns + kLaunchesPerStep * static_cast<std::int64_t>(kLaunchNs);
      const std::string name = fmt::format("ProfilerStep#{}", number / kLaunchesPerStep);
      add_row(trace, EventKind::step, trace.names.intern(name), step);
    }
    if (number++ % kLaunchesPerRelease == 0) malloc_trim(0);
    add_row(trace, EventKind::runtime_call, names[call.name], call);
  }
  for (; !timeline.kernels.empty(); timeline.kernels.pop_front()) {
    const DeviceKernel& kernel = timeline.kernels.front();
    if (trace.details.size() % kLaunchesPerRelease == 0) malloc_trim(0);
    trace.details.push_back({.device = 0,
                             .stream = 7,
                             .bytes = 0,
                             .blocks_per_sm = kernel.blocks_per_sm,
                             .occupancy_percent = kernel.occupancy_percent});
    add_row(trace, EventKind::kernel, names[kernel.name], kernel,
            static_cast<std::uint32_t>(trace.details.size() - 1));
  }
  malloc_trim(0);
  return trace;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t wanted = argc > 1 ? std::atoll(argv[1]) : 10'000'000;
  const auto cupti = open_cupti(argc > 2 ? argv[2] : kCuptiLibrary);
  if (!cupti) {
    fmt::print(stderr, "{}\n", cupti.error().message());
    return 1;
  }
  // As CUPTI writes a launch: the operator, the span, the call, and the kernel.
  constexpr std::int64_t kPerLaunch = 4;
  constexpr std::uint32_t kLaunchesPerBuffer = 6'000;
  CuptiRecords records(**cupti, wanted);
  Stopwatch decoding;
  std::uint32_t correlation = 0;
  std::int64_t made = 0;
  while (made + kPerLaunch * kLaunchesPerBuffer <= wanted) {
    SampleBuffer buffer;
    for (std::uint32_t i = 0; i < kLaunchesPerBuffer; ++i) {
      const std::uint64_t at = 1'000'000 + std::uint64_t{++correlation} * kLaunchNs;
      buffer.add(sample_external(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, correlation, correlation))
          .add(sample_external(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, 1, correlation))
          .add(sample_call(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, 1, correlation,
                           {at, at + 2'000}))
          .add(sample_kernel(i % 2 == 0 ? "even" : "odd", correlation, {at + 4'000, at + 9'000}));
    }
    made += kPerLaunch * kLaunchesPerBuffer;
    decoding.start();
    records.add(buffer.data(), buffer.size());
    decoding.stop();
  }
  Stopwatch joining;
  joining.start();
  DeviceTimeline timeline = records.take({});
  joining.stop();
  const bool is_whole = timeline.losses == DeviceLosses{};
  fmt::print("{} records: decoding {}, joining {}, {} kernels, peak memory {} MiB\n", made,
             decoding.text(), joining.text(), timeline.kernels.size(), peak_memory_mib());
  Stopwatch columns;
  columns.start();
  const Trace trace = trace_of(std::move(timeline));
  columns.stop();
  Stopwatch analysing;
  analysing.start();
  const analysis::TraceAnalysis found = analysis::analyze(trace);
  analysing.stop();
  fmt::print("into columns {}, analysis {}: {} steps, GPU busy {:.1f} %\n", columns.text(),
             analysing.text(), found.breakdown.steps.size(),
             found.devices.empty() ? 0.0 : 100 * found.devices.front().utilization);
  fmt::print("all of it {:.2f} s, peak memory {} MiB\n",
             decoding.seconds() + joining.seconds() + columns.seconds() + analysing.seconds(),
             peak_memory_mib());
  return is_whole ? 0 : 1;
}
