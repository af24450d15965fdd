// SPDX-License-Identifier: Apache-2.0
// Recording a job's steps as a trace.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "profiler/recorder/cupti_collector.hpp"
#include "profiler/recorder/cupti_devices.hpp"
#include "profiler/recorder/cupti_library.hpp"
#include "profiler/recorder/cupti_occupancy.hpp"
#include "profiler/recorder/timeline_trace.hpp"
#include "profiler/recorder/torch_timeline.hpp"
#include "profiler/spans.hpp"
#include "trainer/feed/loading_scope.hpp"
#include "trainer/job/job_state.hpp"
#include "trainer/job/step_clock.hpp"

namespace autotuned::trainer {
namespace {

using profiler::now_ns;

constexpr std::size_t kSpansPerStep = 10;

std::string part_name(const input::Pipeline& pipeline, int part) {
  if (part == input::PartSpan::kReading) return "read_sample";
  if (part == input::PartSpan::kChunk) return "make_samples";
  const auto index = static_cast<std::size_t>(part);
  return index < pipeline.parts().size() ? pipeline.parts()[index] : "last_part";
}

}  // namespace

// One trace in the making.
class Job::State::Tracing {
 public:
  Tracing(State& job, const TraceRequest& request, const CancelCheck& is_cancelled)
      : job_(job),
        request_(request),
        is_cancelled_(is_cancelled),
        events_left_(request.most_events) {
    recording_.training_thread = ::gettid();
    recording_.optimizer = job.recipe_.optimizer.type;
    recording_.has_loader_workers = job.feed_->settings().workers > 0;
    recording_.has_shapes = request.shapes;
    recording_.has_memory = request.memory;
    recording_.cpus = job.cpus_allowed_;
    recording_.ranks = job.recipe_.train.ranks;
    recording_.rank = static_cast<int>(job.share().rank);
    if (job.device_.is_cuda()) open_gpu();
  }

  // Also after an error nobody goes on recording.
  ~Tracing() { (void)job_.feed_->take_spans(); }
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

  Result<void> record() {
    const Learner::PlainSteps plain(*job_.learner_);
    const LoadingScope loading(*job_.feed_);
    if (auto done = steps(request_.skip_first); !done) return done;
    for (std::int64_t cycle = 0; cycle < request_.repeat; ++cycle) {
      if (cycle > 0 && is_late()) break;
      if (auto done = steps(request_.wait); !done) return done;
      enable_gpu();
      {
        // Recorded and dropped, so that the one-time costs of recording are not in the trace.
        const profiler::TimelineRecorder dropped(options());
        if (auto done = steps(request_.warmup); !done) return done;
      }
      if (auto done = record_steps(); !done) return done;
    }
    return {};
  }

  Result<JobTrace> write() {
    if (request_.file.empty()) return JobTrace{.steps = steps_, .duration_ns = duration_ns_};
    if (gpu_ != nullptr) {
      for (const std::string& note : gpu_->notes())
        recording_.notes.push_back(note);
    }
    const auto written =
        profiler::write_recording(recording_, profiler::unix_offset_ns(), request_.file);
    if (!written) return tl::unexpected(written.error());
    return JobTrace{steps_,         written->events, recording_.lost_events,
                    written->bytes, duration_ns_,    recording_.notes};
  }

 private:
  profiler::TimelineOptions options() const {
    return {.records_shapes = request_.shapes,
            .records_memory = request_.memory,
            .most_events = events_left_};
  }

  // Without it the host's part is recorded as ever, and the trace says why it has no other.
  void open_gpu() {
    const auto cupti = profiler::open_cupti();
    if (!cupti) return do_without_gpu(cupti.error());
    auto opened = profiler::CuptiCollector::open(**cupti, {.most_records = request_.most_events});
    if (!opened) return do_without_gpu(opened.error());
    gpu_ = std::move(*opened);
    auto devices = profiler::read_cuda_devices();
    if (devices) {
      recording_.devices = std::move(*devices);
    } else {
      recording_.notes.push_back("how large the GPU is could not be read: " +
                                 devices.error().message());
    }
  }

  // Before the warm-up, which takes what it costs the first time.
  void enable_gpu() {
    if (gpu_ == nullptr) return;
    if (const auto enabled = gpu_->enable(); !enabled) {
      do_without_gpu(enabled.error());
      gpu_.reset();
    }
  }

  void do_without_gpu(const Error& error) {
    recording_.notes.push_back("the GPU was not recorded: " + error.message());
  }

  // With several ranks the leader decides, so all ranks must ask equally often.
  bool is_late() const {
    return job_.as_leader_says(begin_ns_ >= 0 && now_ns() - begin_ns_ >= request_.maximum_ns);
  }

  Result<void> step() {
    if (auto taken = job_.step(is_cancelled_); !taken) return tl::unexpected(taken.error());
    // The time starts after the first step, because that step includes the costs of starting.
    if (begin_ns_ < 0) begin_ns_ = now_ns();
    if (job_.as_leader_says(cancel_(now_ns()))) return tl::unexpected(cancelled_error());
    return {};
  }

  // Makes steps that are not kept.
  Result<void> steps(std::int64_t count) {
    for (std::int64_t i = 0; i < count && !is_late(); ++i) {
      const bool is_first = begin_ns_ < 0;
      if (auto done = step(); !done) return done;
      // The batches that became ready while it took long would hide how long the next steps have to wait.
      if (!is_first) continue;
      if (auto dropped = job_.drop_ready_batches(is_cancelled_); !dropped) return dropped;
    }
    return {};
  }

  Result<void> record_steps() {
    profiler::RecordedSteps stretch{.first_step = job_.steps_};
    job_.synchronize();
    if (gpu_ != nullptr) gpu_->restart();
    job_.feed_->record_spans(std::max<std::int64_t>(events_left_, 1));
    profiler::SpanRecorder spans(static_cast<std::size_t>(request_.active) * kSpansPerStep,
                                 gpu_.get());
    profiler::TimelineOptions wanted = options();
    wanted.listener = gpu_.get();
    profiler::TimelineRecorder operators(wanted);
    const std::int64_t start = now_ns();
    if (recording_.start_ns == 0) recording_.start_ns = start;
    for (std::int64_t i = 0; i < request_.active && (i == 0 || !is_late()); ++i) {
      if (auto done = step(); !done) return done;
      ++steps_;
    }
    const std::filesystem::path checkpoint =
        job_.is_leader() ? request_.checkpoint_file : std::filesystem::path();
    if (!checkpoint.empty()) {
      if (auto begun = job_.begin_block_checkpoint(checkpoint); !begun) return begun;
    }
    job_.synchronize();
    recording_.end_ns = now_ns();
    duration_ns_ += recording_.end_ns - start;
    stretch.timeline = operators.stop(job_.learner_->module_paths());
    spans.stop();
    if (!checkpoint.empty()) {
      if (auto ended = job_.end_block_checkpoint(checkpoint); !ended) return ended;
    }
    stretch.spans = spans.records();
    for (const profiler::ThreadTimeline& thread : stretch.timeline.threads) {
      events_left_ -= static_cast<std::int64_t>(thread.events.size() + thread.memory.size());
    }
    events_left_ -= std::ssize(stretch.timeline.exchanges);
    recording_.lost_events += stretch.timeline.lost_events;
    if (gpu_ != nullptr) {
      stretch.device = gpu_->take();
      gpu_->disable();
      profiler::estimate_occupancy(stretch.device, recording_.devices);
    }
    add_loading(start);
    recording_.stretches.push_back(std::move(stretch));
    return {};
  }

  void add_loading(std::int64_t start_ns) {
    const input::PartSpans parts = job_.feed_->take_spans();
    recording_.lost_events += parts.lost;
    events_left_ =
        std::max<std::int64_t>(0, events_left_ - static_cast<std::int64_t>(parts.spans.size()));
    for (const input::PartSpan& span : parts.spans) {
      if (span.start_ns < start_ns) continue;
      recording_.loading.push_back({.thread = span.thread,
                                    .name = part_name(*job_.feed_->settings().pipeline, span.part),
                                    .start_ns = span.start_ns,
                                    .end_ns = span.end_ns});
    }
  }

  State& job_;
  const TraceRequest& request_;
  const CancelCheck& is_cancelled_;
  CancelPoll cancel_{is_cancelled_};
  std::int64_t begin_ns_ = -1;  // the end of the first step
  std::int64_t events_left_;
  std::int64_t steps_ = 0;
  std::int64_t duration_ns_ = 0;
  std::unique_ptr<profiler::CuptiCollector> gpu_;  // null: there is none, or it cannot be recorded
  profiler::Recording recording_;
};

Result<JobTrace> Job::State::trace(const TraceRequest& request, const CancelCheck& is_cancelled) {
  fill_kept(is_cancelled);
  Tracing tracing(*this, request, is_cancelled);
  if (auto recorded = tracing.record(); !recorded) return tl::unexpected(recorded.error());
  return tracing.write();
}

}  // namespace autotuned::trainer
