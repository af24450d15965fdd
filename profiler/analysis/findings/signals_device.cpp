// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "profiler/analysis/findings/signals.hpp"
#include "profiler/operators.hpp"
#include "profiler/traces/classification.hpp"

namespace autotuned::analysis {
namespace {

using traces::EventKind;
using traces::Events;
using traces::Trace;

constexpr int kFirstWithTensorCores = 7;  // compute capability

void add_copy_signals(const AnalysisInput& input, Signals& signals) {
  const Events& events = input.trace.events;
  const Stretches& stretches = input.breakdown.stretches;
  double to_device_ns = 0;
  double from_device_ns = 0;
  double pageable_ns = 0;
  double bytes = 0;
  for (const DeviceEvent& event : input.launches.device_events) {
    if (events.kind[event.row] != EventKind::copy) continue;
    const std::string& name = input.trace.name_of(event.row);
    const double ns = inside_ns(events, event.row, stretches);
    if (has(name, "HtoD")) {
      to_device_ns += ns;
      if (has(name, "Pageable")) pageable_ns += ns;
      if (ns > 0) bytes += static_cast<double>(input.trace.details[events.detail[event.row]].bytes);
    } else if (has(name, "DtoH")) {
      from_device_ns += ns;
    }
  }
  const double all = steps_ns(input.breakdown);
  signals["copies.host_to_device_ratio"] = to_device_ns / all;
  signals["copies.device_to_host_ratio"] = from_device_ns / all;
  signals["copies.pageable_ratio"] = pageable_ns / all;
  signals["copies.per_step_bytes"] = bytes / static_cast<double>(input.breakdown.steps.size());
}

// cudaMemcpy, cudaMemcpy2D, cuMemcpyHtoD_v2, hipMemcpyWithStream, …, which return when the copy is done. Copies from device to device do
// not wait.
bool is_synchronous(std::string_view call, std::string_view what) {
  const std::size_t prefix = call.starts_with("cuda")  ? 4
                             : call.starts_with("hip") ? 3
                             : call.starts_with("cu")  ? 2
                                                       : 0;
  return prefix > 0 && call.substr(prefix).starts_with(what) && !has(call, "Async") &&
         !has(call, "Peer") && !has(call, "DtoD");
}

// cudaMalloc, cudaFree, cudaHostAlloc, hipFree, cuMemAlloc_v2, …: the caching allocator has no free memory, or is not used.
bool is_allocation(std::string_view call) {
  const bool is_runtime = call.starts_with("cu") || call.starts_with("hip");
  return is_runtime && !has(call, "Async") &&
         (has(call, "Malloc") || has(call, "Free") || has(call, "Alloc"));
}

// Waits of the host for the device, and calls that wait although they need not.
void add_waiting_signals(const AnalysisInput& input, Signals& signals) {
  const Trace& trace = input.trace;
  const Events& events = trace.events;
  const Stretches& stretches = input.breakdown.stretches;
  Intervals scalar_reads;
  for (Row row = 0; row < events.size(); ++row) {
    if (events.kind[row] == EventKind::cpu_operator &&
        trace.name_of(row) == "aten::_local_scalar_dense") {
      scalar_reads.push_back({events.start_ns[row], events.end_ns(row)});
    }
  }
  scalar_reads = merged(std::move(scalar_reads));
  double waiting_ns = 0;
  Intervals copies;
  Intervals fills;
  Intervals allocations;
  for (const Row call : input.launches.calls) {
    const std::string& name = trace.name_of(call);
    const double ns = inside_ns(events, call, stretches);
    const Interval time{events.start_ns[call], events.end_ns(call)};
    if (has(name, "Synchronize") && input.breakdown.on_host.hold(events.start_ns[call])) {
      const auto in_reads = static_cast<double>(length_within_ns(scalar_reads, time));
      waiting_ns += std::max(0.0, ns - in_reads);
    }
    if (is_synchronous(name, "Memcpy")) copies.push_back(time);
    if (is_synchronous(name, "Memset")) fills.push_back(time);
    if (is_allocation(name)) allocations.push_back(time);
  }
  const double all = steps_ns(input.breakdown);
  signals["waiting.synchronize_ratio"] = waiting_ns / all;
  // A call of the runtime contains that of the driver. Each moment counts once.
  const auto length_of = [&](Intervals calls) {
    return static_cast<double>(
        length_ns(intersection(merged(std::move(calls)), stretches.intervals())));
  };
  signals["waiting.synchronous_copy_ratio"] = length_of(std::move(copies)) / all;
  signals["waiting.synchronous_fill_ratio"] = length_of(std::move(fills)) / all;
  signals["waiting.device_allocation_ratio"] = length_of(std::move(allocations)) / all;
  Intervals full;
  for (Row row = 0; row < events.size(); ++row) {
    if (events.kind[row] == EventKind::overhead && trace.name_of(row) == "Command Buffer Full") {
      full.push_back({events.start_ns[row], events.end_ns(row)});
    }
  }
  signals["waiting.launch_queue_full_ratio"] = length_of(std::move(full)) / all;
}

// Stretches in which the busiest device is idle, and why.
void add_gap_signals(const AnalysisInput& input, Signals& signals) {
  const Events& events = input.trace.events;
  const Stretches& stretches = input.breakdown.stretches;
  std::map<int, double> busy;
  for (const DeviceEvent& event : input.launches.device_events) {
    busy[input.trace.details[events.detail[event.row]].device] +=
        inside_ns(events, event.row, stretches);
  }
  const int device =
      std::ranges::max_element(busy, {}, [](const auto& one) { return one.second; })->first;
  const Intervals& loading = input.breakdown.all[static_cast<std::size_t>(Part::data_loading)];
  double launch_wait_ns = 0;
  std::int64_t longest_gap_ns = 0;
  std::int64_t free_from_ns = 0;
  bool is_first = true;
  double kernels = 0;
  double kernel_ns = 0;
  double shorter = 0;
  for (const DeviceEvent& event : input.launches.device_events) {
    if (input.trace.details[events.detail[event.row]].device != device) continue;
    const std::int64_t start_ns = events.start_ns[event.row];
    if (events.kind[event.row] == EventKind::kernel && stretches.hold(start_ns)) {
      ++kernels;
      kernel_ns += static_cast<double>(events.length_ns[event.row]);
      if (event.launch != kNoRow && events.length_ns[event.row] < events.length_ns[event.launch]) {
        ++shorter;
      }
    }
    // The time between two stretches is not a gap, and neither is a pause that reaches from one into the next.
    const Interval gap{free_from_ns, start_ns};
    if (!is_first && gap.length_ns() > 0 && stretches.hold(gap)) {
      longest_gap_ns = std::max(longest_gap_ns, gap.length_ns());
      if (event.launch != kNoRow && events.start_ns[event.launch] > free_from_ns) {
        launch_wait_ns += static_cast<double>(gap.length_ns() - length_within_ns(loading, gap));
      }
    }
    free_from_ns =
        is_first ? events.end_ns(event.row) : std::max(free_from_ns, events.end_ns(event.row));
    is_first = false;
  }
  signals["device.launch_wait_ratio"] = launch_wait_ns / steps_ns(input.breakdown);
  signals["device.longest_gap_ns"] = static_cast<double>(longest_gap_ns);
  if (kernels > 0) {
    signals["kernels.mean_ns"] = kernel_ns / kernels;
    signals["kernels.shorter_than_launch_share_ratio"] = shorter / kernels;
    signals["kernels.per_step_count"] = kernels / static_cast<double>(input.breakdown.steps.size());
  }
}

void add_kernel_signals(const AnalysisInput& input, Signals& signals) {
  const Trace& trace = input.trace;
  double tensor_ratio = 0;
  double unknown_ratio = 0;
  const DeviceUse* least_used = nullptr;
  for (const DeviceUse& device : input.devices) {
    if (least_used == nullptr || device.utilization < least_used->utilization) {
      least_used = &device;
    }
    tensor_ratio = std::max(tensor_ratio, device.tensor_core_ratio);
    unknown_ratio = std::max(unknown_ratio, device.unknown_tensor_core_ratio);
  }
  if (least_used == nullptr) return;
  signals["device.utilization_ratio"] = least_used->utilization;
  if (least_used->sm_efficiency) {
    signals["device.unfilled_ratio"] =
        std::max(0.0, least_used->utilization - *least_used->sm_efficiency);
    signals["device.sm_efficiency_ratio"] = *least_used->sm_efficiency;
  }
  if (least_used->achieved_occupancy_percent) {
    signals["device.occupancy_ratio"] = *least_used->achieved_occupancy_percent / 100;
  }
  double layout_ns = 0;
  double kernel_ns = 0;
  for (Row row = 0; row < trace.events.size(); ++row) {
    if (trace.events.kind[row] != EventKind::kernel) continue;
    const double ns = inside_ns(trace.events, row, input.breakdown.stretches);
    kernel_ns += ns;
    const std::string& name = trace.name_of(row);
    if (has(name, "nchwToNhwc") || has(name, "nhwcToNchw")) layout_ns += ns;
  }
  if (kernel_ns > 0) signals["kernels.layout_conversion_share_ratio"] = layout_ns / kernel_ns;

  double eligible_ns = 0;
  for (const OperatorRow& row : input.operators) {
    if (profiler::is_gemm_or_convolution(row.name)) {
      eligible_ns += static_cast<double>(row.device_self_ns);
    }
  }
  // Devices under ROCm have a compute capability, too, but with another meaning, and kernels with other names.
  const bool has_tensor_cores =
      !is_rocm(trace) && std::ranges::any_of(trace.devices, [](const auto& device) {
        return device.compute_major >= kFirstWithTensorCores;
      });
  if (has_tensor_cores && kernel_ns > 0) {
    signals["device.tensor_core_share_ratio"] = tensor_ratio;
    signals["kernels.without_tensor_cores_share_ratio"] =
        tensor_ratio == 0 && unknown_ratio == 0 ? eligible_ns / kernel_ns : 0.0;
  }
}

// Other accelerators have their own libraries, to which the facts about NCCL do not apply.
bool calls_cuda_or_hip(const AnalysisInput& input) {
  return std::ranges::any_of(input.launches.calls, [&](Row call) {
    const std::string& name = input.trace.name_of(call);
    return name.starts_with("cuda") || name.starts_with("hip");
  });
}

void add_parallel_signals(const AnalysisInput& input, Signals& signals) {
  bool is_data_parallel = false;
  bool is_distributed = false;
  const std::string& backend = input.trace.backend;
  bool is_by_devices = has(backend, "ccl");
  bool is_through_host = has(backend, "gloo") || has(backend, "mpi");
  for (traces::NameId id = 0; id < input.trace.names.size(); ++id) {
    const std::string& name = input.trace.names.text(id);
    is_data_parallel = is_data_parallel || name == "DataParallel.forward";
    is_distributed = is_distributed || name == "DistributedDataParallel.forward";
    is_by_devices = is_by_devices || traces::is_device_collective(name);
    is_through_host = is_through_host || traces::is_host_collective(name);
  }
  signals["distributed.devices_of_data_parallel_count"] =
      is_data_parallel ? static_cast<double>(input.devices.size()) : 0.0;
  const bool is_without_nccl =
      is_distributed && is_through_host && !is_by_devices && calls_cuda_or_hip(input);
  signals["distributed.without_nccl_count"] = is_without_nccl ? 1.0 : 0.0;
}

}  // namespace

void add_device_signals(const AnalysisInput& input, Signals& signals) {
  const Breakdown& breakdown = input.breakdown;
  signals["parts.kernel_ratio"] = breakdown.ratio_of(Part::kernel);
  signals["step.host_bound_ratio"] =
      breakdown.ratio_of(Part::runtime) + breakdown.ratio_of(Part::data_loading) +
      breakdown.ratio_of(Part::cpu) + breakdown.ratio_of(Part::other);
  add_steadiness_signals(input, signals);
  add_copy_signals(input, signals);
  add_waiting_signals(input, signals);
  add_gap_signals(input, signals);
  add_kernel_signals(input, signals);
  add_parallel_signals(input, signals);
}

}  // namespace autotuned::analysis
