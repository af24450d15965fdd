// SPDX-License-Identifier: Apache-2.0
// Buffers of CUPTI, as damaged as may be, walked by the test's CUPTI, which steps over records as CUDA 13.0
// does.
#include <cmath>
#include <vector>

#include "profiler/recorder/cupti_occupancy.hpp"
#include "profiler/recorder/cupti_records.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/profiler/recorder/cupti_fake.hpp"
#include "tests/profiler/recorder/device_samples.hpp"

namespace {

using namespace autotuned::profiler;

template <class Events>
void check_times(const Events& events) {
  for (const auto& event : events)
    FUZZ_CHECK(event.start_ns <= event.end_ns);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::int64_t kMaxRecords = 1'000;
  FakeCupti cupti;
  // Pointers are those of whoever wrote the bytes.
  CuptiRecords records(cupti, kMaxRecords, [](const char*) { return std::string_view("kernel"); });
  std::vector<std::uint8_t> bytes(data, data + size);
  records.add(bytes.data(), bytes.size());
  FUZZ_CHECK(records.records() <= kMaxRecords);
  DeviceTimeline timeline = records.take({.from_ns = 1, .offset_ns = -1'000});
  const auto rows = timeline.kernels.size() + timeline.copies.size() + timeline.fills.size() +
                    timeline.calls.size() + timeline.waits.size() + timeline.overheads.size();
  FUZZ_CHECK(rows <= size / sizeof(CUpti_ActivityAPI));
  FUZZ_CHECK(rows <= static_cast<std::size_t>(kMaxRecords));
  FUZZ_CHECK(timeline.losses.damaged_buffers <= 1);
  check_times(timeline.kernels);
  check_times(timeline.copies);
  check_times(timeline.fills);
  check_times(timeline.calls);
  check_times(timeline.waits);
  check_times(timeline.overheads);
  for (const HostCall& call : timeline.calls)
    FUZZ_CHECK(call.name < timeline.names.size());
  estimate_occupancy(timeline, {sample_h100()});
  for (const DeviceKernel& kernel : timeline.kernels) {
    FUZZ_CHECK(kernel.name < timeline.names.size());
    FUZZ_CHECK(std::isnan(kernel.occupancy_percent) ||
               (kernel.occupancy_percent >= 0 && kernel.occupancy_percent <= 100));
  }
  for (const std::string& sentence : to_sentences(timeline.losses))
    FUZZ_CHECK(!sentence.empty());
  return 0;
}
