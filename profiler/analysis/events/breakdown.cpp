// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/events/breakdown.hpp"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cstdint>
#include <limits>
#include <unordered_set>

#include "profiler/traces/classification.hpp"

namespace autotuned::analysis {
namespace {

using traces::EventKind;
using traces::Events;
using traces::Trace;

// A last step with less than this share of the device work of the step before was cut off.
constexpr double kFinishedShare = 0.8;

Interval interval_of(const Events& events, std::size_t row) {
  return {events.start_ns[row], events.end_ns(row)};
}

// The stretch of the host's events, or of all events if the host has none.
Interval whole(const Events& events) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  Interval host{kMax, -kMax};
  Interval any{kMax, -kMax};
  const auto widen = [](Interval& to, const Interval& by) {
    to = {std::min(to.start_ns, by.start_ns), std::max(to.end_ns, by.end_ns)};
  };
  for (std::size_t row = 0; row < events.size(); ++row) {
    widen(any, interval_of(events, row));
    if (events.kind[row] == EventKind::cpu_operator) widen(host, interval_of(events, row));
  }
  return host.start_ns <= host.end_ns ? host : any;
}

std::vector<Step> marked_steps(const Trace& trace) {
  std::vector<Step> steps;
  for (std::size_t row = 0; row < trace.events.size(); ++row) {
    if (trace.events.kind[row] != EventKind::step) continue;
    const std::string& name = trace.name_of(row);
    steps.push_back({name.substr(name.find('#') + 1), interval_of(trace.events, row), {}, {}});
  }
  std::ranges::stable_sort(steps, {}, [](const Step& step) { return step.time.start_ns; });
  return steps;
}

// Whether there were steps between the two that were not recorded: the profiler counts every step.
bool is_apart(const std::string& before, const std::string& after) {
  std::int64_t first = 0;
  std::int64_t second = 0;
  const auto is_number = [](const std::string& text, std::int64_t& number) {
    const char* end = text.data() + text.size();
    return !text.empty() && std::from_chars(text.data(), end, number).ptr == end;
  };
  return is_number(before, first) && is_number(after, second) && second != first &&
         (first == std::numeric_limits<std::int64_t>::max() || second != first + 1);
}

Stretches stretches_of(const std::vector<Step>& steps) {
  Intervals set;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (i == 0 || is_apart(steps[i - 1].name, steps[i].name)) {
      set.push_back(steps[i].time);
    } else {
      set.back().end_ns = steps[i].time.end_ns;
    }
  }
  return Stretches(merged(std::move(set)));
}

// The work that calls inside a step launched.
struct StepWork {
  std::int64_t first_start_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_end_ns = std::numeric_limits<std::int64_t>::min();
  std::int64_t events = 0;
};

// Steps do not overlap on the host, so a call lies within at most one.
std::ptrdiff_t step_of(const std::vector<Step>& steps, const Interval& call) {
  const auto after = std::ranges::upper_bound(steps, call.start_ns, {},
                                              [](const Step& step) { return step.time.start_ns; });
  if (after == steps.begin()) return -1;
  const auto step = std::prev(after);
  return call.end_ns <= step->time.end_ns ? step - steps.begin() : -1;
}

void follow_the_device(Breakdown& breakdown, const Events& events, const Launches& launches) {
  std::vector<Step>& steps = breakdown.steps;
  std::vector<StepWork> work(steps.size());
  std::vector<const DeviceEvent*> outside;
  for (const DeviceEvent& event : launches.device_events) {
    const std::ptrdiff_t index =
        event.launch == kNoRow ? -1 : step_of(steps, interval_of(events, event.launch));
    if (index < 0) {
      outside.push_back(&event);
      continue;
    }
    StepWork& one = work[static_cast<std::size_t>(index)];
    one.first_start_ns = std::min(one.first_start_ns, events.start_ns[event.row]);
    one.last_end_ns = std::max(one.last_end_ns, events.end_ns(event.row));
    ++one.events;
  }
  if (std::ranges::all_of(work, [](const StepWork& one) { return one.events == 0; })) return;

  // Work from before the first step may still run when it begins.
  std::int64_t previous_end_ns = steps.front().time.start_ns;
  for (const DeviceEvent* event : outside) {
    const std::int64_t end_ns = events.end_ns(event->row);
    if (work.front().events > 0 && end_ns < work.front().first_start_ns) {
      previous_end_ns = std::max(previous_end_ns, end_ns);
    }
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Interval& time = steps[i].time;
    time.start_ns = std::max(time.start_ns, previous_end_ns);
    if (work[i].events > 0) time.end_ns = std::max(time.end_ns, work[i].last_end_ns);
    time.end_ns = std::max(time.end_ns, time.start_ns);
    previous_end_ns = time.end_ns;
  }

  std::size_t kept = steps.size();
  while (kept > 1 && work[kept - 1].events == 0)
    --kept;
  const auto count = [&](std::size_t i) { return static_cast<double>(work[i].events); };
  if (kept > 1 && count(kept - 1) < kFinishedShare * count(kept - 2)) --kept;
  breakdown.unfinished_steps = static_cast<int>(steps.size() - kept);
  steps.resize(kept);
}

// Divides the time of Part::cpu of every step among the phases.
void split_cpu(Breakdown& breakdown, const Trace& trace, const Intervals& cpu) {
  const std::array<Intervals, kCpuPhases> phases = cpu_phases(trace);
  for (Step& step : breakdown.steps) {
    step.cpu_phase_ns[static_cast<std::size_t>(CpuPhase::elsewhere)] =
        step.part_ns[static_cast<std::size_t>(Part::cpu)];
  }
  for (std::size_t phase = 0; phase < kCpuPhases; ++phase) {
    if (phases[phase].empty()) continue;
    breakdown.has_cpu_phases = true;
    const Intervals claimed = intersection(cpu, phases[phase]);
    for (Step& step : breakdown.steps) {
      const std::int64_t ns = length_within_ns(claimed, step.time);
      step.cpu_phase_ns[phase] += ns;
      step.cpu_phase_ns[static_cast<std::size_t>(CpuPhase::elsewhere)] -= ns;
    }
  }
}

Part part_of(const Events& events, std::size_t row, const std::vector<bool>& is_communication) {
  switch (events.kind[row]) {
    case EventKind::kernel:
      return is_communication[row] ? Part::communication : Part::kernel;
    case EventKind::copy:
      return Part::copy;
    case EventKind::fill:
      return Part::fill;
    case EventKind::communication:
      return Part::communication;
    case EventKind::runtime_call:
      return Part::runtime;
    case EventKind::data_loading:
      return Part::data_loading;
    case EventKind::cpu_operator:
      return Part::cpu;
    case EventKind::annotation:
    case EventKind::step:
    case EventKind::overhead:
    case EventKind::module:
      break;
  }
  return Part::other;
}

}  // namespace

const char* to_string(Part part) {
  constexpr std::array kNames = {"Kernel",  "Memcpy",     "Memset",   "Communication",
                                 "Runtime", "DataLoader", "CPU Exec", "Other"};
  return kNames[static_cast<std::size_t>(part)];
}

std::vector<bool> communication_rows(const Trace& trace) {
  std::vector<bool> is_communication_name(trace.names.size());
  for (traces::NameId id = 0; id < trace.names.size(); ++id) {
    is_communication_name[id] = traces::is_device_collective(trace.names.text(id));
  }
  const Events& events = trace.events;
  std::unordered_set<std::int64_t> operators;
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (events.kind[row] == EventKind::communication && events.external_id[row] > 0) {
      operators.insert(events.external_id[row]);
    }
  }
  std::vector<bool> rows(events.size());
  for (std::size_t row = 0; row < events.size(); ++row) {
    rows[row] =
        events.kind[row] == EventKind::kernel &&
        (is_communication_name[events.name[row]] || operators.contains(events.external_id[row]));
  }
  return rows;
}

Breakdown breakdown_of(const Trace& trace, const Launches& launches) {
  assert(trace.events.size() > 0);
  const Events& events = trace.events;
  Breakdown breakdown;
  breakdown.steps = marked_steps(trace);
  breakdown.has_steps = !breakdown.steps.empty();
  if (!breakdown.has_steps) breakdown.steps.push_back({"0", whole(events), {}, {}});
  // Steps of several threads, or with clocks that jumped, may overlap. No moment may belong to two steps.
  for (std::size_t i = 1; i < breakdown.steps.size(); ++i) {
    Interval& time = breakdown.steps[i].time;
    time.start_ns = std::max(time.start_ns, breakdown.steps[i - 1].time.end_ns);
    time.end_ns = std::max(time.end_ns, time.start_ns);
  }
  breakdown.on_host = stretches_of(breakdown.steps);
  follow_the_device(breakdown, events, launches);
  breakdown.stretches = stretches_of(breakdown.steps);

  const std::vector<bool> is_communication = communication_rows(trace);
  for (std::size_t row = 0; row < events.size(); ++row) {
    const Part part = part_of(events, row, is_communication);
    if (part != Part::other) {
      breakdown.all[static_cast<std::size_t>(part)].push_back(interval_of(events, row));
    }
  }
  for (Intervals& part : breakdown.all)
    part = merged(std::move(part));
  // Without a device, operators overlap with communication.
  if (launches.device_events.empty()) {
    Intervals& communication = breakdown.all[static_cast<std::size_t>(Part::communication)];
    communication = difference(communication, breakdown.all[static_cast<std::size_t>(Part::cpu)]);
  }

  Intervals free;
  for (const Step& step : breakdown.steps)
    free.push_back(step.time);
  free = merged(std::move(free));
  for (std::size_t part = 0; part < kParts; ++part) {
    const bool is_last = part + 1 == kParts;
    const Intervals claimed = is_last ? free : intersection(free, breakdown.all[part]);
    for (Step& step : breakdown.steps)
      step.part_ns[part] = length_within_ns(claimed, step.time);
    if (static_cast<Part>(part) == Part::cpu) split_cpu(breakdown, trace, claimed);
    if (!is_last) free = difference(free, claimed);
  }
  return breakdown;
}

double Breakdown::mean_step_ns() const {
  double sum = 0;
  for (const Step& step : steps)
    sum += static_cast<double>(step.time.length_ns());
  return sum / static_cast<double>(steps.size());
}

double Breakdown::mean_part_ns(Part part) const {
  double sum = 0;
  for (const Step& step : steps)
    sum += static_cast<double>(step.part_ns[static_cast<std::size_t>(part)]);
  return sum / static_cast<double>(steps.size());
}

double Breakdown::mean_phase_ns(CpuPhase phase) const {
  double sum = 0;
  for (const Step& step : steps)
    sum += static_cast<double>(step.cpu_phase_ns[static_cast<std::size_t>(phase)]);
  return sum / static_cast<double>(steps.size());
}

double Breakdown::ratio_of(Part part) const {
  const double step_ns = mean_step_ns();
  return step_ns > 0 ? mean_part_ns(part) / step_ns : 0.0;
}

}  // namespace autotuned::analysis
