// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/timeline_device_trace.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/json.hpp"

namespace autotuned::profiler {
namespace {

using traces::TraceWriter;

// Kineto's names for CUPTI's numbers.
std::string_view direction_of(std::uint8_t direction) {
  constexpr std::array<std::string_view, 11> kNames = {
      "Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  return direction < kNames.size() ? kNames[direction] : kNames[0];
}

std::string_view memory_of(std::uint16_t memory) {
  constexpr std::array<std::string_view, 8> kNames = {"Unknown",       "Pageable",      "Pinned",
                                                      "Device",        "Array",         "Managed",
                                                      "Device Static", "Managed Static"};
  return memory < kNames.size() ? kNames[memory] : kNames[0];
}

std::string_view wait_of(std::uint32_t kind) {
  constexpr std::array<std::string_view, 5> kNames = {"Unknown", "Event Sync", "Stream Wait Event",
                                                      "Stream Sync", "Context Sync"};
  return kind < kNames.size() ? kNames[kind] : kNames[0];
}

std::string_view overhead_of(std::uint32_t kind) {
  constexpr std::array<std::string_view, 9> kNames = {"Unknown",
                                                      "Buffer Flush",
                                                      "Instrumentation",
                                                      "Resource",
                                                      "Runtime Triggered Module Loading",
                                                      "Lazy Function Loading",
                                                      "Command Buffer Full",
                                                      "Activity Buffer Request",
                                                      "UVM Activity Init"};
  if (kind == 1) return "Driver Compiler";
  const std::uint32_t index = kind >> 16U;
  return index < kNames.size() && (kind & 0xFFFFU) == 0 ? kNames[index] : kNames[0];
}

std::string list_of(const std::array<std::int32_t, 3>& sizes) {
  return "[" + std::to_string(sizes[0]) + ", " + std::to_string(sizes[1]) + ", " +
         std::to_string(sizes[2]) + "]";
}

class DeviceTimelineWriter {
 public:
  DeviceTimelineWriter(TraceWriter& writer, const DeviceTimeline& timeline,
                       const ScopeNumbers& numbers, std::int64_t offset_ns)
      : writer_(writer), timeline_(timeline), numbers_(numbers), offset_ns_(offset_ns) {}

  void write() {
    for (const HostCall& call : timeline_.calls) {
      write_call(call);
      if (call.correlation == 0) continue;
      // The outer one of a call of the runtime and the call of the driver within it, as in Kineto. Both have the same correlation and come
      // in any order.
      const auto [known, is_first] = call_of_.try_emplace(call.correlation, &call);
      if (!is_first && known->second->is_driver && !call.is_driver) known->second = &call;
    }
    for (const DeviceKernel& kernel : timeline_.kernels)
      write_kernel(kernel);
    for (const DeviceCopy& copy : timeline_.copies)
      write_copy(copy);
    for (const DeviceFill& fill : timeline_.fills)
      write_fill(fill);
    for (const DeviceWait& wait : timeline_.waits)
      write_wait(wait);
    for (const DeviceOverhead& overhead : timeline_.overheads) {
      writer_.begin_event("overhead", overhead_of(overhead.kind), overhead.thread,
                          overhead.start_ns + offset_ns_, overhead.end_ns - overhead.start_ns);
    }
    write_ranges();
    write_names();
  }

 private:
  // The range of a span on a stream.
  struct Range {
    std::int64_t start_ns = std::numeric_limits<std::int64_t>::max();
    std::int64_t end_ns = std::numeric_limits<std::int64_t>::min();
  };

  const std::string& name(std::uint32_t id) const { return timeline_.names[id]; }

  void put_scope(const DeviceEventBase& event) {
    if (const std::int64_t number = numbers_.number_of(event.operation, event.span); number != 0) {
      writer_.argument("External id", number);
    }
  }

  void put_place(const DeviceEventBase& event, std::int64_t stream) {
    writer_.argument("device", std::int64_t{event.device});
    writer_.argument("context", std::int64_t{event.context});
    writer_.argument("stream", stream);
    writer_.argument("correlation", std::int64_t{event.correlation});
  }

  void begin_work(std::string_view category, std::string_view text, const DeviceEventBase& event) {
    writer_.begin_device_event(category, text, event.device, event.stream,
                               event.start_ns + offset_ns_, event.end_ns - event.start_ns);
    put_scope(event);
    streams_.emplace(event.device, event.stream);
    widen_ranges(event);
    device_of_context_.try_emplace(event.context, event.device);
  }

  void widen_ranges(const DeviceEventBase& event) {
    // A span begins after the span around it, so this loop ends.
    for (ScopeId span = event.span; span != 0 && span <= numbers_.spans.size();) {
      Range& range = ranges_[{span, event.device, event.stream}];
      range.start_ns = std::min(range.start_ns, event.start_ns);
      range.end_ns = std::max(range.end_ns, event.end_ns);
      const ScopeId parent = numbers_.spans[span - 1].parent;
      if (parent >= span) break;
      span = parent;
    }
  }

  void write_ranges() {
    for (const auto& [place, range] : ranges_) {
      const auto& [span, device, stream] = place;
      const SpanInTrace& annotation = numbers_.spans[span - 1];
      writer_.begin_device_event("gpu_user_annotation", annotation.name, device, stream,
                                 range.start_ns + offset_ns_, range.end_ns - range.start_ns);
      writer_.argument("External id", annotation.number);
    }
  }

  void link(const DeviceEventBase& event) {
    const auto call = call_of_.find(event.correlation);
    if (call == call_of_.end()) return;
    writer_.link_call_to_work(event.correlation, call->second->thread,
                              call->second->start_ns + offset_ns_, event.device, event.stream,
                              event.start_ns + offset_ns_);
  }

  void write_call(const HostCall& call) {
    writer_.begin_event(call.is_driver ? "cuda_driver" : "cuda_runtime", name(call.name),
                        call.thread, call.start_ns + offset_ns_, call.end_ns - call.start_ns);
    put_scope(call);
    writer_.argument("cbid", std::int64_t{call.number});
    writer_.argument("correlation", std::int64_t{call.correlation});
  }

  void write_kernel(const DeviceKernel& kernel) {
    begin_work("kernel", name(kernel.name), kernel);
    writer_.argument("queued", kernel.queued_ns > 0 ? kernel.queued_ns + offset_ns_ : 0);
    put_place(kernel, kernel.stream);
    writer_.argument("registers per thread", std::int64_t{kernel.registers_per_thread});
    writer_.argument("shared memory", std::int64_t{kernel.static_shared_bytes} +
                                          std::int64_t{kernel.dynamic_shared_bytes});
    put_if_known("blocks per SM", kernel.blocks_per_sm);
    put_if_known("warps per SM", kernel.warps_per_sm);
    writer_.argument_json("grid", list_of(kernel.grid));
    writer_.argument_json("block", list_of(kernel.block));
    if (std::isfinite(kernel.occupancy_percent)) {
      writer_.argument("est. achieved occupancy %",
                       static_cast<std::int64_t>(std::lround(kernel.occupancy_percent)));
    }
    if (kernel.graph != 0) {
      writer_.argument("graph id", std::int64_t{kernel.graph});
      writer_.argument_json("graph node id", std::to_string(kernel.graph_node));
    }
    link(kernel);
  }

  void put_if_known(std::string_view key, float value) {
    if (std::isfinite(value)) writer_.argument_figure(key, static_cast<double>(value));
  }

  void put_size(const DeviceEventBase& event, std::int64_t bytes) {
    writer_.argument("bytes", bytes);
    const std::int64_t length_ns = event.end_ns - event.start_ns;
    if (length_ns > 0) {
      writer_.argument_figure("memory bandwidth (GB/s)",
                              static_cast<double>(bytes) / static_cast<double>(length_ns));
    }
  }

  void write_copy(const DeviceCopy& copy) {
    std::string text = "Memcpy ";
    text += direction_of(copy.direction);
    text += " (";
    text += memory_of(copy.source);
    text += " -> ";
    text += memory_of(copy.destination);
    begin_work("gpu_memcpy", text + ")", copy);
    put_place(copy, copy.stream);
    put_size(copy, copy.bytes);
    link(copy);
  }

  void write_fill(const DeviceFill& fill) {
    begin_work("gpu_memset", "Memset (" + std::string(memory_of(fill.memory)) + ")", fill);
    put_place(fill, fill.stream);
    put_size(fill, fill.bytes);
    link(fill);
  }

  void write_wait(const DeviceWait& wait) {
    DeviceEventBase placed = wait;
    if (const auto found = device_of_context_.find(wait.context);
        found != device_of_context_.end()) {
      placed.device = found->second;
    }
    const std::int64_t stream = wait.stream == kNoStream ? -1 : std::int64_t{wait.stream};
    writer_.begin_device_event("cuda_sync", wait_of(wait.kind), placed.device, stream,
                               wait.start_ns + offset_ns_, wait.end_ns - wait.start_ns);
    put_scope(wait);
    put_place(placed, stream);
  }

  void write_names() {
    std::set<std::uint32_t> devices;
    for (const auto& [device, stream] : streams_) {
      if (devices.insert(device).second) writer_.name_device(device);
      writer_.name_stream(device, stream);
    }
  }

  TraceWriter& writer_;
  const DeviceTimeline& timeline_;
  const ScopeNumbers& numbers_;
  std::int64_t offset_ns_;
  std::unordered_map<std::uint32_t, const HostCall*> call_of_;  // by correlation
  std::unordered_map<std::uint32_t, std::uint32_t> device_of_context_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> streams_;
  std::map<std::tuple<ScopeId, std::uint32_t, std::uint32_t>, Range> ranges_;
};

}  // namespace

std::int64_t ScopeNumbers::number_of(ScopeId operation, ScopeId span) const {
  if (operation != 0) {
    const std::size_t thread = thread_of_scope(operation);
    const std::size_t event = event_of_scope(operation);
    if (thread < operators.size() && event < operators[thread].size()) {
      return operators[thread][event];
    }
  }
  return span != 0 && span <= spans.size() ? spans[span - 1].number : 0;
}

std::string device_properties_json(const std::vector<RecordedDevice>& devices) {
  Json list = Json::array();
  for (const RecordedDevice& device : devices) {
    list.push_back({{"id", device.id},
                    {"name", device.name},
                    {"totalGlobalMem", device.memory_bytes},
                    {"computeMajor", device.compute_major},
                    {"computeMinor", device.compute_minor},
                    {"maxThreadsPerBlock", device.max_threads_per_block},
                    {"maxThreadsPerMultiprocessor", device.max_threads_per_multiprocessor},
                    {"regsPerBlock", device.registers_per_block},
                    {"regsPerMultiprocessor", device.registers_per_multiprocessor},
                    {"warpSize", device.warp_size},
                    {"sharedMemPerBlock", device.shared_bytes_per_block},
                    {"numSms", device.multiprocessors},
                    {"sharedMemPerBlockOptin", device.shared_bytes_per_block_optin},
                    {"sharedMemPerMultiprocessor", device.shared_bytes_per_multiprocessor}});
  }
  return to_line(list);
}

void write_device_timeline(TraceWriter& writer, const DeviceTimeline& timeline,
                           const ScopeNumbers& numbers, std::int64_t offset_ns) {
  DeviceTimelineWriter(writer, timeline, numbers, offset_ns).write();
}

}  // namespace autotuned::profiler
