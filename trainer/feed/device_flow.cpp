// SPDX-License-Identifier: Apache-2.0
#include "trainer/feed/device_flow.hpp"

#include <cassert>
#include <utility>

#include "profiler/spans.hpp"

namespace autotuned::trainer {

Result<TakenBatch> DeviceFlow::next() {
  assert(!held_);
  if (!ahead_) {
    if (auto started = start_copy(); !started) return tl::unexpected(started.error());
  }
  held_ = std::exchange(ahead_, std::nullopt);
  if (is_beside_) copier_.let_steps_wait(held_->landing);
  return *held_;
}

Result<void> DeviceFlow::start_copy() {
  auto taken = source_.take();
  if (!taken) return tl::unexpected(taken.error());
  if (times_transfers_ && !is_beside_) copier_.wait_for_device();
  const profiler::Span span(profiler::span::kTransfer);
  taken->landing = next_landing_;
  next_landing_ = (next_landing_ + 1) % kLandings;
  if (is_beside_) {
    copier_.let_copies_wait(taken->landing);
    copier_.copy_beside(*taken);
    copier_.mark_copied(taken->landing);
  } else {
    copier_.copy(*taken);
    source_.give_back(*taken);
    taken->slot = -1;
  }
  ahead_ = *taken;
  return {};
}

void DeviceFlow::done() {
  assert(held_);
  if (is_beside_) {
    wait_for_copy(*held_);
    source_.give_back(*held_);
    copier_.mark_used(held_->landing);
  }
  held_.reset();
}

void DeviceFlow::run_ahead() {
  if (!is_beside_ || ahead_) return;
  (void)start_copy();
}

void DeviceFlow::drop() {
  if (const auto held = std::exchange(held_, std::nullopt)) {
    wait_for_copy(*held);
    // A step that failed may have enqueued a part of itself.
    if (is_beside_) copier_.mark_used(held->landing);
  }
  if (const auto ahead = std::exchange(ahead_, std::nullopt)) {
    wait_for_copy(*ahead);
    source_.go_back_to(ahead->position);
  }
}

void DeviceFlow::drop_repeated() {
  if (held_ && held_->is_repeated) wait_for_copy(*held_);
  if (!ahead_ || !ahead_->is_repeated) return;
  wait_for_copy(*std::exchange(ahead_, std::nullopt));
}

void DeviceFlow::settle() {
  if (held_) wait_for_copy(*held_);
  if (ahead_) wait_for_copy(*ahead_);
}

void DeviceFlow::wait_for_copy(const TakenBatch& batch) {
  if (is_beside_) copier_.wait_for_copy(batch.landing);
}

}  // namespace autotuned::trainer
