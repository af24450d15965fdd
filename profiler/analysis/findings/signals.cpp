// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/findings/signals.hpp"

#include <algorithm>

#include "base/statistics.hpp"
#include "profiler/analysis/events/input.hpp"

namespace autotuned::analysis {
namespace {

constexpr std::size_t kFewestStepsForShape = 5;

void add_step_signals(const Breakdown& breakdown, Signals& signals) {
  const std::vector<Step>& steps = breakdown.steps;
  signals["steps_count"] = static_cast<double>(steps.size());
  signals["step.mean_ns"] = breakdown.mean_step_ns();
  signals["parts.data_loading_ratio"] = breakdown.ratio_of(Part::data_loading);
  signals["parts.communication_ratio"] = breakdown.ratio_of(Part::communication);
  signals["parts.copy_ratio"] = breakdown.ratio_of(Part::copy);
  signals["parts.fill_ratio"] = breakdown.ratio_of(Part::fill);
  signals["parts.cpu_ratio"] = breakdown.ratio_of(Part::cpu);
  signals["parts.other_ratio"] = breakdown.ratio_of(Part::other);
  if (!breakdown.has_steps || steps.size() < kFewestStepsForShape) return;

  std::vector<double> lengths;
  for (const Step& step : steps)
    lengths.push_back(static_cast<double>(step.time.length_ns()));
  const double middle = std::max(1.0, median(lengths));
  signals["step.first_over_median"] = lengths.front() / middle;
  const std::vector<double> later(lengths.begin() + 1, lengths.end());
  signals["step.slowest_over_median"] = *std::ranges::max_element(later) / middle;
}

// A long wait every N batches shows N workers that take turns and are each too slow.
void add_wait_pattern(const AnalysisInput& input, Signals& signals) {
  if (!input.breakdown.has_steps) return;
  const Intervals waits = loader_waits(input.trace);
  const Rhythm rhythm = rhythm_of(waits);
  if (rhythm.period == 0) return;
  double long_ns = 0;
  for (const std::size_t wait : rhythm.long_waits)
    long_ns += static_cast<double>(input.breakdown.stretches.length_within_ns(waits[wait]));
  signals["loading.wait_period_count"] = static_cast<double>(rhythm.period);
  signals["loading.periodic_wait_ratio"] = long_ns / steps_ns(input.breakdown);
}

}  // namespace

double steps_ns(const Breakdown& breakdown) {
  return std::max(1.0, breakdown.mean_step_ns() * static_cast<double>(breakdown.steps.size()));
}

Signals signals_of(const AnalysisInput& input) {
  Signals signals;
  add_step_signals(input.breakdown, signals);
  add_wait_pattern(input, signals);
  add_host_signals(input, signals);
  add_loading_signals(input, signals);
  if (!input.launches.device_events.empty()) add_device_signals(input, signals);
  return signals;
}

}  // namespace autotuned::analysis
