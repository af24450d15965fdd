// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/loader/batch_ring.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <utility>

namespace autotuned::input {

BatchRing::BatchRing(std::int64_t samples, SampleOrder order)
    : samples_(order.share.samples_of(samples)),
      order_(samples, order.seed, order.is_shuffled, order.share),
      is_given_(order.is_given) {}

void BatchRing::configure(const LoaderSettings& settings, Position position) {
  batch_size_ = settings.batch_size;
  drop_last_ = settings.drop_last;
  slots_.resize(settings.ring.size());
  sequence_.assign(slots_.size(), 0);
  // A batch that is given may hold a sample several times.
  const auto most =
      static_cast<std::size_t>(is_given_ ? batch_size_ : std::min(batch_size_, samples_));
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].buffer = settings.ring[i];
    slots_[i].indices.resize(most);
    slots_[i].indices.shrink_to_fit();
  }
  seek(position);
}

void BatchRing::seek(Position position) {
  assert(position.epoch >= 0 && position.sample >= 0 && position.sample <= samples_);
  for (Slot& slot : slots_)
    slot.stage = Stage::free;
  given_.clear();
  begun_ = 0;
  delivered_ = 0;
  claiming_ = kNone;
  ready_count_ = 0;
  has_failed_ = false;
  begin_at_ = position;
  deliver_at_ = position;
}

void BatchRing::give(Position position, std::span<const std::uint32_t> indices) {
  assert(is_given_ && position.epoch >= 0 && position.sample >= 0);
  assert(!indices.empty() && std::ssize(indices) <= batch_size_);
  given_.push_back({position, {indices.begin(), indices.end()}});
}

bool BatchRing::can_claim() const {
  return claiming_ != kNone || (!has_failed_ && has_batch_to_begin() && free_slot() != kNone);
}

BatchRing::Chunk BatchRing::claim(std::int64_t most_samples) {
  assert(can_claim() && most_samples >= 1);
  if (claiming_ == kNone) begin_batch(free_slot());
  const int index = claiming_;
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  const std::int64_t begin = slot.claimed;
  slot.claimed = std::min(begin + most_samples, slot.batch.samples);
  if (slot.claimed == slot.batch.samples) claiming_ = kNone;
  const Position& first = slot.batch.position;
  return {index, begin, slot.buffer, Position{first.epoch, first.sample + begin},
          std::span(slot.indices)
              .subspan(static_cast<std::size_t>(begin),
                       static_cast<std::size_t>(slot.claimed - begin))};
}

bool BatchRing::fill(const Chunk& chunk, Result<void> written) {
  Slot& slot = slots_[static_cast<std::size_t>(chunk.slot)];
  assert(slot.stage == Stage::filling);
  if (!written) {
    has_failed_ = true;
    if (!slot.error || chunk.begin < slot.error_sample) {
      slot.error = std::move(written.error());
      slot.error_sample = chunk.begin;
    }
  }
  slot.filled += static_cast<std::int64_t>(chunk.indices.size());
  return slot.filled == slot.batch.samples;
}

const Batch* BatchRing::filled(int slot) const {
  const Slot& found = slots_[static_cast<std::size_t>(slot)];
  assert(found.stage == Stage::filling && found.filled == found.batch.samples);
  return found.error ? nullptr : &found.batch;
}

void BatchRing::complete(int slot, Result<void> finished) {
  Slot& found = slots_[static_cast<std::size_t>(slot)];
  assert(found.stage == Stage::filling && found.filled == found.batch.samples);
  if (!finished) {
    has_failed_ = true;
    if (!found.error) found.error = std::move(finished.error());
  }
  found.stage = Stage::ready;
  if (!found.error) ++ready_count_;
}

bool BatchRing::is_next_ready() const {
  return delivered_ < begun_ && slots_[static_cast<std::size_t>(due_slot())].stage == Stage::ready;
}

Result<Batch> BatchRing::deliver() {
  assert(is_next_ready());
  Slot& slot = slots_[static_cast<std::size_t>(due_slot())];
  if (slot.error) return tl::unexpected(*slot.error);
  slot.stage = Stage::held;
  ++delivered_;
  --ready_count_;
  deliver_at_ = slot.batch.position;
  deliver_at_.sample += slot.batch.samples;
  return slot.batch;
}

void BatchRing::release(int slot, const BatchBuffer* other) {
  assert(slot >= 0 && static_cast<std::size_t>(slot) < slots_.size());
  assert(slots_[static_cast<std::size_t>(slot)].stage == Stage::held);
  slots_[static_cast<std::size_t>(slot)].stage = Stage::free;
  if (other != nullptr) slots_[static_cast<std::size_t>(slot)].buffer = *other;
}

Position BatchRing::position() const {
  if (deliver_at_.sample == samples_) return {deliver_at_.epoch + 1, 0};
  return deliver_at_;
}

// The lowest, not the next in turn: what was written last is still in the cache.
int BatchRing::free_slot() const {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].stage == Stage::free) return static_cast<int>(i);
  }
  return kNone;
}

void BatchRing::begin_batch(int index) {
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  slot.stage = Stage::filling;
  slot.batch.slot = index;
  slot.claimed = 0;
  slot.filled = 0;
  slot.error.reset();
  if (is_given_) {
    take_given(slot);
  } else {
    take_from_order(slot);
  }
  sequence_[static_cast<std::size_t>(begun_) % sequence_.size()] = index;
  ++begun_;
  claiming_ = index;
}

void BatchRing::take_given(Slot& slot) {
  const Given& next = given_.front();
  slot.batch.samples = std::ssize(next.indices);
  slot.batch.position = next.position;
  slot.batch.ends_epoch = false;  // that is the caller's business
  std::ranges::copy(next.indices, slot.indices.begin());
  given_.pop_front();
}

void BatchRing::take_from_order(Slot& slot) {
  if (is_epoch_over_at(begin_at_.sample)) begin_at_ = {begin_at_.epoch + 1, 0};
  slot.batch.samples = std::min(batch_size_, samples_ - begin_at_.sample);
  slot.batch.position = begin_at_;
  const auto order = order_.of_epoch(begin_at_.epoch);
  std::copy_n(order.begin() + begin_at_.sample, slot.batch.samples, slot.indices.begin());
  begin_at_.sample += slot.batch.samples;
  slot.batch.ends_epoch = is_epoch_over_at(begin_at_.sample);
}

bool BatchRing::is_epoch_over_at(std::int64_t sample) const {
  return samples_ - sample < (drop_last_ ? batch_size_ : 1);
}

int BatchRing::due_slot() const {
  return sequence_[static_cast<std::size_t>(delivered_) % sequence_.size()];
}

}  // namespace autotuned::input
