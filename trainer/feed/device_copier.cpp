// SPDX-License-Identifier: Apache-2.0
#include "trainer/feed/device_copier.hpp"

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>

namespace autotuned::trainer {

c10::Stream copy_stream(at::Device device) {
  static std::map<c10::DeviceIndex, c10::Stream> streams;
  const auto found = streams.find(device.index());
  if (found != streams.end()) return found->second;
  const c10::impl::VirtualGuardImpl guard(device.type());
  return streams.emplace(device.index(), guard.getStreamFromGlobalPool(device, false))
      .first->second;
}

DeviceCopier::DeviceCopier(at::Device device, const HostSlot* ring, at::IntArrayRef sizes,
                           at::ScalarType type, bool is_beside)
    : device_(device), ring_(ring) {
  for (Landing& landing : landings_) {
    landing.images = at::empty(sizes, at::dtype(type).device(device_));
    const at::Tensor& labels = ring_->labels;
    landing.labels = at::empty(labels.sizes(), at::dtype(labels.scalar_type()).device(device_));
    if (!is_beside) continue;
    landing.copied.emplace(device_.type());
    landing.used.emplace(device_.type());
  }
  if (is_beside) copies_ = copy_stream(device_);
}

void DeviceCopier::copy(const TakenBatch& batch) {
  copy(batch, false);
}

void DeviceCopier::copy_beside(const TakenBatch& batch) {
  const c10::StreamGuard guard(*copies_);
  copy(batch, true);
}

void DeviceCopier::copy(const TakenBatch& batch, bool is_asynchronous) {
  const at::NoGradGuard no_grad;
  const HostSlot& slot = ring_[batch.slot];
  images(batch).copy_(first_samples(slot.images, batch.samples), is_asynchronous);
  labels(batch).copy_(first_samples(slot.labels, batch.samples), is_asynchronous);
}

void DeviceCopier::let_copies_wait(int landing) {
  at(landing).used->block(*copies_);
}

void DeviceCopier::mark_copied(int landing) {
  at(landing).copied->record(*copies_);
}

void DeviceCopier::let_steps_wait(int landing) {
  at(landing).copied->block(steps());
}

void DeviceCopier::mark_used(int landing) {
  at(landing).used->record(steps());
}

void DeviceCopier::wait_for_copy(int landing) {
  at(landing).copied->synchronize();
}

void DeviceCopier::wait_for_device() {
  at::accelerator::synchronizeDevice(device_.index());
}

at::Tensor DeviceCopier::images(const TakenBatch& batch) const {
  return first_samples(landings_[static_cast<std::size_t>(batch.landing)].images, batch.samples);
}

at::Tensor DeviceCopier::labels(const TakenBatch& batch) const {
  return first_samples(landings_[static_cast<std::size_t>(batch.landing)].labels, batch.samples);
}

c10::Stream DeviceCopier::steps() const {
  return at::accelerator::getCurrentStream(device_.index());
}

}  // namespace autotuned::trainer
