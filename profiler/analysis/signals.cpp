// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/signals.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace autotuned::analysis {
namespace {

constexpr std::size_t kFewestStepsForShape = 5;
constexpr double kSpike = 3.0;  // times the median

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0.0 : values[values.size() / 2];
}

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

// A long wait every N steps: N workers that take turns, and are slow together.
void add_wait_pattern(const Breakdown& breakdown, Signals& signals) {
  if (!breakdown.has_steps) return;
  std::vector<double> waits;
  const Intervals& all = breakdown.all[static_cast<std::size_t>(Part::data_loading)];
  for (const Step& step : breakdown.steps)
    waits.push_back(static_cast<double>(length_within_ns(all, step.time)));
  const double sum = std::accumulate(waits.begin(), waits.end(), 0.0);
  const double usual = std::max(median(waits), 1000.0);
  std::vector<std::size_t> spikes;
  double in_spikes = 0;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (waits[i] <= kSpike * usual) continue;
    spikes.push_back(i);
    in_spikes += waits[i];
  }
  if (spikes.size() < 3) return;  // two distances at least
  const std::size_t period = spikes[1] - spikes[0];
  for (std::size_t i = 1; i < spikes.size(); ++i) {
    if (spikes[i] - spikes[i - 1] != period) return;
  }
  if (period < 2 || sum <= 0) return;
  signals["loading.wait_period_count"] = static_cast<double>(period);
  signals["loading.periodic_wait_ratio"] = in_spikes / steps_ns(breakdown);
}

}  // namespace

double steps_ns(const Breakdown& breakdown) {
  return std::max(1.0, breakdown.mean_step_ns() * static_cast<double>(breakdown.steps.size()));
}

Signals signals_of(const Known& known) {
  Signals signals;
  add_step_signals(known.breakdown, signals);
  add_wait_pattern(known.breakdown, signals);
  add_host_signals(known, signals);
  if (!known.launches.device_events.empty()) add_device_signals(known, signals);
  return signals;
}

}  // namespace autotuned::analysis
