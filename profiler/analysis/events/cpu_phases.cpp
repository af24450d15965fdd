// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/events/cpu_phases.hpp"

#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>

namespace autotuned::analysis {
namespace {

using traces::EventKind;
using traces::Events;
using traces::Trace;

std::size_t index_of(CpuPhase phase) {
  return static_cast<std::size_t>(phase);
}

CpuPhase phase_of_name(const std::string& name) {
  if (name.starts_with("Optimizer.")) return CpuPhase::optimizer;
  if (name == "backward" || name.starts_with("autograd::engine::evaluate_function") ||
      name.ends_with("AccumulateGrad")) {
    return CpuPhase::backward;
  }
  if (name == "forward" || name == "loss") return CpuPhase::forward;
  return CpuPhase::elsewhere;
}

}  // namespace

const char* to_string(CpuPhase phase) {
  constexpr std::array kNames = {"forward", "backward", "optimizer", "elsewhere"};
  return kNames[index_of(phase)];
}

std::array<Intervals, kCpuPhases> cpu_phases(const Trace& trace) {
  const Events& events = trace.events;
  std::unordered_set<std::int64_t> of_nodes;
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (events.is_backward[row] && events.sequence[row] != traces::kNoId) {
      of_nodes.insert(events.sequence[row]);
    }
  }
  std::array<Intervals, kCpuPhases> phases;
  for (std::size_t row = 0; row < events.size(); ++row) {
    const EventKind kind = events.kind[row];
    if (kind != EventKind::cpu_operator && kind != EventKind::annotation &&
        kind != EventKind::module) {
      continue;
    }
    const bool has_number = events.sequence[row] != traces::kNoId;
    CpuPhase phase = CpuPhase::elsewhere;
    if (kind == EventKind::module) {
      phase = CpuPhase::forward;
    } else if (has_number && events.is_backward[row]) {
      phase = CpuPhase::backward;
    } else {
      phase = phase_of_name(trace.name_of(row));
      if (phase == CpuPhase::elsewhere && has_number && of_nodes.contains(events.sequence[row])) {
        phase = CpuPhase::forward;
      }
    }
    if (phase != CpuPhase::elsewhere) {
      phases[index_of(phase)].push_back({events.start_ns[row], events.end_ns(row)});
    }
  }
  for (Intervals& phase : phases)
    phase = merged(std::move(phase));
  Intervals& forward = phases[index_of(CpuPhase::forward)];
  Intervals& backward = phases[index_of(CpuPhase::backward)];
  const Intervals& optimizer = phases[index_of(CpuPhase::optimizer)];
  backward = difference(backward, optimizer);
  forward = difference(difference(forward, optimizer), backward);
  return phases;
}

}  // namespace autotuned::analysis
