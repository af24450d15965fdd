// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/events/input.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>

namespace autotuned::analysis {
namespace {

using traces::EventKind;
using traces::Events;
using traces::NameId;
using traces::Trace;

// A long wait is at least so many times the median, and lasts at least so long.
constexpr std::int64_t kLongFactor = 4;
constexpr std::int64_t kLongAtLeastNs = 1'000'000;
constexpr std::size_t kFewestLongWaits = 3;
// This share of the distances between long waits must be equal.
constexpr double kRhythmShare = 0.8;

class Occurrences {
 public:
  explicit Occurrences(const Trace& trace) : trace_(trace) {}

  void add(Row row, std::int64_t bytes = 0) {
    const Events& events = trace_.events;
    Occurrence& one = by_name_[events.name[row]];
    ++one.calls;
    one.total_ns += events.length_ns[row];
    one.max_ns = std::max(one.max_ns, events.length_ns[row]);
    one.bytes = bounded_sum(one.bytes, bytes);
  }

  [[nodiscard]] std::vector<Occurrence> table() const {
    std::vector<Occurrence> rows;
    for (const auto& [name, one] : by_name_) {
      rows.push_back(one);
      rows.back().name = trace_.names.text(name);
    }
    std::ranges::sort(rows, std::greater{},
                      [](const Occurrence& one) { return std::pair(one.total_ns, one.name); });
    return rows;
  }

 private:
  const Trace& trace_;
  std::unordered_map<NameId, Occurrence> by_name_;
};

std::string loader_name(const std::string& event) {
  const std::size_t begin = event.find('#');
  const std::size_t end = event.find('.', begin == std::string::npos ? 0 : begin);
  if (begin == std::string::npos) return event;
  return event.substr(begin + 1, end == std::string::npos ? end : end - begin - 1);
}

std::string step_at(const Breakdown& breakdown, std::int64_t time_ns) {
  if (!breakdown.has_steps) return {};
  const auto after = std::ranges::upper_bound(breakdown.steps, time_ns, {},
                                              [](const Step& step) { return step.time.start_ns; });
  if (after == breakdown.steps.begin()) return {};
  const Step& step = *std::prev(after);
  return time_ns < step.time.end_ns ? step.name : std::string();
}

}  // namespace

Intervals loader_waits(const Trace& trace) {
  const Events& events = trace.events;
  Intervals waits;
  for (Row row = 0; row < events.size(); ++row) {
    if (events.kind[row] != EventKind::data_loading) continue;
    waits.push_back({events.start_ns[row], events.end_ns(row)});
  }
  std::ranges::stable_sort(waits, {}, &Interval::start_ns);
  return waits;
}

Rhythm rhythm_of(const Intervals& waits) {
  if (waits.empty()) return {};
  std::vector<std::int64_t> sorted;
  for (const Interval& wait : waits)
    sorted.push_back(wait.length_ns());
  std::ranges::sort(sorted);
  // The lower median, because with two workers every other wait is long.
  const std::int64_t median = sorted[(sorted.size() - 1) / 2];
  const std::int64_t least = std::max(median, kLongAtLeastNs / kLongFactor);
  Rhythm rhythm;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (waits[i].length_ns() / kLongFactor >= least) rhythm.long_waits.push_back(i);
  }
  if (rhythm.long_waits.size() < kFewestLongWaits) return {};
  std::map<std::int64_t, std::size_t> distances;
  for (std::size_t i = 1; i < rhythm.long_waits.size(); ++i)
    ++distances[static_cast<std::int64_t>(rhythm.long_waits[i] - rhythm.long_waits[i - 1])];
  const auto commonest =
      std::ranges::max_element(distances, {}, [](const auto& distance) { return distance.second; });
  const double share =
      static_cast<double>(commonest->second) / static_cast<double>(rhythm.long_waits.size() - 1);
  if (share < kRhythmShare || commonest->first < 2) return {};
  rhythm.period = commonest->first;
  return rhythm;
}

InputUse input_use(const Trace& trace, const std::vector<CallNode>& nodes,
                   const Breakdown& breakdown) {
  const Events& events = trace.events;
  InputUse use;
  Occurrences annotations(trace);
  Occurrences copies(trace);
  for (Row row = 0; row < events.size(); ++row) {
    const EventKind kind = events.kind[row];
    if (kind == EventKind::data_loading) {
      if (use.loader.empty()) use.loader = loader_name(trace.name_of(row));
    } else if (kind == EventKind::annotation) {
      annotations.add(row);
    } else if (kind == EventKind::copy) {
      copies.add(row, trace.details[events.detail[row]].bytes);
    }
  }
  use.annotations = annotations.table();
  use.copies = copies.table();

  Occurrences inside(trace);
  std::vector<bool> is_loading(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool is_below = nodes[i].parent != kNoNode && is_loading[nodes[i].parent];
    is_loading[i] = is_below || events.kind[nodes[i].row] == EventKind::data_loading;
    if (!is_below || nodes[i].stands_for_it != i) continue;
    // Only the topmost operators, so that no time counts twice.
    const bool is_operator = events.kind[nodes[i].row] == EventKind::cpu_operator;
    const bool is_topmost = events.kind[nodes[nodes[i].parent].row] != EventKind::cpu_operator;
    if (is_operator && is_topmost) inside.add(nodes[i].row);
  }
  use.inside = inside.table();

  const Intervals waits = loader_waits(trace);
  if (waits.empty()) return use;
  std::vector<std::int64_t> lengths;
  for (const Interval& wait : waits) {
    use.waits.push_back({wait, step_at(breakdown, wait.start_ns)});
    lengths.push_back(wait.length_ns());
    use.mean_wait_ns += static_cast<double>(wait.length_ns());
  }
  use.mean_wait_ns /= static_cast<double>(lengths.size());
  use.period = rhythm_of(waits).period;
  std::ranges::sort(lengths);
  use.median_wait_ns = lengths[lengths.size() / 2];
  use.longest_wait_ns = lengths.back();
  std::int64_t waiting_ns = 0;
  std::int64_t steps_ns = 0;
  for (const Step& step : breakdown.steps) {
    waiting_ns +=
        length_within_ns(breakdown.all[static_cast<std::size_t>(Part::data_loading)], step.time);
    steps_ns += step.time.length_ns();
  }
  if (steps_ns > 0)
    use.waiting_ratio = static_cast<double>(waiting_ns) / static_cast<double>(steps_ns);
  return use;
}

}  // namespace autotuned::analysis
