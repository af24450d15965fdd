// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/graph_step.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "trainer/common/device.hpp"
#include "trainer/common/guarded.hpp"

namespace autotuned::trainer {
namespace {

void append(std::vector<std::int64_t>& key, const at::Tensor& tensor) {
  key.push_back(static_cast<std::int64_t>(tensor.scalar_type()));
  key.push_back(tensor.dim());
  key.insert(key.end(), tensor.sizes().begin(), tensor.sizes().end());
  key.insert(key.end(), tensor.strides().begin(), tensor.strides().end());
}

StepKey key_of(const DeviceBatch& batch, const std::vector<const void*>& memory) {
  StepKey key{.batch = {}, .memory = memory};
  append(key.batch, batch.images);
  append(key.batch, batch.labels);
  return key;
}

}  // namespace

GraphStep::GraphStep(std::unique_ptr<GraphRecorder> recorder) : recorder_(std::move(recorder)) {}

at::Tensor GraphStep::step(const DeviceBatch& batch, const Parts& parts) {
  const GraphPlan::Action action = plan_.next(key_of(batch, parts.memory));
  if (action == GraphPlan::Action::run) {
    at::Tensor loss;
    recorder_->run_aside([&] { loss = parts.work(batch); });
    return loss;
  }
  if (action == GraphPlan::Action::record) record(batch, parts);
  {
    const at::NoGradGuard no_grad;
    batch_.images.copy_(batch.images, /*non_blocking=*/true);
    batch_.labels.copy_(batch.labels, /*non_blocking=*/true);
  }
  recorder_->replay();
  return loss_.clone();  // the next replay writes there
}

void GraphStep::record(const DeviceBatch& batch, const Parts& parts) {
  recorder_->drop();
  loss_.reset();
  batch_ = batch;
  batch_.images = batch.images.clone();
  batch_.labels = batch.labels.clone();
  // Gradients are then made within what is recorded, and need not be filled with zeros.
  parts.before_recording();
  try {
    recorder_->record([this, work = parts.work, device = batch_.images.device().str()] {
      const DeviceMemory before = device_memory(device);
      loss_ = work(batch_);
      const DeviceMemory after = device_memory(device);
      held_bytes_ = std::max<std::int64_t>(0, (after.reserved_bytes - before.reserved_bytes) -
                                                  (after.allocated_bytes - before.allocated_bytes));
    });
  } catch (const std::exception& error) {
    drop();
    const Error told = error_from(error, "");
    if (!is_libtorchs(error) || told.kind == ErrorKind::out_of_memory) throw;
    throw UnsupportedError(
        "the step cannot be recorded: " + told.what,
        "leave cuda.graph off for a model that waits for the device, or copies to or "
        "from the host, within a step");
  } catch (...) {
    drop();
    throw;
  }
}

void GraphStep::drop() {
  plan_.forget();
  recorder_->drop();
  batch_ = {};
  loss_.reset();
  held_bytes_ = 0;
}

}  // namespace autotuned::trainer
