// SPDX-License-Identifier: Apache-2.0
// The profile of a job: metrics, spans and operator totals of some steps.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "profiler/metrics.hpp"
#include "profiler/operators.hpp"
#include "profiler/recorder/torch_operators.hpp"
#include "profiler/spans.hpp"
#include "trainer/common/device.hpp"
#include "trainer/common/process_memory.hpp"
#include "trainer/feed/loading_scope.hpp"
#include "trainer/job/job_state.hpp"
#include "trainer/job/step_clock.hpp"

namespace autotuned::trainer {
namespace {

// While it lives, the loader times the parts of each sample, which costs some time itself, and transfers are timed
// separately.
class PartTiming {
 public:
  explicit PartTiming(Feed& feed) : feed_(&feed) { time_parts(true); }
  ~PartTiming() { time_parts(false); }
  PartTiming(const PartTiming&) = delete;
  PartTiming& operator=(const PartTiming&) = delete;

 private:
  void time_parts(bool is_on) {
    feed_->time_parts(is_on);
    feed_->time_transfers(is_on);
  }

  Feed* feed_;
};

}  // namespace

Result<profiler::ProfileFacts> Job::State::record_steps(std::int64_t count,
                                                        const CancelCheck& is_cancelled,
                                                        std::int64_t deadline_ns) {
  CancelPoll cancel(is_cancelled);
  const input::LoaderStatistics loaded_before = feed_->statistics();
  std::vector<bool> has_gradient(learner_->parameter_tensors());
  profiler::ProfileFacts facts{.cpus_allowed = cpus_allowed_, .has_every_gradient = true};
  HostMemoryPeak host_peak;
  host_peak.start();
  reset_device_peak(facts_.device);
  synchronize();
  {
    const auto watch =
        learner_->watch_gradients([&has_gradient](std::size_t i) { has_gradient[i] = true; });
    profiler::SpanRecorder spans(static_cast<std::size_t>(count) * 10);
    profiler::OperatorRecorder operators;
    const std::int64_t cpu_before = process_cpu_ns();
    const KernelUse kernel_before = kernel_use();
    const std::int64_t start = profiler::now_ns();
    for (std::int64_t i = 0; i < count; ++i) {
      has_gradient.assign(has_gradient.size(), false);
      auto taken = step(is_cancelled);
      if (!taken) return tl::unexpected(taken.error());
      facts.steps += 1;
      facts.samples += taken->samples;
      facts.transfer_bytes += taken->bytes;
      facts.rank_wait_ns += learner_->rank_wait_ns();
      for (const bool has : has_gradient) {
        facts.has_every_gradient = facts.has_every_gradient && has;
      }
      if (as_leader_says(cancel(profiler::now_ns()))) return tl::unexpected(cancelled_error());
      if (as_leader_says(profiler::now_ns() >= deadline_ns)) break;
    }
    synchronize();
    facts.wall_ns = profiler::now_ns() - start;
    facts.cpu_ns = process_cpu_ns() - cpu_before;
    const KernelUse kernel = kernel_use();
    // The kernel keeps this share in ticks and scales it: of little, it may come to more than all.
    facts.kernel_cpu_ns = std::min(kernel.cpu_ns - kernel_before.cpu_ns, facts.cpu_ns);
    facts.page_faults = kernel.page_faults - kernel_before.page_faults;
    facts.storage_bytes = kernel.storage_bytes - kernel_before.storage_bytes;
    facts.operators = operators.stop();
    spans.stop();
    facts.spans = profiler::totals_of(spans.records());
  }
  const input::LoaderStatistics loaded = feed_->statistics();
  facts.loader_samples = loaded.samples - loaded_before.samples;
  facts.loader_thread_ns = loaded.producing_ns - loaded_before.producing_ns;
  add_input_facts(facts, loaded);
  facts.peak_host_bytes = host_peak.peak_bytes();
  facts.peak_device_bytes = device_peak_bytes();
  return facts;
}

Result<void> Job::State::drop_ready_batches(const CancelCheck& is_cancelled) {
  // As many on all ranks, which stay at the same sample.
  for (std::int64_t left = of_leader(feed_->fullness()); left > 0; --left) {
    if (auto batch = feed_->next(); !batch) {
      return tl::unexpected(error_of_batch(batch.error(), *train_data_, is_cancelled));
    }
    feed_->done();
  }
  return {};
}

Result<JobProfile> Job::State::profile(std::int64_t count, std::int64_t warmup_steps,
                                       const CancelCheck& is_cancelled, std::int64_t maximum_ns) {
  fill_kept(is_cancelled);
  const std::int64_t begin = profiler::now_ns();
  const auto after = [begin](std::int64_t ns) {
    return ns < INT64_MAX - begin ? begin + ns : INT64_MAX;
  };
  const std::int64_t deadline = after(maximum_ns);
  const PartTiming timing(*feed_);
  const Learner::PlainSteps plain(*learner_);
  const LoadingScope loading(*feed_);
  if (auto warm = warm_up(warmup_steps, is_cancelled, after(maximum_ns / 4)); !warm) {
    return tl::unexpected(warm.error());
  }
  RefillRule ring(feed_->fullness());
  auto facts = record_steps(count, is_cancelled, deadline);
  if (!facts) return tl::unexpected(facts.error());
  for (;;) {
    const auto next = static_cast<RefillRule::Next>(of_leader(static_cast<std::int64_t>(
        ring.after(profiler::now_ns() - begin, maximum_ns, feed_->fullness()))));
    if (next == RefillRule::Next::keep) break;
    const bool is_again = next == RefillRule::Next::record_again;
    if (is_again) {
      if (auto dropped = drop_ready_batches(is_cancelled); !dropped)
        return tl::unexpected(dropped.error());
    }
    if (auto warm = warm_up(1, is_cancelled, deadline); !warm) return tl::unexpected(warm.error());
    if (!is_again) continue;
    facts = record_steps(count, is_cancelled, deadline);
    if (!facts) return tl::unexpected(facts.error());
  }
  facts->is_float_from_uint8 =
      feed_->settings().pipeline->table() != nullptr && !feed_->settings().is_uint8;
  if (!device_.is_cpu() && !feed_->settings().pin_memory) {
    facts->pageable_transfer_bytes = facts->transfer_bytes;
  }
  facts->checkpoint_copy_ns = checkpoint_copy_ns_;
  facts->checkpoint_write_ns = checkpoint_write_ns_;
  facts->checkpoint_every_ns = recipe_.checkpoint_every.count();
  facts->pinned_bytes = feed_->pinned_bytes();
  facts->parameters = facts_.parameters;
  facts->parameter_bytes = facts_.parameter_bytes;
  return JobProfile{profiler::metrics_of(*facts), facts->spans,
                    profiler::by_name(facts->operators, 0)};
}

}  // namespace autotuned::trainer
