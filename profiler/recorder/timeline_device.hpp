// SPDX-License-Identifier: Apache-2.0
// The recorded activity of devices, and the calls of the host that launched it, as plain data: no CUPTI here. The codes of directions,
// memory kinds, waits and overheads are CUPTI's.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "profiler/scopes.hpp"
#include "profiler/spans.hpp"

namespace autotuned::profiler {

// The common part of device work and calls of the host. Times are CLOCK_MONOTONIC.
struct DeviceEventBase {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t correlation = 0;  // shared by a call and the work that it launched; 0: none
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  ScopeId operation = 0;
  ScopeId span = 0;
};

struct DeviceKernel : DeviceEventBase {
  std::uint32_t name = 0;  // index into DeviceTimeline::names
  std::array<std::int32_t, 3> grid{};
  std::array<std::int32_t, 3> block{};
  std::uint16_t registers_per_thread = 0;
  bool opts_in_shared = false;  // may use more shared memory than the default limit
  std::int32_t static_shared_bytes = 0;
  std::int32_t dynamic_shared_bytes = 0;
  std::int64_t queued_ns = 0;  // 0: not recorded
  std::uint32_t graph = 0;     // 0: launched by itself
  std::uint64_t graph_node = 0;
  // The value of the whole launch; NaN if the device is not known.
  float blocks_per_sm = std::numeric_limits<float>::quiet_NaN();
  float warps_per_sm = std::numeric_limits<float>::quiet_NaN();
  float occupancy_percent = std::numeric_limits<float>::quiet_NaN();  // estimated, 0 to 100
};

struct DeviceCopy : DeviceEventBase {
  std::int64_t bytes = 0;
  std::uint8_t direction = 0;  // 1 is from host to device, 2 back
  std::uint8_t source = 0;     // the kind of memory: 1 is pageable, 2 pinned, 3 the device's
  std::uint8_t destination = 0;
};

struct DeviceFill : DeviceEventBase {
  std::int64_t bytes = 0;
  std::uint16_t memory = 0;
};

// A call of the CUDA runtime or driver. `device`, `context` and `stream` are unknown.
struct HostCall : DeviceEventBase {
  std::uint32_t name = 0;    // index into DeviceTimeline::names
  std::uint32_t number = 0;  // CUPTI's number of the function
  std::int64_t thread = 0;   // the system's number
  bool is_driver = false;
};

// A wait of the host or of a stream for a device. `device` is unknown; stream kNoStream: the whole context.
struct DeviceWait : DeviceEventBase {
  std::uint32_t kind = 0;
};
inline constexpr std::uint32_t kNoStream = std::numeric_limits<std::uint32_t>::max();

// Overhead of the recording or of the driver: compiling, loading, a full queue.
struct DeviceOverhead {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t kind = 0;
  std::int64_t thread = 0;  // 0: not known
};

// Counts of data that is missing in the recording or cannot be right.
struct DeviceLosses {
  std::int64_t dropped = 0;        // records without a free buffer
  std::int64_t over_limit = 0;     // records beyond the limit of the recording
  std::int64_t untimed = 0;        // records without times, because the device had no room for them
  std::int64_t before_launch = 0;  // work that began before its launch: a broken clock
  std::int64_t without_call = 0;   // work for which no call has the same correlation
  std::int64_t damaged_buffers = 0;
  std::vector<std::string> damage;  // the first few, one sentence each

  friend bool operator==(const DeviceLosses&, const DeviceLosses&) = default;
};

// All lists are in no order. They are deques, because there may be millions of elements, and a vector would need room for twice as
// many when it grows.
struct DeviceTimeline {
  std::deque<DeviceKernel> kernels;
  std::deque<DeviceCopy> copies;
  std::deque<DeviceFill> fills;
  std::deque<HostCall> calls;
  std::deque<DeviceWait> waits;
  std::deque<DeviceOverhead> overheads;
  std::vector<std::string> names;
  DeviceLosses losses;
};

// The properties of a device. Sizes in bytes; 0: not known.
struct RecordedDevice {
  int id = 0;  // CUDA's number, as in DeviceEventBase::device
  std::string name;
  std::int64_t memory_bytes = 0;
  int compute_major = 0;
  int compute_minor = 0;
  int max_threads_per_block = 0;
  int max_threads_per_multiprocessor = 0;
  int registers_per_block = 0;
  int registers_per_multiprocessor = 0;
  int warp_size = 0;
  std::int64_t shared_bytes_per_block = 0;
  std::int64_t shared_bytes_per_block_optin = 0;
  std::int64_t shared_bytes_per_multiprocessor = 0;
  std::int64_t reserved_shared_bytes_per_block = 0;
  int multiprocessors = 0;
};

// Assigns the span `backward` to work that a thread of autograd launched while the training thread waited in
// that span; the autograd thread does not know it. `training_thread` is the system's number.
void place_backward_work(DeviceTimeline& timeline, const std::vector<SpanRecord>& spans,
                         std::int64_t training_thread);

// Adds `more` to the counts of `to`, and keeps the first few sentences of the damage.
void add(DeviceLosses& to, const DeviceLosses& more);

// Returns one sentence for each kind of loss.
[[nodiscard]] std::vector<std::string> to_sentences(const DeviceLosses& losses);

}  // namespace autotuned::profiler
