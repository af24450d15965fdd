// SPDX-License-Identifier: Apache-2.0
// Signals of how samples are made: from the spans of the loading threads, if a trace has them, and from the activity of the training
// thread.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "profiler/analysis/events/call_tree.hpp"
#include "profiler/analysis/findings/signals.hpp"

namespace autotuned::analysis {
namespace {

using traces::EventKind;
using traces::Events;
using traces::NameId;
using traces::Trace;

constexpr std::int64_t kStarvedNs = 30'000'000;
// Several times the time that Python takes from one operator to the next during a recording.
constexpr std::int64_t kShortestResidualNs = 100'000;
constexpr std::size_t kFewestReads = 30;
// If the breakdown charges less than this to operators, their callers are not examined.
constexpr double kFewOperators = 0.05;

// The samples that a thread makes, one after the other: reading, decoding, transforms.
struct Making {
  double all_ns = 0;
  double read_ns = 0;
  double before_crop_ns = 0;  // in transforms that run before one that cuts
  bool has_crop = false;
  Intervals reads;
};

// The innermost annotations of threads that make samples, by thread and time.
std::map<std::uint32_t, std::vector<Row>> parts_of_threads(const Trace& trace) {
  const Events& events = trace.events;
  std::map<std::uint32_t, std::vector<Row>> threads;
  for (Row row = 0; row < events.size(); ++row) {
    if (events.kind[row] != EventKind::annotation) continue;
    const std::string& name = trace.name_of(row);
    if (name == "make_samples" || name == "read_sample") threads[events.thread[row]];
  }
  for (Row row = 0; row < events.size() && !threads.empty(); ++row) {
    if (events.kind[row] != EventKind::annotation) continue;
    const auto thread = threads.find(events.thread[row]);
    if (thread != threads.end()) thread->second.push_back(row);
  }
  for (auto& [thread, rows] : threads) {
    std::ranges::stable_sort(rows, [&](Row a, Row b) {
      return events.start_ns[a] != events.start_ns[b] ? events.start_ns[a] < events.start_ns[b]
                                                      : events.end_ns(a) > events.end_ns(b);
    });
    std::vector<Row> innermost;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const bool holds_next =
          i + 1 < rows.size() && events.end_ns(rows[i + 1]) <= events.end_ns(rows[i]);
      if (!holds_next) innermost.push_back(rows[i]);
    }
    rows = std::move(innermost);
  }
  return threads;
}

// A sample from a cache has only the last parts, or none. The next sample may be read from storage: its crop follows the last parts of the
// other, and does not belong to them.
bool begins_sample(std::string_view name) {
  return name == "read_sample" || name.starts_with("decode");
}

// A sample ends where another one begins, or at a part that it already has.
Making making_of(const AnalysisInput& input, const std::vector<Row>& parts) {
  const Events& events = input.trace.events;
  const Stretches& stretches = input.breakdown.stretches;
  Making making;
  std::unordered_set<NameId> of_sample;
  double transforms_ns = 0;
  for (const Row row : parts) {
    const double ns = inside_ns(events, row, stretches);
    if (ns <= 0) continue;
    const std::string& name = input.trace.name_of(row);
    making.all_ns += ns;
    if (name == "make_samples") continue;  // all parts were cached or not recorded
    if (begins_sample(name) || !of_sample.insert(events.name[row]).second) {
      of_sample = {events.name[row]};
      transforms_ns = 0;
    }
    if (name == "read_sample") {
      making.read_ns += ns;
      making.reads.push_back({events.start_ns[row], events.end_ns(row)});
    } else if (has(name, "crop")) {
      making.has_crop = true;
      making.before_crop_ns += transforms_ns;
      transforms_ns = 0;
    } else if (!name.starts_with("decode")) {
      transforms_ns += ns;
    }
  }
  return making;
}

// Returns how much longer the first third of all reads took than the last third. Files that were read before come from memory later.
void add_cold_reads(Intervals reads, Signals& signals) {
  if (reads.size() < kFewestReads) return;
  std::ranges::sort(reads, {}, &Interval::start_ns);
  const std::size_t third = reads.size() / 3;
  double first_ns = 0;
  double last_ns = 0;
  for (std::size_t i = 0; i < third; ++i) {
    first_ns += static_cast<double>(reads[i].length_ns());
    last_ns += static_cast<double>(reads[reads.size() - 1 - i].length_ns());
  }
  signals["loading.read_first_over_last"] = first_ns / std::max(1.0, last_ns);
}

void add_making_signals(const AnalysisInput& input, Signals& signals) {
  const auto threads = parts_of_threads(input.trace);
  if (threads.empty()) return;
  Making all;
  double hottest_ns = 0;
  for (const auto& [thread, parts] : threads) {
    Making own = making_of(input, parts);
    hottest_ns = std::max(hottest_ns, own.all_ns);
    all.all_ns += own.all_ns;
    all.read_ns += own.read_ns;
    all.before_crop_ns += own.before_crop_ns;
    all.has_crop = all.has_crop || own.has_crop;
    all.reads.insert(all.reads.end(), own.reads.begin(), own.reads.end());
  }
  if (all.all_ns <= 0) return;
  const auto count = static_cast<double>(threads.size());
  signals["loading.threads_count"] = count;
  signals["loading.read_share_ratio"] = all.read_ns / all.all_ns;
  if (all.has_crop) signals["loading.before_crop_share_ratio"] = all.before_crop_ns / all.all_ns;
  if (threads.size() > 1) signals["loading.hottest_over_mean"] = hottest_ns * count / all.all_ns;
  add_cold_reads(std::move(all.reads), signals);

  if (input.trace.cpus <= 0) return;
  const auto cpus = static_cast<double>(input.trace.cpus);
  const Stretches& stretches = input.breakdown.stretches;
  const double length_ns_of_all = std::max(1.0, static_cast<double>(stretches.length_ns()));
  const Intervals& waits = input.breakdown.all[static_cast<std::size_t>(Part::data_loading)];
  const double waiting =
      static_cast<double>(length_ns(intersection(waits, stretches.intervals()))) / length_ns_of_all;
  // More threads than cores do no more work at a time. Without the waits the same work would take less time.
  const double busy = std::min(all.all_ns / length_ns_of_all, cpus);
  const double needed = busy / std::max(0.01, 1 - waiting);
  signals["machine.cpus_count"] = cpus;
  signals["loading.cores_needed"] = needed;
  signals["loading.cores_needed_over_cores"] = needed / cpus;
  signals["loading.threads_per_core"] = count / cpus;
}

// Whether the event is a call of a module, or a part of the step that the program named.
bool is_part_of_training(const Trace& trace, Row row) {
  if (trace.events.kind[row] == EventKind::module) return true;
  if (trace.events.kind[row] != EventKind::annotation) return false;
  const std::string& name = trace.name_of(row);
  return name.starts_with("Optimizer.") || name == "forward" || name == "backward" ||
         name == "loss" || name == "loss_reading" || name == "transfer";
}

// Whether operators inside the event belong to training or to named loading.
bool is_accounted_for(const Trace& trace, Row row) {
  const EventKind kind = trace.events.kind[row];
  if (kind == EventKind::data_loading || kind == EventKind::communication ||
      is_part_of_training(trace, row)) {
    return true;
  }
  const std::string& name = trace.name_of(row);
  return kind == EventKind::cpu_operator &&
         (trace.events.is_backward[row] || name.starts_with("autograd::engine::") ||
          has(name, "DataParallel") || has(name, "loss") || name == "aten::item");
}

// Operators of the training thread that use no device and are outside of model, loss, backward pass, optimizer and loader: the program
// loads data itself, or transforms batches on the host.
void add_hidden_loading(const AnalysisInput& input, Signals& signals) {
  const Trace& trace = input.trace;
  const bool has_device = !input.launches.device_events.empty();
  if (!input.breakdown.has_steps || (!trace.has_modules && !has_device)) return;
  double& ratio = signals["loading.unnamed_operators_ratio"];
  if (input.breakdown.ratio_of(Part::cpu) < kFewOperators) return;
  std::unordered_set<std::uint32_t> training;
  for (Row row = 0; row < trace.events.size(); ++row) {
    if (trace.events.kind[row] == EventKind::step) training.insert(trace.events.thread[row]);
  }
  const std::vector<CallNode> nodes = call_tree(trace, input.launches, CallTreeOf::everything);
  std::vector<bool> is_known(nodes.size());
  Intervals hidden;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Row row = nodes[i].row;
    const std::uint32_t parent = nodes[i].parent;
    is_known[i] = (parent != kNoNode && is_known[parent]) || is_accounted_for(trace, row);
    if (is_known[i] || trace.events.kind[row] != EventKind::cpu_operator) continue;
    is_known[i] = true;  // operators inside belong to the event
    if (nodes[i].device_total_ns > 0 || !training.contains(trace.events.thread[row])) continue;
    hidden.push_back({trace.events.start_ns[row], trace.events.end_ns(row)});
  }
  Intervals of_device;
  for (const Part part : {Part::kernel, Part::copy, Part::fill}) {
    const Intervals& own = input.breakdown.all[static_cast<std::size_t>(part)];
    of_device.insert(of_device.end(), own.begin(), own.end());
  }
  const Intervals exposed =
      intersection(difference(merged(std::move(hidden)), merged(std::move(of_device))),
                   input.breakdown.stretches.intervals());
  ratio = static_cast<double>(length_ns(exposed)) / steps_ns(input.breakdown);
}

// Returns the share of a step outside of everything that has a name: parts of the step, modules, parts of training. The time of Python
// between two operators belongs to them. It is the median over the steps, because a single pause of the machine is not a property of the
// program.
double residual_ratio(const AnalysisInput& input) {
  Intervals named;
  for (const Intervals& part : input.breakdown.all)
    named.insert(named.end(), part.begin(), part.end());
  for (Row row = 0; row < input.trace.events.size(); ++row) {
    if (!is_part_of_training(input.trace, row)) continue;
    named.push_back({input.trace.events.start_ns[row], input.trace.events.end_ns(row)});
  }
  Intervals steps;
  for (const Step& step : input.breakdown.steps)
    steps.push_back(step.time);
  Intervals rest = difference(merged(std::move(steps)), merged(std::move(named)));
  std::erase_if(rest, [](const Interval& one) { return one.length_ns() < kShortestResidualNs; });
  std::vector<double> shares;
  for (const Step& step : input.breakdown.steps) {
    const auto length_ns = static_cast<double>(std::max<std::int64_t>(step.time.length_ns(), 1));
    shares.push_back(static_cast<double>(length_within_ns(rest, step.time)) / length_ns);
  }
  std::ranges::sort(shares);
  return (shares[(shares.size() - 1) / 2] + shares[shares.size() / 2]) / 2;
}

void add_wait_signals(const AnalysisInput& input, Signals& signals) {
  const Breakdown& breakdown = input.breakdown;
  const Intervals& waits = breakdown.all[static_cast<std::size_t>(Part::data_loading)];
  if (!breakdown.has_steps || waits.empty()) return;
  double starved = 0;
  for (const Step& step : breakdown.steps) {
    if (length_within_ns(waits, step.time) > kStarvedNs) ++starved;
  }
  signals["loading.starved_steps_share_ratio"] =
      starved / static_cast<double>(breakdown.steps.size());
  // The loader is known, so this is not loading.
  signals["step.residual_ratio"] = residual_ratio(input);
}

}  // namespace

void add_loading_signals(const AnalysisInput& input, Signals& signals) {
  add_wait_signals(input, signals);
  add_making_signals(input, signals);
  add_hidden_loading(input, signals);
}

}  // namespace autotuned::analysis
