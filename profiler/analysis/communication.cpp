// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/communication.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "profiler/analysis/breakdown.hpp"
#include "profiler/analysis/launches.hpp"

namespace autotuned::analysis {

using traces::EventKind;
using traces::Events;

Communication communication_of(const traces::Trace& trace, const Stretches& stretches) {
  const Events& events = trace.events;
  const std::vector<bool> is_communication = communication_rows(trace);
  const bool has_kernels =
      std::ranges::any_of(events.kind, [](EventKind kind) { return kind == EventKind::kernel; });
  Intervals computing;
  Intervals communicating;
  std::vector<Row> rows;
  for (Row row = 0; row < events.size(); ++row) {
    const EventKind kind = events.kind[row];
    const Interval time{events.start_ns[row], events.end_ns(row)};
    if (stretches.length_within_ns(time) <= 0) continue;
    const bool is_exchange = has_kernels ? is_communication[row] : kind == EventKind::communication;
    const bool is_work = kind == (has_kernels ? EventKind::kernel : EventKind::cpu_operator);
    if (is_exchange) {
      communicating.push_back(time);
      rows.push_back(row);
    } else if (is_work) {
      computing.push_back(time);
    }
  }
  std::ranges::stable_sort(rows, {}, [&](Row row) { return events.start_ns[row]; });
  computing = intersection(merged(std::move(computing)), stretches.intervals());
  communicating = intersection(merged(std::move(communicating)), stretches.intervals());
  Communication result{.window_ns = stretches.length_ns(),
                       .computation_ns = length_ns(computing),
                       .communication_ns = length_ns(communicating),
                       .overlapped_ns = length_ns(intersection(computing, communicating)),
                       .operations = {}};
  for (const Row row : rows)
    result.operations.push_back({trace.name_of(row), events.length_ns[row]});
  return result;
}

std::vector<CollectiveRow> collective_table(const std::vector<const Communication*>& ranks) {
  std::map<std::string, std::vector<std::vector<std::int64_t>>> lengths;  // by name and rank
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const Collective& one : ranks[rank]->operations) {
      auto& of_ranks = lengths[one.name];
      of_ranks.resize(ranks.size());
      of_ranks[rank].push_back(one.length_ns);
    }
  }
  std::vector<CollectiveRow> table;
  for (const auto& [name, of_ranks] : lengths) {
    CollectiveRow row{.name = name};
    const bool is_alike = std::ranges::all_of(
        of_ranks, [&](const auto& own) { return own.size() == of_ranks.front().size(); });
    for (const auto& own : of_ranks) {
      row.calls = std::max(row.calls, static_cast<std::int64_t>(own.size()));
      for (std::size_t i = 0; i < own.size(); ++i) {
        row.total_ns += own[i];
        if (!is_alike) continue;
        std::int64_t least = own[i];
        for (const auto& other : of_ranks)
          least = std::min(least, other[i]);
        row.waiting_ns += own[i] - least;
      }
    }
    const auto count = static_cast<std::int64_t>(ranks.size());
    row.total_ns /= count;
    row.waiting_ns /= count;
    row.transfer_ns = row.total_ns - row.waiting_ns;
    table.push_back(std::move(row));
  }
  std::ranges::stable_sort(table, std::greater{}, &CollectiveRow::total_ns);
  return table;
}

}  // namespace autotuned::analysis
