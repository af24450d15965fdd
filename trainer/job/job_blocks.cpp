// SPDX-License-Identifier: Apache-2.0
// The loops of a job: blocks and training.
#include <ATen/DeviceAccelerator.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <array>
#include <utility>

#include "profiler/spans.hpp"
#include "trainer/common/process_memory.hpp"
#include "trainer/feed/loading_scope.hpp"
#include "trainer/input/common/random.hpp"
#include "trainer/job/job_state.hpp"
#include "trainer/job/step_clock.hpp"

namespace autotuned::trainer {
namespace {

using profiler::now_ns;
using profiler::Span;

double read(const at::Tensor& scalar) {
  return scalar.item().toDouble();
}

// In one copy: of a GPU, a copy for each would cost as much as some steps.
std::vector<double> read_all(const std::vector<at::Tensor>& scalars) {
  if (scalars.empty()) return {};
  std::vector<at::Tensor> flat;
  flat.reserve(scalars.size());
  for (const at::Tensor& scalar : scalars)
    flat.push_back(scalar.reshape({}));
  const at::Tensor values = at::stack(flat).to(at::kCPU, at::kDouble);
  const auto* const first = values.const_data_ptr<double>();
  return {first, first + values.numel()};
}

// Sets a flag for as long as it lives.
class Raised {
 public:
  Raised(bool& flag, bool is_raised) : flag_(flag) { flag_ = is_raised; }
  ~Raised() { flag_ = false; }
  Raised(const Raised&) = delete;
  Raised& operator=(const Raised&) = delete;

 private:
  bool& flag_;
};

}  // namespace

// Adds up the figures of a block between construction and finish().
class Job::State::BlockRecord {
 public:
  explicit BlockRecord(State& job, bool keeps_losses = false)
      : job_(&job), keeps_losses_(keeps_losses) {
    host_peak_.start();
    reset_device_peak(job.facts_.device);
    job.synchronize();
    cpu_before_ns_ = process_cpu_ns();
    block_.start_ns = now_ns();
  }

  void add(StepTaken& taken) {
    block_.steps += 1;
    block_.samples += taken.samples;
    block_.data_wait_ns += taken.wait_ns;
    if (!keeps_losses_ && losses_.size() == 2) losses_.pop_back();
    losses_.push_back(std::move(taken.loss));
  }

  std::int64_t steps() const { return block_.steps; }
  std::int64_t elapsed_ns() const { return now_ns() - block_.start_ns; }

  Block finish() { return finish_after(stop()); }
  // Waits for the device, and returns the duration so far.
  std::int64_t stop() {
    job_->synchronize();
    return elapsed_ns();
  }
  Block finish_after(std::int64_t duration_ns) {
    block_.duration_ns = duration_ns;
    block_.cpu_ns = process_cpu_ns() - cpu_before_ns_;
    block_.peak_host_memory_bytes = host_peak_.peak_bytes();
    block_.peak_device_memory_bytes = job_->device_peak_bytes();
    const std::vector<double> losses = read_all(losses_);
    if (!losses.empty()) {
      block_.first_loss = losses.front();
      block_.last_loss = losses.back();
    }
    if (keeps_losses_) block_.losses = losses;
    return block_;
  }

 private:
  State* job_;
  bool keeps_losses_;
  std::vector<at::Tensor> losses_;
  HostMemoryPeak host_peak_;
  std::int64_t cpu_before_ns_ = 0;
  Block block_;
};

Result<Job::State::StepTaken> Job::State::step(const CancelCheck& is_cancelled) {
  const Span span(profiler::span::kStep);
  auto batch = feed_->next();
  if (!batch) {
    return tl::unexpected(error_of_batch(batch.error(), *train_data_, is_cancelled));
  }
  StepTaken taken = learn_from(*batch);
  feed_->run_ahead();
  feed_->done();
  return taken;
}

Job::State::StepTaken Job::State::step_on(const DeviceBatch& batch) {
  const Span span(profiler::span::kStep);
  return learn_from(batch);
}

Job::State::StepTaken Job::State::learn_from(const DeviceBatch& batch) {
  seed_step();
  at::Tensor loss;
  last_learning_rate_ = learning_rate();
  if (extensions_.is_any_applied()) {
    // They know labels as the data have them.
    const std::int64_t step = steps_ + 1;
    const bool is_last = steps_left_ == 1 || (ends_with_epoch_ && batch.ends_epoch);
    if (extensions_.takes_repeat(repeats(is_last))) {
      extensions_.begin_repeat(*learner_, mixed_batch(batch));
    }
    const DeviceBatch given = mixed_batch(extensions_.on_batch(batch, step));
    if (mix_rules().is_on()) extensions_.keep_batch(given);
    loss = extensions_.step(*learner_, given, last_learning_rate_);
    extensions_.after_step(*learner_, step, loss, is_last);
  } else if (mix_rules().is_on()) {
    loss = learner_->step(mixed_batch(batch), last_learning_rate_);
  } else {
    loss = learner_->step(batch, last_learning_rate_);
  }
  if (reads_every_loss_) {
    const Span span(profiler::span::kLossReading);
    (void)read(loss);  // what a loop does that prints or averages it
  }
  steps_ += 1;
  samples_ += batch.samples;
  return {std::move(loss), batch.samples, batch.wait_ns, batch.bytes, batch.ends_epoch};
}

Repeats Job::State::repeats(bool is_last) const {
  if (ranks_ != nullptr) return Repeats::never;
  if (is_last) return Repeats::always;  // the weights may be saved as it leaves them
  return steps_left_ > 0 || is_in_block_ ? Repeats::drawn : Repeats::never;
}

DeviceBatch Job::State::mixed_batch(const DeviceBatch& batch) const {
  if (!mix_rules().is_on()) return batch;
  const Span span(profiler::span::kTransfer);  // the last of what makes the batch on the device
  const Mixing mixing = draw_mixing(mix_rules(), input::seed_of_rank(recipe_.seed, share().rank),
                                    batch.position, batch.images.size(2), batch.images.size(3));
  return mixed(batch, mixing, learner_->classes());
}

Result<void> Job::State::warm_up(std::int64_t steps, const CancelCheck& is_cancelled,
                                 std::int64_t deadline_ns) {
  CancelPoll cancel(is_cancelled);
  for (std::int64_t i = 0; i < steps; ++i) {
    if (auto taken = step(is_cancelled); !taken) return tl::unexpected(taken.error());
    if (as_leader_says(cancel(now_ns()))) return tl::unexpected(cancelled_error());
    if (as_leader_says(now_ns() >= deadline_ns)) break;
  }
  return {};
}

std::int64_t Job::State::device_peak_bytes() const {
  return trainer::device_peak_bytes(facts_.device) + learner_->recorded_bytes();
}

void Job::State::synchronize() const {
  if (!device_.is_cpu()) at::accelerator::synchronizeDevice(device_.index());
}

Result<Block> Job::State::run(const RunRequest& request, const CancelCheck& is_cancelled) {
  fill_kept(is_cancelled);
  // The steps after a switch are timed as a cost of that, and few.
  const Raised in_block(is_in_block_, request.reuse == Reuse::nothing && request.minimum_ns > 0);
  std::optional<ReuseScope> reuse;
  std::optional<LoadingScope> loading;
  std::optional<DeviceBatch> reused;
  if (request.reuse == Reuse::device_batch) {
    auto batch = feed_->next();
    if (!batch) {
      return tl::unexpected(error_of_batch(batch.error(), *train_data_, is_cancelled));
    }
    reused = std::move(*batch);
    reused->wait_ns = 0;
  } else if (request.reuse != Reuse::nothing) {
    reuse.emplace(*feed_);
    if (auto begun = feed_->begin_reuse(request.reuse); !begun) {
      return tl::unexpected(begun.error());
    }
  }
  const bool is_loading = !reused && request.reuse != Reuse::host_batch;
  if (is_loading) loading.emplace(*feed_);
  const auto step = [&]() -> Result<StepTaken> {
    return reused ? step_on(*reused) : this->step(is_cancelled);
  };
  CancelPoll cancel(is_cancelled);
  for (std::int64_t i = 0; i < request.warmup_steps; ++i) {
    if (auto taken = step(); !taken) return tl::unexpected(taken.error());
    if (as_leader_says(cancel(now_ns()))) return tl::unexpected(cancelled_error());
  }
  auto block =
      ranks_ == nullptr ? measure(request, step, cancel) : measure_together(request, step, cancel);
  if (!block) return block;
  kept_.add_one_time_cost(feed_->settings().kept, *block);
  if (reused) feed_->done();
  return block;
}

Result<Block> Job::State::measure(const RunRequest& request, const MakeStep& step,
                                  CancelPoll& cancel) {
  BlockRecord record(*this);
  RingRule ring(feed_->fullness());
  for (;;) {
    auto taken = step();
    if (!taken) return tl::unexpected(taken.error());
    record.add(*taken);
    if (cancel(now_ns())) return tl::unexpected(cancelled_error());
    if (!request.checkpoint_file.empty() && record.steps() == 1) {
      if (auto begun = begin_block_checkpoint(request.checkpoint_file); !begun) {
        return tl::unexpected(begun.error());
      }
    }
    if (record.steps() < request.minimum_steps) continue;
    std::int64_t elapsed = record.elapsed_ns();
    if (elapsed < request.minimum_ns) continue;
    int fullness = feed_->fullness();
    // The ring of the start is that beside an idle device. A GPU still has steps to do, during which the loader goes on.
    if (!device_.is_cpu() && ring.is_short(fullness)) {
      elapsed = record.stop();
      fullness = feed_->fullness();
    }
    const RingRule::Next next = ring.after(elapsed, request.minimum_ns, fullness);
    if (next == RingRule::Next::end) break;
    if (next == RingRule::Next::start_over) record = BlockRecord(*this);
  }
  if (!request.checkpoint_file.empty()) {
    if (auto ended = end_block_checkpoint(request.checkpoint_file); !ended) {
      return tl::unexpected(ended.error());
    }
  }
  return record.finish();
}

Result<Block> Job::State::measure_together(const RunRequest& request, const MakeStep& step,
                                           CancelPoll& cancel) {
  // The leader's checkpoint, as in training; the others wait for it in their next step.
  const bool writes = !request.checkpoint_file.empty() && is_leader();
  if (request.reuse != Reuse::nothing) rank_step_ns_ = 0;
  // Nobody's clock starts before all are here.
  std::array<double, 1> start = {is_leader() && cancel(now_ns()) ? 1.0 : 0.0};
  ranks_->take_largest(start);
  if (start[0] != 0.0) return tl::unexpected(cancelled_error());
  BlockRecord record(*this);
  RingRule ring(feed_->fullness());
  std::int64_t elapsed_ns = 0;  // of the slowest
  std::int64_t own_ns = 0;
  for (;;) {
    const std::int64_t count = steps_until_look(record.steps(), elapsed_ns, request.minimum_steps,
                                                request.minimum_ns, rank_step_ns_);
    for (std::int64_t i = 0; i < count; ++i) {
      auto taken = step();
      if (!taken) return tl::unexpected(taken.error());
      record.add(*taken);
      if (!writes || record.steps() != 1) continue;
      if (auto begun = begin_block_checkpoint(request.checkpoint_file); !begun) {
        return tl::unexpected(begun.error());
      }
    }
    own_ns = record.stop();
    RingRule::Next mine = RingRule::Next::go_on;
    if (record.steps() >= request.minimum_steps && own_ns >= request.minimum_ns) {
      mine = ring.after(own_ns, request.minimum_ns, feed_->fullness());
    }
    // A block ends when no rank needs more of it. What all say comes after the clock of a block that ends.
    std::array<double, 3> said = {
        mine == RingRule::Next::end ? 0.0 : (mine == RingRule::Next::go_on ? 1.0 : 2.0),
        is_leader() && cancel(now_ns()) ? 1.0 : 0.0, static_cast<double>(own_ns)};
    ranks_->take_largest(said);
    if (said[1] != 0.0) return tl::unexpected(cancelled_error());
    elapsed_ns = static_cast<std::int64_t>(said[2]);
    rank_step_ns_ = std::max<std::int64_t>(elapsed_ns / record.steps(), 1);
    if (said[0] == 0.0) break;
    if (said[0] == 1.0) continue;
    record = BlockRecord(*this);
    elapsed_ns = 0;
  }
  if (request.reuse != Reuse::nothing) rank_step_ns_ = 0;
  if (writes) {
    if (auto ended = end_block_checkpoint(request.checkpoint_file); !ended) {
      return tl::unexpected(ended.error());
    }
    own_ns = record.stop();
  }
  return record.finish_after(own_ns);
}

Result<Block> Job::State::run_steps(std::int64_t count, const CancelCheck& is_cancelled) {
  const LoadingScope loading(*feed_);
  CancelPoll cancel(is_cancelled);
  BlockRecord record(*this, /*keeps_losses=*/true);
  for (std::int64_t i = 0; i < count; ++i) {
    auto taken = step(is_cancelled);
    if (!taken) return tl::unexpected(taken.error());
    record.add(*taken);
    if (as_leader_says(cancel(now_ns()))) return tl::unexpected(cancelled_error());
  }
  return record.finish();
}

Result<Stretch> Job::State::advance(const StretchLimits& limits, const CancelCheck& is_cancelled) {
  CancelPoll cancel(is_cancelled);
  Stretch stretch;
  std::vector<at::Tensor> losses;
  bool had_epoch_end = false;
  while (stretch.steps < limits.steps) {
    steps_left_ = limits.steps - stretch.steps;
    ends_with_epoch_ = limits.stops_at_epoch_end;
    auto taken = step(is_cancelled);
    steps_left_ = 0;
    ends_with_epoch_ = false;
    if (!taken) return tl::unexpected(taken.error());
    stretch.steps += 1;
    stretch.samples += taken->samples;
    losses.push_back(std::move(taken->loss));
    stretch.ended_epoch = taken->ends_epoch;
    had_epoch_end |= taken->ends_epoch;
    if (taken->ends_epoch && limits.stops_at_epoch_end) break;
    stretch.was_cancelled = is_cancelled_for_all(cancel);
    if (stretch.was_cancelled || now_ns() >= limits.deadline_ns) break;
  }
  if (had_epoch_end) {
    kept_.compact_index(*feed_);
    warn(kept_.save_index());
  }
  stretch.losses = read_all(losses);
  return stretch;
}

}  // namespace autotuned::trainer
