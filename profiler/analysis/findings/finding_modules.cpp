// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/findings/finding_modules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/printable.hpp"
#include "profiler/operators.hpp"

namespace autotuned::analysis {
namespace {

using traces::EventKind;
using traces::Events;
using traces::NameId;

struct SignalOperators {
  const char* signal;
  bool (*is_meant)(const std::string& name);  // none of them calls another
};
constexpr std::array kSignalOperators = {
    SignalOperators{"operators.gather_share_ratio", profiler::is_gather},
    SignalOperators{"operators.scalar_read_ratio",
                    [](const std::string& name) { return name == "aten::_local_scalar_dense"; }},
    SignalOperators{"operators.convolution_share_ratio",
                    [](const std::string& name) {
                      return name == "aten::convolution" || name == "aten::convolution_backward";
                    }},
};
constexpr std::size_t kNoSignal = kSignalOperators.size();

// The index into kSignalOperators, by the id of a name.
std::vector<std::size_t> signals_by_name(const traces::Trace& trace) {
  std::vector<std::size_t> signals(trace.names.size(), kNoSignal);
  for (NameId id = 0; id < trace.names.size(); ++id) {
    for (std::size_t i = 0; i < kSignalOperators.size(); ++i) {
      if (kSignalOperators[i].is_meant(trace.names.text(id))) signals[id] = i;
    }
  }
  return signals;
}

void add_place(Finding& finding, const std::string& place) {
  finding.where += (finding.where.empty() ? "" : "; ") + place;
  finding.evidence += "; " + place;
}

// The moments in which a node of gather's backward runs, by thread.
std::map<std::uint32_t, Stretches> gather_backward_times(const traces::Trace& trace) {
  const Events& events = trace.events;
  std::map<std::uint32_t, Intervals> times;
  for (std::size_t row = 0; row < events.size(); ++row) {
    const bool is_node = events.kind[row] == EventKind::cpu_operator &&
                         profiler::is_gather(trace.name_of(row)) &&
                         trace.name_of(row) != "aten::gather";
    if (is_node) times[events.thread[row]].push_back({events.start_ns[row], events.end_ns(row)});
  }
  std::map<std::uint32_t, Stretches> result;
  for (auto& [thread, of_thread] : times)
    result.emplace(thread, Stretches(merged(std::move(of_thread))));
  return result;
}

struct Waits {
  std::int64_t calls = 0;
  double ns = 0;
};

std::string text_of(const std::map<NameId, Waits>& waits, const traces::Trace& trace) {
  constexpr std::size_t kMax = 3;
  std::vector<std::pair<NameId, Waits>> longest(waits.begin(), waits.end());
  std::ranges::stable_sort(longest, std::greater{}, [](const auto& one) { return one.second.ns; });
  std::string text;
  for (std::size_t i = 0; i < std::min(longest.size(), kMax); ++i) {
    const auto& [name, wait] = longest[i];
    text += fmt::format("{}{} x {} ({})", i == 0 ? "" : ", ", wait.calls,
                        printable(trace.names.text(name)), signal_text("wait_ns", wait.ns));
  }
  return text;
}

}  // namespace

void name_waits(const traces::Trace& trace, const Launches& launches, const Stretches& stretches,
                std::vector<Finding>& findings) {
  const auto finding = std::ranges::find_if(findings, [](const Finding& one) {
    return std::string_view(one.rule->id) == "gather_backward";
  });
  if (finding == findings.end()) return;
  const std::map<std::uint32_t, Stretches> times = gather_backward_times(trace);
  const Events& events = trace.events;
  const auto is_inside = [&](Row call) {
    const auto thread = times.find(events.thread[call]);
    return thread != times.end() && thread->second.hold(events.start_ns[call]) &&
           stretches.hold(events.start_ns[call]);
  };
  std::map<NameId, Waits> waits;
  const auto add = [&](Row row) {
    Waits& one = waits[events.name[row]];
    ++one.calls;
    one.ns += static_cast<double>(events.length_ns[row]);
  };
  for (const Row call : launches.calls) {
    if (trace.name_of(call).find("Synchronize") != std::string::npos && is_inside(call)) add(call);
  }
  for (const DeviceEvent& event : launches.device_events) {
    const bool is_copy = events.kind[event.row] == EventKind::copy && event.launch != kNoRow;
    if (is_copy && is_inside(event.launch)) add(event.row);
  }
  if (!waits.empty()) add_place(*finding, "inside its backward: " + text_of(waits, trace));
}

SlowestModules places_of(const traces::Trace& trace, const Stretches& stretches) {
  const std::vector<std::size_t> signals = signals_by_name(trace);
  const Events& events = trace.events;
  std::array<std::map<NameId, double>, kSignalOperators.size()> ns_of_module;
  std::array<double, kSignalOperators.size()> all_ns{};
  for (std::size_t row = 0; row < events.size(); ++row) {
    const std::size_t signal = signals[events.name[row]];
    if (signal == kNoSignal || events.kind[row] != EventKind::cpu_operator) continue;
    const double ns = inside_ns(events, row, stretches);
    all_ns[signal] += ns;
    if (events.module[row] != traces::kNoDetail) ns_of_module[signal][events.module[row]] += ns;
  }
  SlowestModules places;
  for (std::size_t i = 0; i < kSignalOperators.size(); ++i) {
    const auto largest =
        std::ranges::max_element(ns_of_module[i], {}, &std::pair<const NameId, double>::second);
    if (largest == ns_of_module[i].end() || all_ns[i] <= 0) continue;
    places[kSignalOperators[i].signal] = {trace.names.text(largest->first),
                                          largest->second / all_ns[i]};
  }
  return places;
}

void name_modules(const SlowestModules& places, std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    const auto place = places.find(finding.rule->signal);
    if (place == places.end()) continue;
    add_place(finding, fmt::format("{:.0f} % of that in {}", 100 * place->second.share,
                                   printable(place->second.module)));
  }
}

}  // namespace autotuned::analysis
