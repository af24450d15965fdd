// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/timeline_trace.hpp"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "profiler/recorder/timeline_device_trace.hpp"

namespace autotuned::profiler {
namespace {

using traces::TraceWriter;

// The key of the module in the arguments of operators, if modules were recorded, and of annotations of modules.
constexpr const char* kModule = "Module Hierarchy";

// Replaces the name of a step that is not complete, so that it does not count as one.
constexpr const char* kStepInPart = "step that was recorded in part";

bool is_step(const SpanRecord& span) {
  return std::string_view(span.name) == span::kStep;
}

// Returns the time until which the events of the training threads are complete.
std::int64_t whole_until_ns(const RecordedSteps& stretch, std::int64_t training_thread) {
  std::int64_t until_ns = std::numeric_limits<std::int64_t>::max();
  if (stretch.timeline.lost_events == 0) return until_ns;
  bool has_any = false;
  for (const ThreadTimeline& thread : stretch.timeline.threads) {
    const bool is_training = thread.thread == training_thread ||
                             std::ranges::find(thread.events, TimelineKind::backward,
                                               &TimelineEvent::kind) != thread.events.end();
    if (!is_training || thread.events.empty()) continue;
    has_any = true;
    until_ns = std::min(until_ns, thread.events.back().start_ns);
  }
  return has_any ? until_ns : std::numeric_limits<std::int64_t>::min();
}

class RecordingWriter {
 public:
  RecordingWriter(Recording& recording, std::int64_t offset_ns, TraceWriter writer)
      : recording_(recording), offset_ns_(offset_ns), writer_(std::move(writer)) {}

  Result<traces::WrittenTrace> write() {
    name_threads();
    count_whole_steps();
    DeviceLosses losses;
    for (std::size_t i = 0; i < recording_.stretches.size(); ++i) {
      RecordedSteps& stretch = recording_.stretches[i];
      numbers_ = {};
      write_spans(stretch, whole_until_ns_[i]);
      const std::vector<BackwardLink> links = charge_backward(stretch.timeline);
      for (const ThreadTimeline& thread : stretch.timeline.threads)
        write_thread(stretch.timeline, thread);
      write_exchanges(stretch.timeline);
      write_links(stretch.timeline, links);
      place_backward_work(stretch.device, stretch.spans, recording_.training_thread);
      write_device_timeline(writer_, stretch.device, numbers_, offset_ns_);
      add(losses, stretch.device.losses);
    }
    for (const ThreadSpan& span : recording_.loading) {
      begin("user_annotation", span.name, span.thread, span.start_ns, span.end_ns);
    }
    std::vector<std::string> notes = recording_.notes;
    if (whole_steps_ < steps_) notes.push_back(whole_steps_text());
    for (std::string& loss : to_sentences(losses))
      notes.push_back(std::move(loss));
    return writer_.finish(recording_.end_ns + offset_ns_, recording_.lost_events, notes);
  }

 private:
  void name_threads() {
    std::map<std::int64_t, std::string> names;
    for (const ThreadSpan& span : recording_.loading) {
      if (span.thread != recording_.training_thread)
        names.try_emplace(span.thread, "loader worker");
    }
    for (const RecordedSteps& stretch : recording_.stretches) {
      for (const ExchangeEvent& exchange : stretch.timeline.exchanges)
        names.try_emplace(exchange.thread, "exchange of ranks");
      for (const ThreadTimeline& thread : stretch.timeline.threads) {
        if (thread.thread != recording_.training_thread)
          names.try_emplace(thread.thread, "autograd");
      }
    }
    const auto numbered = [](std::int64_t thread, const std::string& name) {
      return "thread " + std::to_string(thread) + " (" + name + ")";
    };
    int place = 0;
    writer_.name_thread(recording_.training_thread,
                        numbered(recording_.training_thread, "training"), place);
    for (const auto& [thread, name] : names)
      writer_.name_thread(thread, numbered(thread, name), ++place);
  }

  void begin(std::string_view category, std::string_view name, std::int64_t thread,
             std::int64_t start_ns, std::int64_t end_ns) {
    writer_.begin_event(category, name, thread, start_ns + offset_ns_, end_ns - start_ns);
    writer_.argument("External id", ++events_);
    writer_.argument("Ev Idx", events_ - 1);
  }

  // Other steps lack operators, whose time would seem to be spent on something else.
  void count_whole_steps() {
    for (const RecordedSteps& stretch : recording_.stretches) {
      const std::int64_t until_ns = whole_until_ns(stretch, recording_.training_thread);
      for (const SpanRecord& span : stretch.spans) {
        if (!is_step(span)) continue;
        ++steps_;
        if (span.end_ns <= until_ns) ++whole_steps_;
      }
      whole_until_ns_.push_back(until_ns);
    }
  }

  // If no step is complete, all are kept.
  [[nodiscard]] bool is_in_part(const SpanRecord& span, std::int64_t until_ns) const {
    return whole_steps_ > 0 && is_step(span) && span.end_ns > until_ns;
  }

  [[nodiscard]] std::string whole_steps_text() const {
    if (whole_steps_ == 0) {
      return "no step was recorded completely, so the times of operators are too low";
    }
    return std::to_string(whole_steps_) + " of " + std::to_string(steps_) +
           " steps were recorded completely, and only these count";
  }

  void write_spans(const RecordedSteps& stretch, std::int64_t until_ns) {
    std::int64_t step = stretch.first_step;
    for (const SpanRecord& span : stretch.spans) {
      const std::string name = is_in_part(span, until_ns)
                                   ? kStepInPart
                                   : span_name_in_trace(span.name, step, recording_);
      begin("user_annotation", name, recording_.training_thread, span.start_ns, span.end_ns);
      const bool has_parent = span.parent >= 0;
      numbers_.spans.push_back(
          {.number = events_,
           .name = name,
           .parent = has_parent ? scope_of_span(static_cast<std::size_t>(span.parent)) : 0});
      if (is_step(span)) ++step;
    }
  }

  void write_thread(const Timeline& timeline, const ThreadTimeline& thread) {
    std::vector<std::int64_t>& numbers = numbers_.operators.emplace_back();
    for (const TimelineEvent& event : thread.events) {
      const bool has_module = event.module != kNone;
      if (event.kind == TimelineKind::module) {
        numbers.push_back(0);  // calls are charged to operators
        if (!has_module) continue;
        begin("user_annotation", timeline.modules[event.module], thread.thread, event.start_ns,
              event.end_ns);
      } else {
        begin("cpu_op", thread.names[event.name], thread.thread, event.start_ns, event.end_ns);
        numbers.push_back(events_);
        if (event.sequence >= 0) {
          writer_.argument("Sequence number", event.sequence);
          writer_.argument("Fwd thread id", static_cast<std::int64_t>(event.forward_thread));
        }
      }
      if (has_module) writer_.argument(kModule, timeline.modules[event.module]);
      if (event.inputs != kNone) {
        if (const auto& values = thread.inputs[event.inputs].values; !values.empty())
          writer_.argument_json("Concrete Inputs", values);
        writer_.argument_json("Input Dims", thread.inputs[event.inputs].sizes);
        writer_.argument_json("Input type", thread.inputs[event.inputs].types);
      }
    }
    for (const MemoryEvent& event : thread.memory) {
      writer_.memory_change({.time_ns = event.time_ns + offset_ns_,
                             .address = event.address,
                             .bytes = event.bytes,
                             .allocated_bytes = event.allocated_bytes,
                             .reserved_bytes = event.reserved_bytes,
                             .device_type = event.device_type,
                             .device = event.device},
                            thread.thread);
    }
  }

  void write_exchanges(const Timeline& timeline) {
    for (const ExchangeEvent& exchange : timeline.exchanges) {
      begin("user_annotation", exchange.name, exchange.thread, exchange.start_ns, exchange.end_ns);
      if (exchange.inputs.sizes.empty()) continue;
      writer_.argument_json("Input Dims", exchange.inputs.sizes);
      writer_.argument_json("Input type", exchange.inputs.types);
    }
  }

  void write_links(const Timeline& timeline, const std::vector<BackwardLink>& links) {
    for (const auto& [forward, backward] : links) {
      const ThreadTimeline& from = timeline.threads[forward.thread];
      const ThreadTimeline& to = timeline.threads[backward.thread];
      writer_.link_forward_to_backward(++links_, from.thread,
                                       from.events[forward.event].start_ns + offset_ns_, to.thread,
                                       to.events[backward.event].start_ns + offset_ns_);
    }
  }

  Recording& recording_;
  std::int64_t offset_ns_;
  TraceWriter writer_;
  ScopeNumbers numbers_;                      // numbers of the current stretch
  std::vector<std::int64_t> whole_until_ns_;  // time for each stretch
  std::int64_t steps_ = 0;
  std::int64_t whole_steps_ = 0;
  std::int64_t events_ = 0;
  std::int64_t links_ = 0;
};

std::int64_t clock_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

std::string span_name_in_trace(const std::string& span, std::int64_t step,
                               const Recording& recording) {
  if (span == span::kStep) return "ProfilerStep#" + std::to_string(step);
  if (span == span::kDataWait) {
    return recording.has_loader_workers
               ? "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
               : "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
  }
  if (span == span::kOptimizer) return "Optimizer.step#" + recording.optimizer + ".step";
  if (span == span::kZeroGrad) return "Optimizer.zero_grad#" + recording.optimizer + ".zero_grad";
  return span;
}

std::int64_t unix_offset_ns() {
  return clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
}

Result<traces::WrittenTrace> write_recording(Recording& recording, std::int64_t unix_offset_ns,
                                             const std::filesystem::path& file) {
  auto writer =
      TraceWriter::create(file, {.process = ::getpid(),
                                 .process_name = "autotuned-trainer",
                                 .start_ns = recording.start_ns + unix_offset_ns,
                                 .has_shapes = recording.has_shapes,
                                 .has_memory = recording.has_memory,
                                 .cpus = recording.cpus,
                                 .rank = recording.rank,
                                 .world_size = recording.ranks,
                                 .backend = "gloo",
                                 .devices_json = device_properties_json(recording.devices)});
  if (!writer) return tl::unexpected(writer.error());
  return RecordingWriter(recording, unix_offset_ns, std::move(*writer)).write();
}

}  // namespace autotuned::profiler
