// SPDX-License-Identifier: Apache-2.0
// Steps that a check looks at: what reaches the model, and what the model answers afterwards.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "trainer/common/generator_kept.hpp"
#include "trainer/common/tensor_hash.hpp"
#include "trainer/feed/loading_scope.hpp"
#include "trainer/job/job_state.hpp"
#include "trainer/job/step_clock.hpp"
#include "trainer/job/step_input.hpp"
#include "trainer/state/training_length.hpp"

namespace autotuned::trainer {
namespace {

constexpr std::int64_t kStepsBeforeEpochEnd = 2;
constexpr int kMaxHalvings = 16;  // of the scale that a training begins with, to 1
constexpr std::int64_t kBatchesOfOutputs = 3;

// Takes down what the learner's model is given for as long as it lives.
class InputRecord {
 public:
  explicit InputRecord(Learner& learner) : learner_(learner) {
    learner_.watch_inputs(
        {.labels =
             [this](const at::Tensor& labels) { steps_.push_back({.labels = hash_of(labels)}); },
         .images = [this](const at::Tensor& images) { add(images); }});
  }
  ~InputRecord() { learner_.watch_inputs({}); }
  InputRecord(const InputRecord&) = delete;
  InputRecord& operator=(const InputRecord&) = delete;

  std::vector<StepInput> take() { return std::move(steps_); }

 private:
  void add(const at::Tensor& images) {
    if (steps_.empty()) return;
    StepInput& step = steps_.back();
    // A step may give the model its batch in parts.
    step.images = std::rotl(step.images, 1) ^ hash_of(images);
    const std::vector<double> more = projections_.of(images);
    step.projections.insert(step.projections.end(), more.begin(), more.end());
  }

  Learner& learner_;
  Projections projections_;
  std::vector<StepInput> steps_;
};

void append(Block& block, const Block& more) {
  block.duration_ns += more.duration_ns;
  block.steps += more.steps;
  block.samples += more.samples;
  block.last_loss = more.last_loss;
  block.losses.insert(block.losses.end(), more.losses.begin(), more.losses.end());
  block.data_wait_ns += more.data_wait_ns;
  block.cpu_ns += more.cpu_ns;
  block.peak_host_memory_bytes =
      std::max(block.peak_host_memory_bytes, more.peak_host_memory_bytes);
  block.peak_device_memory_bytes =
      std::max(block.peak_device_memory_bytes, more.peak_device_memory_bytes);
}

}  // namespace

Result<CheckedSteps> Job::State::check_steps(const CheckRequest& request,
                                             const CancelCheck& is_cancelled) {
  outputs_.clear();
  CheckedSteps checked;
  if (request.test_samples > 0 && test_data_ != nullptr && ranks_ == nullptr) {
    auto test = evaluate_here(is_cancelled, request.test_samples);
    if (!test) return tl::unexpected(test.error());
    if (test->was_cancelled) return tl::unexpected(cancelled_error());
    checked.test = *std::move(test);
  }
  if (request.keeps_outputs_before) {
    if (auto kept = keep_outputs(kOutputsBefore, is_cancelled); !kept)
      return tl::unexpected(kept.error());
  }
  if (auto settled = settle_loss_scale(is_cancelled); !settled)
    return tl::unexpected(settled.error());
  if (auto kept = keep_idle_step(is_cancelled); !kept) return tl::unexpected(kept.error());
  {
    InputRecord inputs(*learner_);
    const std::int64_t later = request.crosses_epoch ? request.steps / 2 : 0;
    auto block = run_steps(request.steps - later, is_cancelled);
    if (!block) return tl::unexpected(block.error());
    checked.block = std::move(*block);
    if (later > 0) {
      if (const auto position = near_epoch_end()) feed_->seek(*position);
      block = run_steps(later, is_cancelled);
      if (!block) return tl::unexpected(block.error());
      append(checked.block, *block);
    }
    checked.inputs = inputs.take();
  }
  if (auto kept = keep_outputs(kOutputsAfter, is_cancelled); !kept)
    return tl::unexpected(kept.error());
  return checked;
}

// A training in fp16 may skip its first steps until its loss scale fits. A check of a single step, or against a
// reference without a scale, would then compare a step with a skipped one. So each side finds its scale anew,
// independent of earlier training.
Result<void> Job::State::settle_loss_scale(const CancelCheck& is_cancelled) {
  auto scale = learner_->loss_scale();
  if (!scale) return {};
  const double first = *scale;
  const Checkpoint start = learner_->capture();
  const input::Position position = feed_->position();
  const std::int64_t steps = steps_;
  const std::int64_t samples = samples_;
  for (int halvings = 0; halvings <= kMaxHalvings; ++halvings) {
    const auto block = run_steps(1, is_cancelled);
    const double after = learner_->loss_scale().value_or(*scale);
    if (auto restored = learner_->restore(start); !restored) return restored;
    feed_->seek(position);
    steps_ = steps;
    samples_ = samples;
    if (!block) return tl::unexpected(block.error());
    if (!as_leader_says(after < *scale)) {
      learner_->set_loss_scale(*scale);
      return {};
    }
    scale = after;
    learner_->set_loss_scale(*scale);
  }
  learner_->set_loss_scale(first);  // it is not the scale
  return {};
}

// Eight steps with gradients hardly show weight decay: AdamW with a learning rate of 1e-3 and a decay of 0.01 takes a
// hundred-thousandth of a parameter in a step. Without gradients that is all that a step does. The learning rate is
// that without schedule, because a warm-up begins with next to nothing.
Result<void> Job::State::keep_idle_step(const CancelCheck& is_cancelled) {
  const Checkpoint start = learner_->capture();
  const input::Position position = feed_->position();
  const std::int64_t steps = steps_;
  const std::int64_t samples = samples_;
  const double rate = recipe_.learning_rate_at(configuration_.integer("batch_size")) * rate_factor_;
  const auto block = [&] {
    const Learner::StepsWithoutGradients idle(*learner_, rate);
    return run_steps(1, is_cancelled);
  }();
  NamedTensors after = learner_->capture_parameters();
  if (auto restored = learner_->restore(start); !restored) return restored;
  feed_->seek(position);
  steps_ = steps;
  samples_ = samples;
  if (!block) return tl::unexpected(block.error());
  for (auto& [name, tensor] : after)
    outputs_.emplace_back(kWithoutGradients + name, std::move(tensor));
  return {};
}

// Batches in a row, and a short one at their end, as in an evaluation: an extension may answer the first one and whole
// ones alone as the model does. They are the last ones of the test data; without any, the first ones of training.
Result<void> Job::State::keep_outputs(const char* name, const CancelCheck& is_cancelled) {
  // As in evaluate_here().
  const GeneratorsKept generators(device_);
  std::vector<at::Tensor> outputs;
  const auto answer = [&](Feed& feed, const input::Dataset& data, bool is_test) -> Result<void> {
    for (bool is_last = false; !is_last;) {
      auto batch = feed.next();
      if (!batch) return tl::unexpected(error_of_batch(batch.error(), data, is_cancelled));
      is_last = std::ssize(outputs) + 1 == kBatchesOfOutputs || (is_test && batch->ends_epoch);
      if (is_last && !is_test) {
        batch->images = batch->images.narrow(0, 0, (batch->images.size(0) + 1) / 2);
      }
      outputs.push_back(learner_->outputs(*batch));
      feed.done();
    }
    return {};
  };
  if (test_data_ != nullptr) {
    auto feed = make_test_feed(TestBatches::few);
    if (!feed) return tl::unexpected(feed.error());
    const std::int64_t batch = (*feed)->settings().batch_size;
    const std::int64_t batches = batches_of(test_data_->size(), batch);
    const std::int64_t before = std::max<std::int64_t>(0, batches - kBatchesOfOutputs);
    (*feed)->seek({.epoch = 0, .sample = before * batch});
    const LoadingScope loading(**feed);
    if (auto done = answer(**feed, *test_data_, /*is_test=*/true); !done) return done;
  } else {
    const input::Position here = feed_->position();
    feed_->seek({});
    if (auto done = answer(*feed_, *train_data_, /*is_test=*/false); !done) return done;
    feed_->seek(here);
  }
  outputs_.emplace_back(name, at::cat(outputs));
  return {};
}

std::optional<input::Position> Job::State::near_epoch_end() const {
  const std::int64_t batch = feed_->settings().batch_size;
  const std::int64_t samples = samples_per_epoch();
  const std::int64_t steps =
      feed_->settings().drop_last ? samples / batch : batches_of(samples, batch);
  if (steps <= kStepsBeforeEpochEnd) return std::nullopt;
  const std::int64_t sample = (steps - kStepsBeforeEpochEnd) * batch;
  const input::Position here = feed_->position();
  return input::Position{.epoch = here.sample > sample ? here.epoch + 1 : here.epoch,
                         .sample = sample};
}

}  // namespace autotuned::trainer
