// SPDX-License-Identifier: Apache-2.0
// How fast records of a GPU are decoded, without one: buffers made by hand, walked by NVIDIA's library.
//
//   cupti_decoding [RECORDS [LIBRARY]]
#include <cupti.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>

#include "profiler/cupti_library.hpp"
#include "profiler/cupti_records.hpp"
#include "profiler/spans.hpp"
#include "tests/profiler/cupti_samples.hpp"

namespace {

// What others at work on the machine do not change.
std::int64_t cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace autotuned;
  using namespace autotuned::profiler;
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
  std::int64_t decoding_ns = 0;
  std::int64_t decoding_cpu_ns = 0;
  std::uint32_t correlation = 0;
  std::int64_t made = 0;
  while (made + kPerLaunch * kLaunchesPerBuffer <= wanted) {
    SampleBuffer buffer;
    for (std::uint32_t i = 0; i < kLaunchesPerBuffer; ++i) {
      const std::uint64_t at = 1'000'000 + std::uint64_t{++correlation} * 10'000;
      buffer.add(sample_external(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, correlation, correlation))
          .add(sample_external(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, 1, correlation))
          .add(sample_call(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, 1, correlation,
                           {at, at + 2'000}))
          .add(sample_kernel(i % 2 == 0 ? "even" : "odd", correlation, {at + 4'000, at + 9'000}));
    }
    made += kPerLaunch * kLaunchesPerBuffer;
    const std::int64_t start_ns = now_ns();
    const std::int64_t start_cpu_ns = cpu_ns();
    records.add(buffer.data(), buffer.size());
    decoding_cpu_ns += cpu_ns() - start_cpu_ns;
    decoding_ns += now_ns() - start_ns;
  }
  const std::int64_t start_ns = now_ns();
  const std::int64_t start_cpu_ns = cpu_ns();
  const DeviceTimeline timeline = records.take({});
  const std::int64_t joining_cpu_ns = cpu_ns() - start_cpu_ns;
  const std::int64_t joining_ns = now_ns() - start_ns;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](std::int64_t ns) { return static_cast<double>(ns) / 1e9; };
  fmt::print(
      "{} records: decoding {:.2f} s ({:.2f} s of processor time), joining {:.2f} s ({:.2f} s), "
      "{} kernels, peak memory {} MiB\n",
      made, seconds(decoding_ns), seconds(decoding_cpu_ns), seconds(joining_ns),
      seconds(joining_cpu_ns), timeline.kernels.size(), usage.ru_maxrss / 1024);
  return timeline.losses == DeviceLosses{} ? 0 : 1;
}
