// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/finding_modules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>

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

}  // namespace

void name_modules(const traces::Trace& trace, const Stretches& stretches,
                  std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    const auto known =
        std::ranges::find(kRuleOperators, std::string_view(finding.rule->id), &RuleOperators::rule);
    if (known == kRuleOperators.end()) continue;
    const ModuleShare share = largest_share(trace, stretches, known->is_meant);
    if (share.module == traces::kNoDetail) continue;
    // A trace is data of others, and this goes to a terminal.
    std::string path = trace.names.text(share.module);
    std::ranges::replace_if(
        path, [](unsigned char byte) { return byte < 0x20 || byte == 0x7F; }, '?');
    finding.where = fmt::format("{:.0f} % of that in {}", 100 * share.ratio, path);
    finding.evidence += "; " + finding.where;
  }
}

}  // namespace autotuned::analysis
