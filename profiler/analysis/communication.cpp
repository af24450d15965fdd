// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/communication.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>

#include "profiler/analysis/events/breakdown.hpp"
#include "profiler/analysis/events/call_tree.hpp"
#include "profiler/analysis/events/launches.hpp"

namespace autotuned::analysis {

using traces::EventKind;
using traces::Events;

namespace {

// Sizes come from the events themselves, or from the operator of the host with the same external id.
struct Sizes {
  std::unordered_map<Row, const traces::CollectiveSize*> of_row;
  std::unordered_map<std::int64_t, const traces::CollectiveSize*> of_id;

  [[nodiscard]] const traces::CollectiveSize* of(const Events& events, Row row) const {
    if (const auto own = of_row.find(row); own != of_row.end()) return own->second;
    const auto caller = of_id.find(events.external_id[row]);
    return caller == of_id.end() ? nullptr : caller->second;
  }
};

Sizes sizes_of(const traces::Trace& trace) {
  Sizes sizes;
  for (const traces::CollectiveSize& size : trace.collectives) {
    sizes.of_row[size.row] = &size;
    const std::int64_t id = trace.events.external_id[size.row];
    if (id > 0) sizes.of_id.try_emplace(id, &size);
  }
  return sizes;
}

}  // namespace

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
                       .operations = {},
                       .has_shapes = trace.has_input_types};
  const auto sizes = sizes_of(trace);
  for (const Row row : rows) {
    Collective& one = result.operations.emplace_back();
    one.name = trace.name_of(row);
    one.length_ns = events.length_ns[row];
    const traces::CollectiveSize* size = sizes.of(events, row);
    if (size == nullptr) continue;
    one.what = trace.names.text(size->name);
    one.bytes = size->bytes;
  }
  return result;
}

namespace {

// The calls of one row, by rank.
struct Calls {
  std::vector<std::vector<std::int64_t>> lengths_ns;
  std::vector<std::int64_t> bytes;
  std::vector<std::size_t> sized;  // calls whose size is known
};

// The most that a rank sends. A rank may send nothing at all: in a scatter only one rank sends.
std::optional<std::int64_t> bytes_of(const Calls& calls,
                                     const std::vector<const Communication*>& ranks) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const bool gives_nothing = calls.sized[rank] == 0 && ranks[rank]->has_shapes;
    if (calls.sized[rank] < calls.lengths_ns[rank].size() && !gives_nothing) return std::nullopt;
  }
  const std::int64_t most = *std::ranges::max_element(calls.bytes);
  return most > 0 ? std::optional(most) : std::nullopt;
}

}  // namespace

std::vector<CollectiveRow> collective_table(const std::vector<const Communication*>& ranks) {
  std::map<std::pair<std::string, std::string>, Calls> operations;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const Collective& one : ranks[rank]->operations) {
      Calls& calls = operations[{one.name, one.what}];
      calls.lengths_ns.resize(ranks.size());
      calls.lengths_ns[rank].push_back(one.length_ns);
      calls.bytes.resize(ranks.size());
      calls.bytes[rank] = bounded_sum(calls.bytes[rank], one.bytes);
      calls.sized.resize(ranks.size());
      calls.sized[rank] += one.bytes > 0 ? 1 : 0;
    }
  }
  std::vector<CollectiveRow> table;
  for (const auto& [name, operation] : operations) {
    const auto& of_ranks = operation.lengths_ns;
    CollectiveRow row{.name = name.first, .what = name.second, .bytes = bytes_of(operation, ranks)};
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
