// SPDX-License-Identifier: Apache-2.0
#include "daemon/profile_view/profile_difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/printable.hpp"
#include "base/text.hpp"

namespace autotuned::daemon {

namespace {

using analysis::TimeChange;
using analysis::TraceProfile;

std::string files_of(const std::vector<TraceProfile>& ranks) {
  const std::string more =
      ranks.size() > 1 ? fmt::format(" and {} more", ranks.size() - 1) : std::string();
  return printable(ranks.front().summary.file) + more;
}

// PyTorch names a module Class_3.
bool is_class_name(const std::string& name) {
  const std::size_t end = name.find_last_not_of("0123456789");
  return end != std::string::npos && end + 1 < name.size() && name[end] == '_' && end > 0 &&
         name[0] >= 'A' && name[0] <= 'Z';
}

bool has_class_names(const std::vector<TraceProfile>& ranks) {
  return std::ranges::any_of(ranks, [](const TraceProfile& rank) {
    return std::ranges::any_of(rank.modules.rows, is_class_name, &analysis::ModuleRow::name);
  });
}

// "33.3 % less", "446 x as much".
std::string more_text(double share) {
  const std::string text = change_share_text(std::abs(share));
  if (share < 0) return text + " less";
  return text.ends_with("%") ? text + " more" : text;
}

Table changes_table(const char* id, const char* title, const char* what,
                    const std::vector<TimeChange>& changes, bool has_calls) {
  Table table{.id = id,
              .title = title,
              .columns = {{"name", what, Unit::text},
                          {"before", "before", Unit::time},
                          {"after", "after", Unit::time},
                          {"change", "change", Unit::time},
                          {"change_share", "of before", Unit::change}},
              .rows = {},
              .when_empty = "none"};
  if (has_calls) {
    table.columns.push_back({"calls_before", "calls before", Unit::number});
    table.columns.push_back({"calls_after", "calls after", Unit::number});
  }
  for (const TimeChange& change : changes) {
    if (change.before_ns == 0 && change.after_ns == 0) continue;
    table.rows.push_back(
        {change.name, change.before_ns, change.after_ns, change.change_ns(),
         change.before_ns > 0 ? Cell(change.change_ns() / change.before_ns) : Cell()});
    if (!has_calls) continue;
    table.rows.back().emplace_back(change.before_calls);
    table.rows.back().emplace_back(change.after_calls);
  }
  return table;
}

Table memory_changes_table(const std::vector<analysis::SizeChange>& changes) {
  Table table{.id = "memory_changes",
              .title = "memory: peaks, and what operators take in a step",
              .columns = {{"name", "what", Unit::text},
                          {"before", "before", Unit::bytes},
                          {"after", "after", Unit::bytes},
                          {"change", "change", Unit::bytes},
                          {"change_share", "of before", Unit::change}},
              .rows = {},
              .when_empty = "none"};
  for (const analysis::SizeChange& change : changes) {
    table.rows.push_back(
        {change.name, change.before_bytes, change.after_bytes, change.change_bytes(),
         change.before_bytes > 0 ? Cell(change.change_bytes() / change.before_bytes) : Cell()});
  }
  return table;
}

}  // namespace

std::vector<std::string> difference_facts(const std::vector<TraceProfile>& before,
                                          const std::vector<TraceProfile>& after) {
  const analysis::Difference difference = analysis::difference_of(before, after);
  const double share = difference.before_step_ns > 0
                           ? difference.after_step_ns / difference.before_step_ns - 1
                           : 0.0;
  std::vector<std::string> facts = {fmt::format(
      "a step took {} in {} and takes {} in {}: {}", format_span(difference.before_step_ns),
      files_of(before), format_span(difference.after_step_ns), files_of(after), more_text(share))};
  if (!before.front().summary.breakdown.has_steps || !after.front().summary.breakdown.has_steps) {
    facts.emplace_back("one recording has no step marks and is counted as a single step");
  }
  if (has_class_names(before) || has_class_names(after)) {
    facts.emplace_back(
        "modules are named by their call path, as class and number: PyTorch's traces do not hold "
        "the names of attributes");
  }
  facts.emplace_back(
      "two recordings, each with a profiler in it: autotuned run measures which is faster");
  return facts;
}

std::vector<Table> difference_tables(const std::vector<TraceProfile>& before,
                                     const std::vector<TraceProfile>& after) {
  const analysis::Difference difference = analysis::difference_of(before, after);
  std::vector<Table> tables = {
      changes_table("part_changes", "parts of a step", "part", difference.parts, false),
      changes_table("operator_changes", "operators, self time in a step", "operator",
                    difference.operators, true)};
  if (!difference.kernels.empty()) {
    tables.push_back(changes_table("kernel_changes", "kernels, time in a step", "kernel",
                                   difference.kernels, true));
  }
  if (!difference.modules.empty()) {
    tables.push_back(changes_table("module_changes", "modules, own time in a step", "module",
                                   difference.modules, true));
  }
  if (!difference.input.empty()) {
    tables.push_back(changes_table("input_changes",
                                   "input: waits, annotations of all threads and copies in a step",
                                   "what", difference.input, true));
  }
  if (!difference.memory.empty()) tables.push_back(memory_changes_table(difference.memory));
  return tables;
}

}  // namespace autotuned::daemon
