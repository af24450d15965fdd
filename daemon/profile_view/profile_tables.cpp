// SPDX-License-Identifier: Apache-2.0
#include "daemon/profile_view/profile_tables.hpp"

#include <algorithm>

namespace autotuned::daemon {

namespace {

using analysis::KernelRow;
using analysis::ModuleRow;
using analysis::ModuleTime;
using analysis::OperatorRow;
using analysis::OperatorsBy;
using analysis::TraceProfile;

Cell known(const std::optional<double>& value, double factor = 1.0) {
  return known_cell(value.has_value(), value.value_or(0) * factor);
}

// The host time of forward and backward pass.
double host_ns(const ModuleTime& time) {
  return static_cast<double>(time.forward_host_ns) + static_cast<double>(time.backward_host_ns);
}
double device_ns(const ModuleTime& time) {
  return static_cast<double>(time.forward_device_ns) + static_cast<double>(time.backward_device_ns);
}

std::vector<Cell> module_cells(const std::string& name, std::int64_t calls, const ModuleTime& total,
                               const ModuleTime& own, bool has_device, double all_ns) {
  std::vector<Cell> cells = {name, known_cell(calls > 0, static_cast<double>(calls)),
                             number_cell(total.forward_host_ns),
                             number_cell(total.backward_host_ns), host_ns(own)};
  if (has_device) {
    cells.insert(cells.end(), {number_cell(total.forward_device_ns),
                               number_cell(total.backward_device_ns), device_ns(own)});
  }
  const double whole = has_device ? device_ns(total) : host_ns(total);
  cells.push_back(known_cell(all_ns > 0, whole / std::max(all_ns, 1.0)));
  return cells;
}

const char* title_of(OperatorsBy by) {
  switch (by) {
    case OperatorsBy::shapes:
      return "operators by shapes of their inputs";
    case OperatorsBy::stacks:
      return "operators by call stack";
    case OperatorsBy::name:
      break;
  }
  return "operators";
}

const char* how_to_record(OperatorsBy by) {
  switch (by) {
    case OperatorsBy::shapes:
      return "no shapes were recorded: torch.profiler does with record_shapes=True";
    case OperatorsBy::stacks:
      return "no call stacks were recorded: torch.profiler does with with_stack=True";
    case OperatorsBy::name:
      break;
  }
  return "no operators were recorded";
}

}  // namespace

// Not inlined: otherwise GCC 12 warns that the text of an unknown cell is not initialised.
[[gnu::noinline]] Cell known_cell(bool is_known, double value) {
  if (!is_known) return {};
  return value;
}

Table operators_table(const std::vector<OperatorRow>& rows, OperatorsBy by) {
  Table table{.id = "operators",
              .title = title_of(by),
              .columns = {{"name", "operator", Unit::text},
                          {"calls", "calls", Unit::count},
                          {"host_self", "host self", Unit::time},
                          {"host_total", "host total", Unit::time}},
              .rows = {},
              .when_empty = how_to_record(by)};
  const bool has_device =
      std::ranges::any_of(rows, [](const OperatorRow& row) { return row.device_total_ns > 0; });
  if (has_device) {
    table.columns.push_back({"device_self", "device self", Unit::time});
    table.columns.push_back({"device_total", "device total", Unit::time});
  }
  const bool has_flop =
      std::ranges::any_of(rows, [](const OperatorRow& row) { return row.flop > 0; });
  if (has_flop) {
    table.columns.push_back({"gflop", "GFLOP", Unit::number});
    table.columns.push_back({"gflop_per_second", "GFLOP/s", Unit::number});
  }
  if (by == OperatorsBy::shapes) {
    table.columns.push_back({"shapes", "shapes of the inputs", Unit::text});
  } else if (by == OperatorsBy::stacks) {
    table.columns.push_back({"stack", "call stack", Unit::text});
  }
  for (const OperatorRow& row : rows) {
    table.rows.push_back({row.name, number_cell(row.calls), number_cell(row.host_self_ns),
                          number_cell(row.host_total_ns)});
    if (has_device) {
      table.rows.back().push_back(number_cell(row.device_self_ns));
      table.rows.back().push_back(number_cell(row.device_total_ns));
    }
    if (has_flop) {
      // Where it runs on a device, the time that counts is there.
      const std::int64_t ns = row.device_total_ns > 0 ? row.device_total_ns : row.host_total_ns;
      table.rows.back().push_back(known_cell(row.flop > 0, row.flop / 1e9));
      table.rows.back().push_back(known_cell(
          row.flop > 0 && ns > 0, row.flop / static_cast<double>(std::max<std::int64_t>(ns, 1))));
    }
    if (by != OperatorsBy::name) {
      table.rows.back().emplace_back(by == OperatorsBy::shapes ? row.shapes : row.stack);
    }
  }
  return table;
}

Table kernels_table(const std::vector<KernelRow>& rows) {
  Table table{.id = "kernels",
              .title = "kernels",
              .columns = {{"name", "kernel", Unit::text},
                          {"calls", "calls", Unit::count},
                          {"total", "total", Unit::time},
                          {"mean", "mean", Unit::time},
                          {"min", "min", Unit::time},
                          {"max", "max", Unit::time},
                          {"tensor_cores", "tensor cores", Unit::text},
                          {"blocks_per_sm", "blocks per SM", Unit::number},
                          {"occupancy", "est. occupancy", Unit::ratio}},
              .rows = {},
              .when_empty = "no kernels: nothing ran on a GPU"};
  for (const KernelRow& row : rows) {
    table.rows.push_back({row.name, number_cell(row.calls), number_cell(row.total_ns),
                          static_cast<double>(row.total_ns) / static_cast<double>(row.calls),
                          number_cell(row.min_ns), number_cell(row.max_ns),
                          std::string(analysis::to_string(row.tensor_cores)),
                          known(row.blocks_per_sm), known(row.occupancy_percent, 0.01)});
  }
  return table;
}

Table modules_table(const TraceProfile& profile, bool by_path) {
  const analysis::ModuleTable& modules = profile.modules;
  Table table{
      .id = "modules",
      .title = "modules",
      .columns = {{"module", "module", Unit::text},
                  {"calls", "calls", Unit::count},
                  {"forward_host", "forward host", Unit::time},
                  {"backward_host", "backward host", Unit::time},
                  {"own_host", "own host", Unit::time}},
      .rows = {},
      .when_empty = "no modules were recorded: torch.profiler records them with with_stack=True"};
  double all_device_ns = device_ns(modules.outside);
  double all_host_ns = host_ns(modules.outside);
  for (const ModuleRow& row : modules.rows) {
    all_device_ns += device_ns(row.own);
    all_host_ns += host_ns(row.own);
  }
  const bool has_device = all_device_ns > 0;
  if (has_device) {
    table.columns.insert(table.columns.end(), {{"forward_device", "forward device", Unit::time},
                                               {"backward_device", "backward device", Unit::time},
                                               {"own_device", "own device", Unit::time}});
  }
  table.columns.push_back({"share", "share", Unit::ratio});
  if (modules.rows.empty()) return table;
  const double all_ns = has_device ? all_device_ns : all_host_ns;
  for (const ModuleRow& row : modules.rows) {
    const std::string name =
        by_path ? row.path : std::string(2 * static_cast<std::size_t>(row.depth), ' ') + row.name;
    table.rows.push_back(module_cells(name, row.calls, row.total, row.own, has_device, all_ns));
  }
  table.rows.push_back(module_cells("(outside of modules)", 0, modules.outside, modules.outside,
                                    has_device, all_ns));
  return table;
}

Table timelines_table(const TraceProfile& profile) {
  Table table{.id = "timelines",
              .title = "threads and streams",
              .columns = {{"name", "timeline", Unit::text},
                          {"events", "events", Unit::count},
                          {"busy", "busy", Unit::time},
                          {"busy_share", "share of the steps", Unit::ratio},
                          {"longest_gap", "longest gap", Unit::time},
                          {"gap_at", "gap at", Unit::time}},
              .rows = {},
              .when_empty = "no threads were recorded"};
  for (const analysis::TimelineRow& row : profile.timelines.rows) {
    const bool has_gap = row.longest_gap.length_ns() > 0;
    table.rows.push_back(
        {row.name, number_cell(row.events), number_cell(row.busy_ns), row.busy_ratio,
         known_cell(has_gap, static_cast<double>(row.longest_gap.length_ns())),
         known_cell(has_gap,
                    static_cast<double>(row.longest_gap.start_ns - profile.recorded.start_ns))});
  }
  return table;
}

Table gaps_table(const TraceProfile& profile) {
  Table table{.id = "gaps",
              .title = "longest gaps, and what the host did meanwhile",
              .columns = {{"name", "timeline", Unit::text},
                          {"gap_at", "at", Unit::time},
                          {"gap", "gap", Unit::time},
                          {"meanwhile", "meanwhile", Unit::text},
                          {"meanwhile_share", "of the gap", Unit::ratio}},
              .rows = {},
              .when_empty = "no gaps"};
  for (const analysis::GapRow& gap : profile.timelines.gaps) {
    table.rows.push_back({profile.timelines.rows[gap.timeline].name,
                          number_cell(gap.time.start_ns - profile.recorded.start_ns),
                          number_cell(gap.time.length_ns()), gap.meanwhile, gap.meanwhile_ratio});
  }
  return table;
}

}  // namespace autotuned::daemon
