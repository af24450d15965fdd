// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/events/device_use.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "profiler/analysis/events/tensor_cores.hpp"

namespace autotuned::analysis {
namespace {

using traces::EventKind;

struct Busy {
  Interval time;
  double blocks_per_sm = 0;
};

double as_double(std::int64_t ns) {
  return static_cast<double>(ns);
}

// Returns the integral over the stretches, in ns, of min(1, blocks per multiprocessor of all running kernels).
double covered_ns(const std::vector<Busy>& kernels, const Stretches& stretches) {
  struct Change {
    std::int64_t time_ns;
    double blocks_per_sm;
    int running;
  };
  std::vector<Change> changes;
  for (const Busy& kernel : kernels) {
    if (kernel.time.length_ns() <= 0) continue;
    changes.push_back({kernel.time.start_ns, kernel.blocks_per_sm, 1});
    changes.push_back({kernel.time.end_ns, -kernel.blocks_per_sm, -1});
  }
  std::ranges::sort(changes, {}, &Change::time_ns);
  double sum_ns = 0;
  double blocks = 0;
  int running = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (i > 0) {
      sum_ns += std::min(1.0, blocks) *
                as_double(stretches.length_within_ns({changes[i - 1].time_ns, changes[i].time_ns}));
    }
    running += changes[i].running;
    // Nothing runs, so the sum is 0. It is set, because sums of fractions leave rounding errors.
    blocks = running == 0 ? 0.0 : std::max(0.0, blocks + changes[i].blocks_per_sm);
  }
  return sum_ns;
}

struct Kernels {
  Intervals times;
  std::vector<Busy> with_blocks;
  // Sums over the parts of kernels within the stretches.
  double occupancy_sum = 0;  // weighted with the ns
  double occupancy_ns = 0;
  double all_ns = 0;
  double tensor_ns = 0;
  double unknown_ns = 0;
};

}  // namespace

std::vector<DeviceUse> device_uses(const traces::Trace& trace, const Stretches& stretches) {
  const traces::Events& events = trace.events;
  std::vector<TensorCores> use_of_name(trace.names.size(), TensorCores::no);
  std::vector<bool> is_known(trace.names.size());
  std::map<int, Kernels> devices;
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (events.kind[row] != EventKind::kernel) continue;
    const traces::DeviceDetail& detail = trace.details[events.detail[row]];
    const Interval time{events.start_ns[row], events.end_ns(row)};
    Kernels& kernels = devices[detail.device];
    kernels.times.push_back(time);
    if (detail.blocks_per_sm > 0) kernels.with_blocks.push_back({time, detail.blocks_per_sm});
    const double inside_ns = as_double(stretches.length_within_ns(time));
    if (!std::isnan(detail.occupancy_percent)) {
      kernels.occupancy_sum += static_cast<double>(detail.occupancy_percent) * inside_ns;
      kernels.occupancy_ns += inside_ns;
    }
    const traces::NameId name = events.name[row];
    if (!is_known[name]) use_of_name[name] = tensor_cores_of(trace.names.text(name));
    is_known[name] = true;
    kernels.all_ns += inside_ns;
    if (use_of_name[name] == TensorCores::yes) kernels.tensor_ns += inside_ns;
    if (use_of_name[name] == TensorCores::unknown) kernels.unknown_ns += inside_ns;
  }

  std::vector<DeviceUse> uses;
  const double all_ns = std::max(1.0, as_double(stretches.length_ns()));
  for (auto& [device, kernels] : devices) {
    DeviceUse use;
    use.device = device;
    use.utilization = as_double(length_ns(
                          intersection(merged(std::move(kernels.times)), stretches.intervals()))) /
                      all_ns;
    if (!kernels.with_blocks.empty()) {
      use.sm_efficiency = covered_ns(kernels.with_blocks, stretches) / all_ns;
    }
    if (kernels.occupancy_ns > 0) {
      use.achieved_occupancy_percent = kernels.occupancy_sum / kernels.occupancy_ns;
    }
    if (kernels.all_ns > 0) {
      use.tensor_core_ratio = kernels.tensor_ns / kernels.all_ns;
      use.unknown_tensor_core_ratio = kernels.unknown_ns / kernels.all_ns;
    }
    uses.push_back(use);
  }
  return uses;
}

}  // namespace autotuned::analysis
