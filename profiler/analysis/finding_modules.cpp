// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/finding_modules.hpp"

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

struct RuleOperators {
  std::string_view rule;
  bool (*is_meant)(const std::string& name);  // none of them calls another
};
constexpr std::array kRuleOperators = {
    RuleOperators{"gather_backward", profiler::is_gather},
    RuleOperators{"scalar_reads",
                  [](const std::string& name) { return name == "aten::_local_scalar_dense"; }},
    RuleOperators{"convolution_layout",
                  [](const std::string& name) {
                    return name == "aten::convolution" || name == "aten::convolution_backward";
                  }},
};

struct ModuleShare {
  NameId module = traces::kNoDetail;
  double ratio = 0;
};

ModuleShare largest_share(const traces::Trace& trace, const Stretches& stretches,
                          bool (*is_meant)(const std::string&)) {
  std::vector<bool> is_meant_name(trace.names.size());
  for (NameId id = 0; id < trace.names.size(); ++id)
    is_meant_name[id] = is_meant(trace.names.text(id));
  const Events& events = trace.events;
  std::map<NameId, double> ns_of;
  double all_ns = 0;
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (events.kind[row] != EventKind::cpu_operator || !is_meant_name[events.name[row]]) continue;
    const double ns = inside_ns(events, row, stretches);
    all_ns += ns;
    if (events.module[row] != traces::kNoDetail) ns_of[events.module[row]] += ns;
  }
  const auto largest =
      std::ranges::max_element(ns_of, {}, &std::pair<const NameId, double>::second);
  if (largest == ns_of.end() || all_ns <= 0) return {};
  return {largest->first, largest->second / all_ns};
}

void add_place(Finding& finding, const std::string& place) {
  finding.where += (finding.where.empty() ? "" : "; ") + place;
  finding.evidence += "; " + place;
}

// By thread, the moments in which a node of gather's backward runs.
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
  constexpr std::size_t kMost = 3;
  std::vector<std::pair<NameId, Waits>> longest(waits.begin(), waits.end());
  std::ranges::stable_sort(longest, std::greater{}, [](const auto& one) { return one.second.ns; });
  std::string text;
  for (std::size_t i = 0; i < std::min(longest.size(), kMost); ++i) {
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

void name_modules(const traces::Trace& trace, const Stretches& stretches,
                  std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    const auto known =
        std::ranges::find(kRuleOperators, std::string_view(finding.rule->id), &RuleOperators::rule);
    if (known == kRuleOperators.end()) continue;
    const ModuleShare share = largest_share(trace, stretches, known->is_meant);
    if (share.module == traces::kNoDetail) continue;
    add_place(finding, fmt::format("{:.0f} % of that in {}", 100 * share.ratio,
                                   printable(trace.names.text(share.module))));
  }
}

}  // namespace autotuned::analysis
