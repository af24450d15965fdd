// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "profiler/analysis/findings/signals.hpp"
#include "profiler/operators.hpp"

namespace autotuned::analysis {
namespace {

using traces::EventKind;
using traces::Events;
using traces::NameId;
using traces::Trace;

constexpr double kSmallOperatorNs = 10'000;
constexpr std::size_t kFewestStepsForGrowth = 6;
// By default glibc takes blocks of this size from the system and returns them.
constexpr std::int64_t kLargeBlockBytes = 128 << 10;

// The time of each name within the stretches.
class NameTimes {
 public:
  NameTimes(const Trace& trace, const Stretches& stretches)
      : trace_(trace), times_(trace.names.size()) {
    const Events& events = trace.events;
    for (std::size_t row = 0; row < events.size(); ++row) {
      if (is_on_device(events.kind[row])) continue;
      times_[events.name[row]] += inside_ns(events, row, stretches);
    }
  }

  template <class Predicate>
  [[nodiscard]] double sum(const Predicate& is_meant) const {
    double ns = 0;
    for (NameId id = 0; id < times_.size(); ++id) {
      if (times_[id] > 0 && is_meant(trace_.names.text(id))) ns += times_[id];
    }
    return ns;
  }

 private:
  const Trace& trace_;
  std::vector<double> times_;
};

bool is_fill(const std::string& name) {
  return name == "aten::zero_" || name == "aten::fill_" || name == "aten::_foreach_zero_";
}

// The annotations "Optimizer.zero_grad" that fill memory. Releasing gradients fills nothing.
double gradient_fill_ns(const Trace& trace, const Stretches& stretches) {
  const Events& events = trace.events;
  std::unordered_map<std::uint32_t, Intervals> of_thread;
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (trace.name_of(row).starts_with("Optimizer.zero_grad")) {
      of_thread[events.thread[row]].push_back({events.start_ns[row], events.end_ns(row)});
    }
  }
  for (auto& [thread, resets] : of_thread)
    resets = merged(std::move(resets));
  std::unordered_map<std::uint32_t, Intervals> filled;
  for (std::size_t row = 0; row < events.size(); ++row) {
    const auto resets = of_thread.find(events.thread[row]);
    if (resets == of_thread.end() || !is_fill(trace.name_of(row))) continue;
    const auto reset =
        std::ranges::upper_bound(resets->second, events.start_ns[row], {}, &Interval::end_ns);
    if (reset != resets->second.end() && reset->start_ns <= events.start_ns[row]) {
      filled[events.thread[row]].push_back(*reset);
    }
  }
  double ns = 0;
  for (auto& [thread, resets] : filled)
    ns += static_cast<double>(
        length_ns(intersection(merged(std::move(resets)), stretches.intervals())));
  return ns;
}

// Conversions of 8-bit data to floating point on the host, if shapes were recorded.
double uint8_conversion_ns(const AnalysisInput& input) {
  const Trace& trace = input.trace;
  const Events& events = trace.events;
  std::unordered_set<std::int64_t> launched;  // operators that only handed it to a device
  std::unordered_map<std::uint32_t, std::vector<std::int64_t>> launched_ns;  // by thread
  for (const DeviceEvent& event : input.launches.device_events) {
    if (event.launch != kNoRow) {
      launched.insert(events.external_id[event.launch]);
      launched_ns[events.thread[event.launch]].push_back(events.start_ns[event.launch]);
    }
    launched.insert(events.external_id[event.row]);
  }
  launched.erase(traces::kNoId);
  for (auto& [thread, starts_ns] : launched_ns)
    std::ranges::sort(starts_ns);
  const auto holds_launch = [&](std::size_t row) {
    const auto of_thread = launched_ns.find(events.thread[row]);
    if (of_thread == launched_ns.end()) return false;
    const auto start_ns = std::ranges::lower_bound(of_thread->second, events.start_ns[row]);
    return start_ns != of_thread->second.end() && *start_ns < events.end_ns(row);
  };
  const Stretches& stretches = input.breakdown.stretches;
  double ns = 0;
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (events.kind[row] != EventKind::cpu_operator || events.detail[row] == traces::kNoDetail ||
        trace.name_of(row) != "aten::copy_") {
      continue;
    }
    const std::string_view types = trace.names.text(events.detail[row]);
    const std::size_t to = types.find("\"float\"");
    const std::size_t from = types.find("\"unsigned char\"");
    if (to < from && from != std::string_view::npos &&
        !launched.contains(events.external_id[row]) && !holds_launch(row)) {
      ns += inside_ns(events, row, stretches);
    }
  }
  return ns;
}

// Returns how much more memory tensors take at the ends of the last third of the steps than at those of the first third.
void add_memory_growth(const AnalysisInput& input, Signals& signals) {
  const std::vector<Step>& steps = input.breakdown.steps;
  if (!input.breakdown.has_steps || steps.size() < kFewestStepsForGrowth) return;
  std::map<int, std::vector<traces::MemoryPoint>> devices;
  for (const traces::MemoryPoint& point : input.trace.memory) {
    if (point.device_type != 0) devices[point.device].push_back(point);
  }
  for (auto& [device, points] : devices) {
    std::ranges::stable_sort(points, {}, &traces::MemoryPoint::time_ns);
    std::vector<double> at_end;
    for (const Step& step : steps) {
      const auto after =
          std::ranges::upper_bound(points, step.time.end_ns, {}, &traces::MemoryPoint::time_ns);
      if (after == points.begin()) continue;
      at_end.push_back(static_cast<double>(std::prev(after)->allocated_bytes));
    }
    if (at_end.size() < kFewestStepsForGrowth) continue;
    const auto third = static_cast<std::ptrdiff_t>(at_end.size() / 3);
    const double first = std::accumulate(at_end.begin(), at_end.begin() + third, 0.0);
    const double last = std::accumulate(at_end.end() - third, at_end.end(), 0.0);
    if (first <= 0) continue;
    double& growth = signals.try_emplace("memory.growth_share_ratio", 0.0).first->second;
    growth = std::max(growth, last / first - 1);
  }
}

void add_memory_signals(const AnalysisInput& input, Signals& signals) {
  add_memory_growth(input, signals);
  std::map<int, std::int64_t> peak_of_device;
  std::map<int, std::int64_t> reserved_of_device;
  std::int64_t large_blocks = 0;
  bool has_host = false;
  const Stretches& stretches = input.breakdown.stretches;
  for (const traces::MemoryPoint& point : input.trace.memory) {
    if (point.device_type != 0) {
      std::int64_t& peak = peak_of_device[point.device];
      peak = std::max(peak, point.allocated_bytes);
      std::int64_t& reserved = reserved_of_device[point.device];
      reserved = std::max(reserved, point.reserved_bytes);
      continue;
    }
    has_host = true;
    if (stretches.hold(point.time_ns) && point.bytes >= kLargeBlockBytes) ++large_blocks;
  }
  if (has_host && input.launches.device_events.empty()) {
    signals["memory.large_blocks_per_step_count"] =
        static_cast<double>(large_blocks) / static_cast<double>(input.breakdown.steps.size());
  }
  double fullest = -1;
  for (const traces::DeviceProperties& device : input.trace.devices) {
    const auto peak = peak_of_device.find(device.id);
    if (peak == peak_of_device.end() || device.memory_bytes <= 0) continue;
    const double share =
        static_cast<double>(peak->second) / static_cast<double>(device.memory_bytes);
    if (const std::int64_t reserved = reserved_of_device[device.id]; reserved > 0) {
      double& unused = signals.try_emplace("memory.unused_reserve_share_ratio", 0.0).first->second;
      unused = std::max(unused, static_cast<double>(reserved - peak->second) /
                                    static_cast<double>(device.memory_bytes));
    }
    if (share <= fullest) continue;
    fullest = share;
    signals["memory.peak_bytes"] = static_cast<double>(peak->second);
    signals["memory.peak_ratio"] = share;
  }
}

}  // namespace

void add_host_signals(const AnalysisInput& input, Signals& signals) {
  const Trace& trace = input.trace;
  const double window_ns = steps_ns(input.breakdown);
  const NameTimes times(trace, input.breakdown.stretches);
  const auto set = [&](const char* name, const auto& is_meant) {
    signals[name] = times.sum(is_meant) / window_ns;
  };
  set("operators.scalar_read_ratio",
      [](const std::string& name) { return name == "aten::_local_scalar_dense"; });
  set("optimizer.step_ratio",
      [](const std::string& name) { return name.starts_with("Optimizer.step#"); });
  const double in_process = times.sum([](const std::string& name) {
    return name.find("_SingleProcessDataLoaderIter") != std::string::npos;
  });
  signals["loading.in_training_process_ratio"] = in_process / window_ns;
  const bool has_loading =
      !input.breakdown.all[static_cast<std::size_t>(Part::data_loading)].empty();
  // The source of the input is not known, so time outside of operators and calls may be loading.
  if (input.breakdown.has_steps && !has_loading) {
    signals["loading.unnamed_ratio"] = input.breakdown.ratio_of(Part::other);
  }
  const Stretches& stretches = input.breakdown.stretches;
  double overhead_ns = 0;
  for (std::size_t row = 0; row < trace.events.size(); ++row) {
    if (trace.events.kind[row] == EventKind::overhead) {
      overhead_ns += inside_ns(trace.events, row, stretches);
    }
  }
  signals["profiler.overhead_ratio"] = overhead_ns / window_ns;
  signals["gradients.fill_ratio"] = gradient_fill_ns(trace, stretches) / window_ns;
  if (trace.has_input_types) {
    signals["loading.float_from_uint8_ratio"] = uint8_conversion_ns(input) / window_ns;
  }

  double all_ns = 0;
  double gemm_ns = 0;
  double convolution_ns = 0;
  double gather_ns = 0;
  double small_ns = 0;
  const bool on_device = !input.launches.device_events.empty();
  for (const OperatorRow& row : input.operators) {
    const auto self = static_cast<double>(on_device ? row.device_self_ns : row.host_self_ns);
    all_ns += self;
    if (profiler::is_gemm_or_convolution(row.name)) {
      gemm_ns += self;
      if (row.name.find("conv") != std::string::npos) convolution_ns += self;
    }
    if (profiler::is_gather(row.name)) {
      gather_ns += static_cast<double>(on_device ? row.device_total_ns : row.host_total_ns);
    }
    if (static_cast<double>(row.host_self_ns) < kSmallOperatorNs * static_cast<double>(row.calls)) {
      small_ns += static_cast<double>(row.host_self_ns);
    }
  }
  if (all_ns > 0) {
    signals["operators.gemm_conv_share_ratio"] = gemm_ns / all_ns;
    signals["operators.convolution_share_ratio"] = convolution_ns / all_ns;
    signals["operators.gather_share_ratio"] = gather_ns / all_ns;
  }
  if (all_ns > 0 && !on_device) {
    signals["operators.small_host_share_ratio"] = small_ns / all_ns;
    signals["cpu.gemm_conv_share_ratio"] = gemm_ns / all_ns;
  }
  add_memory_signals(input, signals);
}

}  // namespace autotuned::analysis
