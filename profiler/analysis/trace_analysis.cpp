// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/trace_analysis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "profiler/analysis/events/call_tree.hpp"
#include "profiler/analysis/findings/odd_times.hpp"

namespace autotuned::analysis {
namespace {

// The mean use of the devices of all ranks.
std::optional<DeviceUse> mean_use(const std::vector<TraceAnalysis>& ranks) {
  DeviceUse mean;
  double count = 0;
  double with_efficiency = 0;
  double with_occupancy = 0;
  for (const TraceAnalysis& rank : ranks) {
    for (const DeviceUse& device : rank.devices) {
      ++count;
      mean.utilization += device.utilization;
      mean.tensor_core_ratio += device.tensor_core_ratio;
      mean.unknown_tensor_core_ratio += device.unknown_tensor_core_ratio;
      if (device.sm_efficiency) {
        mean.sm_efficiency = mean.sm_efficiency.value_or(0) + *device.sm_efficiency;
        ++with_efficiency;
      }
      if (device.achieved_occupancy_percent) {
        mean.achieved_occupancy_percent =
            mean.achieved_occupancy_percent.value_or(0) + *device.achieved_occupancy_percent;
        ++with_occupancy;
      }
    }
  }
  if (count == 0) return std::nullopt;
  mean.utilization /= count;
  mean.tensor_core_ratio /= count;
  mean.unknown_tensor_core_ratio /= count;
  if (mean.sm_efficiency) *mean.sm_efficiency /= with_efficiency;
  if (mean.achieved_occupancy_percent) *mean.achieved_occupancy_percent /= with_occupancy;
  return mean;
}

std::vector<OperatorRow> summed_operators(const std::vector<TraceAnalysis>& ranks) {
  std::map<std::string, OperatorRow> sums;
  for (const TraceAnalysis& rank : ranks) {
    for (const OperatorRow& row : rank.operators) {
      OperatorRow& sum = sums[row.name];
      sum.name = row.name;
      sum.calls += row.calls;
      sum.host_total_ns += row.host_total_ns;
      sum.host_self_ns += row.host_self_ns;
      sum.device_total_ns += row.device_total_ns;
      sum.device_self_ns += row.device_self_ns;
      sum.flop += row.flop;
    }
  }
  std::vector<OperatorRow> table;
  for (auto& [name, row] : sums)
    table.push_back(std::move(row));
  std::ranges::stable_sort(table, std::greater{}, [](const OperatorRow& row) {
    return row.host_self_ns + row.device_self_ns;
  });
  return table;
}

struct KernelSum {
  KernelRow row;
  // The mean over the ranks that have the figure.
  double blocks_ns = 0;
  double occupancy_ns = 0;
};

std::vector<KernelRow> summed_kernels(const std::vector<TraceAnalysis>& ranks) {
  std::map<std::string, KernelSum> sums;
  for (const TraceAnalysis& rank : ranks) {
    for (const KernelRow& row : rank.kernels) {
      const auto [found, is_new] = sums.try_emplace(row.name);
      KernelRow& sum = found->second.row;
      if (is_new) {
        sum = row;
        found->second.blocks_ns = row.blocks_per_sm ? static_cast<double>(row.total_ns) : 0;
        found->second.occupancy_ns = row.occupancy_percent ? static_cast<double>(row.total_ns) : 0;
        continue;
      }
      const auto merge = [&](std::optional<double>& mean, double& ns,
                             const std::optional<double>& other) {
        if (!other) return;
        const auto added = static_cast<double>(row.total_ns);
        mean = (mean.value_or(0.0) * ns + *other * added) / std::max(1.0, ns + added);
        ns += added;
      };
      merge(sum.blocks_per_sm, found->second.blocks_ns, row.blocks_per_sm);
      merge(sum.occupancy_percent, found->second.occupancy_ns, row.occupancy_percent);
      sum.calls += row.calls;
      sum.total_ns += row.total_ns;
      sum.min_ns = std::min(sum.min_ns, row.min_ns);
      sum.max_ns = std::max(sum.max_ns, row.max_ns);
    }
  }
  std::vector<KernelRow> table;
  for (auto& [name, sum] : sums)
    table.push_back(std::move(sum.row));
  std::ranges::stable_sort(table, std::greater{}, &KernelRow::total_ns);
  return table;
}

// One full device stops all ranks, so the peak is that of the fullest rank.
void take_fullest(const std::vector<TraceAnalysis>& ranks, Signals& signals) {
  const Signals* fullest = nullptr;
  for (const TraceAnalysis& rank : ranks) {
    const auto peak = rank.signals.find("memory.peak_ratio");
    if (peak == rank.signals.end()) continue;
    if (fullest == nullptr || peak->second > fullest->at("memory.peak_ratio")) {
      fullest = &rank.signals;
    }
  }
  if (fullest == nullptr) return;
  for (const char* name : {"memory.peak_ratio", "memory.peak_bytes"})
    signals[name] = fullest->at(name);
}

// Returns the mean of each other signal over the ranks that have it, and the signals that need several ranks.
Signals signals_of_all(const std::vector<TraceAnalysis>& ranks, double step_ns) {
  Signals sums;
  std::map<std::string, double> counts;
  double most = 0;
  double sum = 0;
  for (const TraceAnalysis& rank : ranks) {
    for (const auto& [name, value] : rank.signals) {
      sums[name] += value;
      ++counts[name];
    }
    // The work of the rank itself, without communication: a rank that is early waits there.
    const double own_ns =
        rank.breakdown.mean_step_ns() - rank.breakdown.mean_part_ns(Part::communication);
    most = std::max(most, own_ns);
    sum += own_ns;
  }
  for (auto& [name, value] : sums)
    value /= counts[name];
  take_fullest(ranks, sums);
  const double mean = sum / static_cast<double>(ranks.size());
  if (step_ns > 0) sums["ranks.imbalance_ratio"] = (most - mean) / step_ns;
  return sums;
}

// The findings of the ranks that have one of this rule, the clearest first.
std::vector<std::pair<int, const Finding*>> ranks_with(const std::vector<TraceAnalysis>& ranks,
                                                       const Rule& rule) {
  std::vector<std::pair<int, const Finding*>> found;
  for (const TraceAnalysis& rank : ranks) {
    for (const Finding& finding : rank.findings) {
      if (finding.rule == &rule) found.emplace_back(rank.rank, &finding);
    }
  }
  std::ranges::stable_sort(found, [&](const auto& a, const auto& b) {
    return rule.is_below ? a.second->value < b.second->value : a.second->value > b.second->value;
  });
  return found;
}

// Returns the findings from the means, with the module that the clearest rank names, and those of only some ranks, which a mean would hide.
std::vector<Finding> findings_of_all(const std::vector<TraceAnalysis>& ranks,
                                     const Signals& signals) {
  std::vector<Finding> findings = findings_of(signals);
  for (Finding& finding : findings) {
    for (const auto& [rank, own] : ranks_with(ranks, *finding.rule)) {
      if (own->where.empty()) continue;
      finding.where = fmt::format("on rank {} {}", rank, own->where);
      finding.evidence += "; " + finding.where;
      break;
    }
  }
  for (const Rule& rule : rules()) {
    // The finding of the fullest device covers all ranks.
    if (std::string_view(rule.signal) == "memory.peak_ratio") continue;
    if (std::ranges::find(findings, &rule, &Finding::rule) != findings.end()) continue;
    const auto found = ranks_with(ranks, rule);
    if (found.empty()) continue;
    const auto& [rank, own] = found.front();
    Finding finding = *own;
    finding.evidence = found.size() == 1
                           ? fmt::format("on rank {} only: {}", rank, own->evidence)
                           : fmt::format("on {} of {} ranks, most on rank {}: {}", found.size(),
                                         ranks.size(), rank, own->evidence);
    findings.push_back(std::move(finding));
  }
  std::ranges::stable_sort(findings, std::less{}, &Finding::rule);
  return findings;
}

void take_measured(const Signals& measured, Signals& signals) {
  for (auto& [name, value] : signals) {
    const auto known = measured.find(name);
    if (known != measured.end()) value = known->second;
  }
}

// Recordings of AMD's devices have less data than those of NVIDIA's.
void add_rocm_note(const traces::Trace& trace, TraceAnalysis& analysis) {
  if (analysis.devices.empty() || !is_rocm(trace)) return;
  std::vector<std::string> missing;
  const auto all_lack = [&](const auto& has) {
    return std::ranges::none_of(analysis.devices, has);
  };
  if (all_lack([](const DeviceUse& use) { return use.sm_efficiency.has_value(); })) {
    missing.emplace_back("blocks per multiprocessor, and so their efficiency");
  }
  if (all_lack([](const DeviceUse& use) { return use.achieved_occupancy_percent.has_value(); })) {
    missing.emplace_back("occupancy");
  }
  missing.emplace_back("which kernels use matrix cores");
  analysis.notes.push_back(
      fmt::format("recorded with ROCm, which does not report: {}", fmt::join(missing, "; ")));
}

}  // namespace

TraceAnalysis analyze(const traces::Trace& trace, int default_rank, const Signals& measured) {
  TraceAnalysis analysis;
  analysis.file = trace.file;
  analysis.rank = trace.rank.value_or(default_rank);
  analysis.events = static_cast<std::int64_t>(trace.events.size());
  analysis.properties = trace.devices;
  analysis.is_complete = trace.is_complete;
  analysis.damage = trace.damage;
  analysis.notes = trace.notes;
  const Launches launches = launches_of(trace);
  analysis.breakdown = breakdown_of(trace, launches);
  analysis.devices = device_uses(trace, analysis.breakdown.stretches);
  std::vector<CallNode> nodes = call_tree(trace, launches, CallTreeOf::operators);
  for (std::string& sentence : odd_times(trace, launches, nodes))
    analysis.notes.push_back(std::move(sentence));
  OperatorTables operators =
      operator_tables(trace, std::move(nodes), launches, analysis.breakdown.stretches);
  analysis.operators = std::move(operators.recorded);
  analysis.kernels = kernel_table(trace);
  analysis.signals =
      signals_of({trace, launches, analysis.breakdown, analysis.devices, operators.within});
  // With a device these signals are about its work, and the host measured other figures.
  if (analysis.devices.empty()) take_measured(measured, analysis.signals);
  analysis.findings = findings_of(analysis.signals);
  analysis.places = places_of(trace, analysis.breakdown.stretches);
  name_modules(analysis.places, analysis.findings);
  name_waits(trace, launches, analysis.breakdown.stretches, analysis.findings);
  add_rocm_note(trace, analysis);
  if (!analysis.breakdown.has_steps) {
    analysis.notes.emplace_back(
        "no steps are marked (profiler.step() was not called): all of it counts as one step");
  }
  if (analysis.breakdown.unfinished_steps > 0) {
    analysis.notes.push_back(
        "steps left out at the end, where the recording stopped before the "
        "device was done: " +
        std::to_string(analysis.breakdown.unfinished_steps));
  }
  return analysis;
}

Overall overall_of(const std::vector<TraceAnalysis>& ranks) {
  assert(!ranks.empty());
  Overall all;
  all.device = mean_use(ranks);
  for (const TraceAnalysis& rank : ranks) {
    all.step_ns += rank.breakdown.mean_step_ns() / static_cast<double>(ranks.size());
    for (std::size_t part = 0; part < kParts; ++part) {
      all.part_ns[part] +=
          rank.breakdown.mean_part_ns(static_cast<Part>(part)) / static_cast<double>(ranks.size());
    }
    for (std::size_t phase = 0; phase < kCpuPhases; ++phase) {
      all.cpu_phase_ns[phase] += rank.breakdown.mean_phase_ns(static_cast<CpuPhase>(phase)) /
                                 static_cast<double>(ranks.size());
    }
    all.has_cpu_phases = all.has_cpu_phases || rank.breakdown.has_cpu_phases;
  }
  const bool is_one = ranks.size() == 1;
  all.operators = is_one ? ranks.front().operators : summed_operators(ranks);
  all.kernels = is_one ? ranks.front().kernels : summed_kernels(ranks);
  all.signals = is_one ? ranks.front().signals : signals_of_all(ranks, all.step_ns);
  all.findings = is_one ? ranks.front().findings : findings_of_all(ranks, all.signals);
  return all;
}

}  // namespace autotuned::analysis
