// SPDX-License-Identifier: Apache-2.0
// Memory, input and communication as tables.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/profile_view/profile_tables.hpp"

namespace autotuned::daemon {

namespace {

using analysis::Communication;
using analysis::InputUse;
using analysis::Interval;
using analysis::MemoryDevice;
using analysis::MemoryRow;
using analysis::Occurrence;
using analysis::TraceProfile;

constexpr std::size_t kCurveColumns = 64;
// A rank that takes so much longer than the mean for its own work holds the others up.
constexpr double kStragglerShare = 0.05;

// From times that count from the beginning of the recording to those of the trace.
Interval on_the_clock(const TraceProfile& profile, std::optional<Interval> range) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (!range) return {std::numeric_limits<std::int64_t>::min(), kMax};
  const std::int64_t begin = profile.recorded.start_ns;
  const auto moved = [&](std::int64_t time_ns) {
    std::int64_t sum = 0;
    return __builtin_add_overflow(begin, time_ns, &sum) ? kMax : sum;
  };
  return {moved(range->start_ns), moved(range->end_ns)};
}

std::string range_words(std::optional<Interval> range) {
  if (!range) return {};
  return fmt::format(", from {} to {}", format_span(static_cast<double>(range->start_ns)),
                     format_span(static_cast<double>(range->end_ns)));
}

// The highest point of each stretch of time, as one block of eight heights.
std::string curve_line(const MemoryDevice& device, Interval time) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<std::int64_t> highest(kCurveColumns, -1);
  std::int64_t top = 1;
  std::int64_t before = 0;
  for (const traces::MemoryPoint& point : device.curve) {
    if (point.time_ns < time.start_ns) before = point.allocated_bytes;
    if (point.time_ns < time.start_ns || point.time_ns >= time.end_ns) continue;
    const double share =
        (static_cast<double>(point.time_ns) - static_cast<double>(time.start_ns)) /
        std::max(1.0, static_cast<double>(time.end_ns) - static_cast<double>(time.start_ns));
    const auto column = std::min(
        static_cast<std::size_t>(share * static_cast<double>(kCurveColumns)), kCurveColumns - 1);
    highest[column] = std::max(highest[column], point.allocated_bytes);
    top = std::max(top, point.allocated_bytes);
  }
  std::string line;
  for (std::int64_t value : highest) {
    if (value < 0) value = before;  // nothing changed
    before = value;
    const double share =
        static_cast<double>(std::max<std::int64_t>(value, 0)) / static_cast<double>(top);
    line += kBlocks[std::min<std::size_t>(static_cast<std::size_t>(share * 8), 7)];
  }
  return line;
}

Table occurrences_table(const char* id, const char* title, const char* what,
                        const std::vector<Occurrence>& rows, bool has_bytes) {
  Table table{.id = id,
              .title = title,
              .columns = {{"name", what, Unit::text},
                          {"calls", "calls", Unit::count},
                          {"total", "total", Unit::time},
                          {"mean", "mean", Unit::time},
                          {"max", "max", Unit::time}},
              .rows = {},
              .when_empty = "none"};
  if (has_bytes) {
    table.columns.push_back({"size", "size", Unit::bytes});
    table.columns.push_back({"gigabytes_per_second", "GB/s", Unit::number});
  }
  for (const Occurrence& row : rows) {
    const auto total = static_cast<double>(row.total_ns);
    table.rows.push_back({row.name, number_cell(row.calls), total,
                          total / static_cast<double>(row.calls), number_cell(row.max_ns)});
    if (!has_bytes) continue;
    table.rows.back().push_back(number_cell(row.bytes));
    table.rows.back().push_back(known_cell(row.total_ns > 0 && row.bytes > 0,
                                           static_cast<double>(row.bytes) / std::max(total, 1.0)));
  }
  return table;
}

// The time of a rank's own work: a rank that is early waits inside of communication.
double own_ns(const TraceProfile& rank) {
  const auto& breakdown = rank.summary.breakdown;
  return breakdown.mean_step_ns() - breakdown.mean_part_ns(analysis::Part::communication);
}

}  // namespace

Table memory_devices_table(const TraceProfile& profile) {
  Table table{
      .id = "memory_devices",
      .title = "memory",
      .columns = {{"device", "device", Unit::text},
                  {"peak", "most allocated", Unit::bytes},
                  {"peak_at", "at", Unit::time},
                  {"end", "at the end", Unit::bytes},
                  {"reserved_peak", "most reserved", Unit::bytes}},
      .rows = {},
      .when_empty = "memory was not recorded: torch.profiler does with profile_memory=True"};
  for (const MemoryDevice& device : profile.memory.devices) {
    const bool has_reserved = device.reserved.bytes > 0;
    table.rows.push_back(
        {device.name, number_cell(device.allocated.bytes),
         known_cell(device.allocated.bytes > 0,
                    static_cast<double>(device.allocated.time_ns - profile.recorded.start_ns)),
         number_cell(device.curve.back().allocated_bytes),
         known_cell(has_reserved, static_cast<double>(device.reserved.bytes))});
  }
  return table;
}

Table memory_operators_table(const TraceProfile& profile, std::optional<Interval> range) {
  Table table{.id = "memory",
              .title = "memory by operator",
              .columns = {{"name", "operator", Unit::text},
                          {"device", "device", Unit::text},
                          {"calls", "calls", Unit::count},
                          {"allocations", "allocations", Unit::count},
                          {"self_increase", "self increase", Unit::bytes},
                          {"increase", "increase", Unit::bytes},
                          {"self_allocated", "self allocated", Unit::bytes},
                          {"allocated", "allocated", Unit::bytes}},
              .rows = {},
              .when_empty = "no memory was taken or given back in this time"};
  table.title += range_words(range);
  for (const MemoryRow& row :
       analysis::memory_table(profile.memory, on_the_clock(profile, range))) {
    table.rows.push_back({row.name, profile.memory.devices[row.device].name, number_cell(row.calls),
                          number_cell(row.allocations), number_cell(row.self_increase_bytes),
                          number_cell(row.increase_bytes), number_cell(row.self_allocated_bytes),
                          number_cell(row.allocated_bytes)});
  }
  return table;
}

Table memory_blocks_table(const TraceProfile& profile, std::optional<Interval> range) {
  constexpr std::size_t kMax = 1'000;
  Table table{.id = "memory_blocks",
              .title = "largest allocations" + range_words(range),
              .columns = {{"name", "operator", Unit::text},
                          {"device", "device", Unit::text},
                          {"size", "size", Unit::bytes},
                          {"taken_at", "taken at", Unit::time},
                          {"released_at", "given back at", Unit::time},
                          {"held", "held for", Unit::time}},
              .rows = {},
              .when_empty = "no memory was taken in this time"};
  const analysis::MemoryUse& memory = profile.memory;
  for (const analysis::MemoryBlock& block :
       analysis::memory_blocks(memory, on_the_clock(profile, range), kMax)) {
    const bool is_released = block.released_ns.has_value();
    const std::int64_t released_ns = block.released_ns.value_or(0);
    table.rows.push_back(
        {block.call == analysis::kNoNode ? std::string("(no operator)")
                                         : memory.names[memory.calls[block.call].name],
         memory.devices[block.device].name, number_cell(block.bytes),
         number_cell(block.taken_ns - profile.recorded.start_ns),
         known_cell(is_released, static_cast<double>(released_ns - profile.recorded.start_ns)),
         known_cell(is_released, static_cast<double>(released_ns - block.taken_ns))});
  }
  return table;
}

std::vector<std::string> memory_curves(const TraceProfile& profile, std::optional<Interval> range) {
  std::vector<std::string> lines;
  const Interval time = range ? on_the_clock(profile, range) : profile.recorded;
  for (const MemoryDevice& device : profile.memory.devices)
    lines.push_back(fmt::format("{:<6} {}", device.name, curve_line(device, time)));
  return lines;
}

std::vector<std::string> input_facts(const TraceProfile& profile) {
  const InputUse& input = profile.input;
  if (input.waits.empty()) {
    return {"no loader was recorded: what takes its place is in the part Other of the step"};
  }
  const bool is_inside = input.loader.find("SingleProcess") != std::string::npos;
  std::vector<std::string> lines = {
      fmt::format("loader: {}{}", printable(input.loader),
                  is_inside ? ", in the training process itself" : ""),
      fmt::format("batches waited for: {}; mean {}, median {}, longest {}; {:.1f} % of the steps",
                  input.waits.size(), format_span(input.mean_wait_ns),
                  format_span(static_cast<double>(input.median_wait_ns)),
                  format_span(static_cast<double>(input.longest_wait_ns)),
                  100 * input.waiting_ratio)};
  if (input.period > 0) {
    lines.push_back(
        fmt::format("a long wait every {} batches: usually the number of workers: each worker is "
                    "too slow",
                    input.period));
  }
  return lines;
}

std::vector<Table> input_tables(const TraceProfile& profile) {
  const InputUse& input = profile.input;
  Table waits{.id = "waits",
              .title = "waits for the loader",
              .columns = {{"step", "step", Unit::text},
                          {"at", "at", Unit::time},
                          {"wait", "wait", Unit::time}},
              .rows = {},
              .when_empty = "none"};
  for (const analysis::LoaderWait& wait : input.waits) {
    waits.rows.push_back({wait.step.empty() ? std::string("-") : wait.step,
                          number_cell(wait.time.start_ns - profile.recorded.start_ns),
                          number_cell(wait.time.length_ns())});
  }
  if (!sort_by(waits, "wait")) waits.rows.clear();
  std::vector<Table> tables = {
      std::move(waits),
      occurrences_table("loading_operators", "operators called while loading", "operator",
                        input.inside, false),
      occurrences_table("annotations", "annotations, on all threads", "annotation",
                        input.annotations, false)};
  if (!profile.summary.devices.empty() || !input.copies.empty()) {
    tables.push_back(
        occurrences_table("copies", "copies between host and devices", "copy", input.copies, true));
  }
  return tables;
}

Table ranks_table(const std::vector<TraceProfile>& ranks) {
  Table table{.id = "ranks",
              .title = "ranks",
              .columns = {{"rank", "rank", Unit::text},
                          {"step", "step", Unit::time},
                          {"own", "without communication", Unit::time},
                          {"computation", "computation", Unit::ratio},
                          {"communication", "communication", Unit::ratio},
                          {"exposed", "of it exposed", Unit::ratio},
                          {"overlapped", "overlapped", Unit::ratio},
                          {"loading", "DataLoader", Unit::ratio}},
              .rows = {},
              .when_empty = {}};
  for (const TraceProfile& rank : ranks) {
    const Communication& one = rank.communication;
    const auto window = static_cast<double>(std::max<std::int64_t>(one.window_ns, 1));
    const auto all = static_cast<double>(one.communication_ns);
    const auto share_of_all = [&](std::int64_t ns) {
      return known_cell(all > 0, static_cast<double>(ns) / std::max(all, 1.0));
    };
    table.rows.push_back({std::to_string(rank.summary.rank), rank.summary.breakdown.mean_step_ns(),
                          own_ns(rank), static_cast<double>(one.computation_ns) / window,
                          all / window, share_of_all(one.exposed_ns()),
                          share_of_all(one.overlapped_ns),
                          rank.summary.breakdown.ratio_of(analysis::Part::data_loading)});
  }
  return table;
}

Table collectives_table(const std::vector<TraceProfile>& ranks) {
  constexpr std::size_t kSize = 3;  // the column
  Table table{.id = "collectives",
              .title = "collective operations, mean of a rank",
              .columns = {{"name", "operation", Unit::text},
                          {"collective", "collective", Unit::text},
                          {"calls", "calls", Unit::count},
                          {"size", "size", Unit::bytes},
                          {"size_per_call", "size of a call", Unit::bytes},
                          {"total", "total", Unit::time},
                          {"transfer", "transfer", Unit::time},
                          {"waiting", "waiting for others", Unit::time}},
              .rows = {},
              .when_empty = "no collective operations were recorded"};
  std::vector<const Communication*> all;
  all.reserve(ranks.size());
  for (const TraceProfile& rank : ranks)
    all.push_back(&rank.communication);
  for (const analysis::CollectiveRow& row : analysis::collective_table(all)) {
    table.rows.push_back({row.name, row.what, number_cell(row.calls), Cell(), Cell(),
                          number_cell(row.total_ns), number_cell(row.transfer_ns),
                          number_cell(row.waiting_ns)});
    if (!row.bytes) continue;
    std::vector<Cell>& cells = table.rows.back();
    cells[kSize] = number_cell(*row.bytes);
    cells[kSize + 1] = static_cast<double>(*row.bytes) / static_cast<double>(row.calls);
  }
  return table;
}

std::vector<std::string> straggler_facts(const std::vector<TraceProfile>& ranks) {
  if (ranks.size() < 2) {
    return {"one rank only: give the traces of all ranks to see who waits for whom"};
  }
  const auto slowest = std::ranges::max_element(ranks, {}, own_ns);
  double mean = 0;
  for (const TraceProfile& rank : ranks)
    mean += own_ns(rank) / static_cast<double>(ranks.size());
  const double excess = mean > 0 ? own_ns(*slowest) / mean - 1 : 0;
  if (excess < kStragglerShare) return {"no straggler: all ranks take about as long"};
  return {
      fmt::format("rank {} takes {:.1f} % longer than the mean for its own work: the others wait "
                  "for it",
                  slowest->summary.rank, 100 * excess)};
}

}  // namespace autotuned::daemon
