// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/difference.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

namespace autotuned::analysis {
namespace {

double steps_of(const std::vector<TraceProfile>& ranks) {
  double steps = 0;
  for (const TraceProfile& rank : ranks)
    steps += static_cast<double>(rank.summary.breakdown.steps.size());
  return std::max(steps, 1.0);
}

// The time and calls of one side of the comparison, by name.
struct Amount {
  double ns = 0;
  double calls = 0;
};
using Amounts = std::map<std::string, Amount>;

void add(Amounts& amounts, const std::string& name, double ns, double calls) {
  Amount& amount = amounts[name];
  amount.ns += ns;
  amount.calls += calls;
}

std::vector<TimeChange> changes_of(const Amounts& before, const Amounts& after) {
  std::map<std::string, TimeChange> changes;
  for (const auto& [name, amount] : before) {
    changes[name].before_ns = amount.ns;
    changes[name].before_calls = amount.calls;
  }
  for (const auto& [name, amount] : after) {
    changes[name].after_ns = amount.ns;
    changes[name].after_calls = amount.calls;
  }
  std::vector<TimeChange> list;
  for (auto& [name, change] : changes) {
    change.name = name;
    list.push_back(std::move(change));
  }
  std::ranges::stable_sort(list, std::greater{},
                           [](const TimeChange& change) { return std::abs(change.change_ns()); });
  return list;
}

double sum_of(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) + static_cast<double>(b);
}

Amounts parts_of(const Overall& all) {
  Amounts parts;
  for (std::size_t part = 0; part < kParts; ++part)
    add(parts, to_string(static_cast<Part>(part)), all.part_ns[part], 0);
  return parts;
}

Amounts operators_of(const Overall& all, double steps) {
  Amounts operators;
  for (const OperatorRow& row : all.operators) {
    add(operators, row.name, sum_of(row.host_self_ns, row.device_self_ns) / steps,
        static_cast<double>(row.calls) / steps);
  }
  return operators;
}

Amounts kernels_of(const Overall& all, double steps) {
  Amounts kernels;
  for (const KernelRow& row : all.kernels) {
    add(kernels, row.name, static_cast<double>(row.total_ns) / steps,
        static_cast<double>(row.calls) / steps);
  }
  return kernels;
}

Amounts modules_of(const std::vector<TraceProfile>& ranks, double steps) {
  Amounts modules;
  for (const TraceProfile& rank : ranks) {
    for (const ModuleRow& row : rank.modules.rows) {
      const double ns = sum_of(row.own.forward_host_ns, row.own.backward_host_ns) +
                        sum_of(row.own.forward_device_ns, row.own.backward_device_ns);
      add(modules, row.path, ns / steps, static_cast<double>(row.calls) / steps);
    }
  }
  return modules;
}

Amounts input_of(const std::vector<TraceProfile>& ranks, double steps) {
  Amounts input;
  for (const TraceProfile& rank : ranks) {
    for (const LoaderWait& wait : rank.input.waits) {
      add(input, "waiting for a batch", static_cast<double>(wait.time.length_ns()) / steps,
          1 / steps);
    }
    for (const auto* list : {&rank.input.annotations, &rank.input.copies}) {
      for (const Occurrence& one : *list) {
        add(input, one.name, static_cast<double>(one.total_ns) / steps,
            static_cast<double>(one.calls) / steps);
      }
    }
  }
  return input;
}

std::map<std::string, double> memory_of(const std::vector<TraceProfile>& ranks, double steps) {
  std::map<std::string, double> bytes;
  const auto count = static_cast<double>(ranks.size());
  for (const TraceProfile& rank : ranks) {
    for (const MemoryDevice& device : rank.memory.devices)
      bytes["peak of " + device.name] += static_cast<double>(device.allocated.bytes) / count;
    for (const MemoryRow& row : memory_table(rank.memory, rank.recorded)) {
      const std::string& device = rank.memory.devices[row.device].name;
      bytes[row.name + " on " + device] += static_cast<double>(row.self_allocated_bytes) / steps;
    }
  }
  return bytes;
}

std::vector<SizeChange> size_changes_of(const std::map<std::string, double>& before,
                                        const std::map<std::string, double>& after) {
  std::map<std::string, SizeChange> changes;
  for (const auto& [name, bytes] : before)
    changes[name].before_bytes = bytes;
  for (const auto& [name, bytes] : after)
    changes[name].after_bytes = bytes;
  std::vector<SizeChange> list;
  for (auto& [name, change] : changes) {
    if (change.before_bytes == 0 && change.after_bytes == 0) continue;
    change.name = name;
    list.push_back(std::move(change));
  }
  std::ranges::stable_sort(list, std::greater{}, [](const SizeChange& change) {
    return std::abs(change.change_bytes());
  });
  return list;
}

}  // namespace

Difference difference_of(const std::vector<TraceProfile>& before,
                         const std::vector<TraceProfile>& after) {
  const Overall all_before = overall_of(before);
  const Overall all_after = overall_of(after);
  const double steps_before = steps_of(before);
  const double steps_after = steps_of(after);
  return {
      .before_step_ns = all_before.step_ns,
      .after_step_ns = all_after.step_ns,
      .parts = changes_of(parts_of(all_before), parts_of(all_after)),
      .operators =
          changes_of(operators_of(all_before, steps_before), operators_of(all_after, steps_after)),
      .kernels =
          changes_of(kernels_of(all_before, steps_before), kernels_of(all_after, steps_after)),
      .modules = changes_of(modules_of(before, steps_before), modules_of(after, steps_after)),
      .input = changes_of(input_of(before, steps_before), input_of(after, steps_after)),
      .memory = size_changes_of(memory_of(before, steps_before), memory_of(after, steps_after))};
}

}  // namespace autotuned::analysis
