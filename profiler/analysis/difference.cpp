// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/difference.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace autotuned::analysis {
namespace {

double steps_of(const std::vector<TraceAnalysis>& ranks) {
  double steps = 0;
  for (const TraceAnalysis& rank : ranks)
    steps += static_cast<double>(rank.breakdown.steps.size());
  return std::max(steps, 1.0);
}

class Changes {
 public:
  void add_before(const std::string& name, double ns, double calls) {
    Change& change = changes_[name];
    change.before_ns += ns;
    change.before_calls += calls;
  }
  void add_after(const std::string& name, double ns, double calls) {
    Change& change = changes_[name];
    change.after_ns += ns;
    change.after_calls += calls;
  }
  [[nodiscard]] std::vector<Change> sorted() const {
    std::vector<Change> list;
    for (const auto& [name, change] : changes_) {
      list.push_back(change);
      list.back().name = name;
    }
    std::ranges::stable_sort(list, std::greater{},
                             [](const Change& change) { return std::abs(change.change_ns()); });
    return list;
  }

 private:
  std::map<std::string, Change> changes_;
};

double self_ns(const OperatorRow& row) {
  return static_cast<double>(row.host_self_ns) + static_cast<double>(row.device_self_ns);
}

}  // namespace

Difference difference_of(const std::vector<TraceAnalysis>& before,
                         const std::vector<TraceAnalysis>& after) {
  const Overall all_before = overall_of(before);
  const Overall all_after = overall_of(after);
  const double steps_before = steps_of(before);
  const double steps_after = steps_of(after);
  Changes parts;
  for (std::size_t part = 0; part < kParts; ++part) {
    const std::string name = to_string(static_cast<Part>(part));
    parts.add_before(name, all_before.part_ns[part], 0);
    parts.add_after(name, all_after.part_ns[part], 0);
  }
  Changes operators;
  for (const OperatorRow& row : all_before.operators) {
    operators.add_before(row.name, self_ns(row) / steps_before,
                         static_cast<double>(row.calls) / steps_before);
  }
  for (const OperatorRow& row : all_after.operators) {
    operators.add_after(row.name, self_ns(row) / steps_after,
                        static_cast<double>(row.calls) / steps_after);
  }
  Changes kernels;
  for (const KernelRow& row : all_before.kernels) {
    kernels.add_before(row.name, static_cast<double>(row.total_ns) / steps_before,
                       static_cast<double>(row.calls) / steps_before);
  }
  for (const KernelRow& row : all_after.kernels) {
    kernels.add_after(row.name, static_cast<double>(row.total_ns) / steps_after,
                      static_cast<double>(row.calls) / steps_after);
  }
  return {.before_step_ns = all_before.step_ns,
          .after_step_ns = all_after.step_ns,
          .parts = parts.sorted(),
          .operators = operators.sorted(),
          .kernels = kernels.sorted()};
}

}  // namespace autotuned::analysis
