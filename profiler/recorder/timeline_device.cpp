// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/timeline_device.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include "base/text.hpp"

namespace autotuned::profiler {
namespace {

// The scopes of the spans `backward`, by start.
std::vector<ScopeId> backward_spans(const std::vector<SpanRecord>& spans) {
  std::vector<ScopeId> found;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (std::string_view(spans[i].name) == span::kBackward) found.push_back(scope_of_span(i));
  }
  std::ranges::sort(found, {}, [&](ScopeId id) { return spans[id - 1].start_ns; });
  return found;
}

}  // namespace

void place_backward_work(DeviceTimeline& timeline, const std::vector<SpanRecord>& spans,
                         std::int64_t training_thread) {
  const std::vector<ScopeId> backward = backward_spans(spans);
  if (backward.empty()) return;
  // The spans do not overlap, so only the last one that began can still be open.
  const auto span_at = [&](std::int64_t time_ns) -> ScopeId {
    const auto after = std::ranges::upper_bound(backward, time_ns, {},
                                                [&](ScopeId id) { return spans[id - 1].start_ns; });
    if (after == backward.begin()) return 0;
    const ScopeId span = *std::prev(after);
    return time_ns <= spans[span - 1].end_ns ? span : 0;
  };
  std::unordered_map<std::uint32_t, ScopeId> span_of_call;
  for (HostCall& call : timeline.calls) {
    if (call.span != 0 || call.thread == training_thread) continue;
    call.span = span_at(call.start_ns);
    if (call.span != 0 && call.correlation != 0) span_of_call.emplace(call.correlation, call.span);
  }
  const auto place = [&](auto& events) {
    for (auto& event : events) {
      if (event.span != 0) continue;
      const auto found = span_of_call.find(event.correlation);
      if (found != span_of_call.end()) event.span = found->second;
    }
  };
  place(timeline.kernels);
  place(timeline.copies);
  place(timeline.fills);
  place(timeline.waits);
}

void add(DeviceLosses& to, const DeviceLosses& more) {
  constexpr std::size_t kMaxDamage = 8;
  to.dropped += more.dropped;
  to.over_limit += more.over_limit;
  to.untimed += more.untimed;
  to.before_launch += more.before_launch;
  to.without_call += more.without_call;
  to.damaged_buffers += more.damaged_buffers;
  for (const std::string& damage : more.damage) {
    if (to.damage.size() < kMaxDamage) to.damage.push_back(damage);
  }
}

std::vector<std::string> to_sentences(const DeviceLosses& losses) {
  std::vector<std::string> sentences;
  const auto add = [&](std::int64_t count, const char* one, const char* many) {
    if (count > 0) {
      sentences.push_back(count == 1 ? std::string("1 ") + one : format_count(count) + " " + many);
    }
  };
  add(losses.dropped, "record of the GPU was lost: CUPTI had no buffer for it",
      "records of the GPU were lost: CUPTI had no buffer for them");
  add(losses.over_limit, "record of the GPU was left out: the recording was full",
      "records of the GPU were left out: the recording was full");
  add(losses.untimed, "record of the GPU has no usable time and was left out",
      "records of the GPU have no usable time and were left out");
  add(losses.before_launch,
      "event of the GPU began before the call that launched it: clocks differ",
      "events of the GPU began before the calls that launched them: clocks differ");
  add(losses.without_call, "event of the GPU belongs to no recorded call",
      "events of the GPU belong to no recorded call");
  add(losses.damaged_buffers, "buffer of CUPTI was damaged, what comes after in it is missing",
      "buffers of CUPTI were damaged, what comes after in them is missing");
  sentences.insert(sentences.end(), losses.damage.begin(), losses.damage.end());
  return sentences;
}

}  // namespace autotuned::profiler
