// SPDX-License-Identifier: Apache-2.0
// The state of a loader's slots: the batch in each slot, and the samples that are not filled yet.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "trainer/input/common/epoch_order.hpp"
#include "trainer/input/loader/loader.hpp"

namespace autotuned::input {

// A batch is *begun* when it gets a slot; threads then *claim* its samples in chunks and fill
// them; it is *ready* when all are filled and *held* once it is delivered, in the order of beginning.
// At most one batch has unclaimed samples, so that threads share the batch that is needed first.
//
// Does no work and starts no thread: the owner locks around every call.
class BatchRing {
 public:
  // A part of a batch that one thread fills without the lock. Stays valid until it is finished:
  // the ring must not be configured or moved to another place meanwhile.
  struct Chunk {
    int slot = 0;
    std::int64_t begin = 0;  // sample in the batch
    BatchBuffer buffer;
    Position position;  // of that sample
    std::span<const std::uint32_t> indices;
  };

  // The data has `samples` samples.
  BatchRing(std::int64_t samples, SampleOrder order);

  // Forgets every batch and goes on at `position`. The only call that allocates, but for give().
  void configure(const LoaderSettings& settings, Position position);
  void seek(Position position);

  // Loader::give().
  void give(Position position, std::span<const std::uint32_t> indices);

  // Whether a batch has unclaimed samples or could begin.
  [[nodiscard]] bool can_claim() const;
  // REQUIRES: can_claim(), most_samples >= 1.
  [[nodiscard]] Chunk claim(std::int64_t most_samples);
  // Counts the chunk as filled, or fails its batch if `written` is an Error: of several errors the batch keeps that of
  // the first sample, and no further batch begins. Returns true if the whole batch is filled: then call complete().
  [[nodiscard]] bool fill(const Chunk& chunk, Result<void> written);
  // The batch of a slot; null: it failed. REQUIRES: fill() gave true for it.
  [[nodiscard]] const Batch* filled(int slot) const;
  // Makes the batch ready, or fails it if `finished` is an Error: then no further batch begins.
  // REQUIRES: fill() gave true for it.
  void complete(int slot, Result<void> finished = {});

  // Whether the next batch to deliver is full or has failed.
  [[nodiscard]] bool is_next_ready() const;
  // Whether the next batch can become ready: not if the caller holds every slot, or has given none.
  [[nodiscard]] bool can_be_ready() const { return delivered_ < begun_ || can_claim(); }
  // REQUIRES: is_next_ready(). A failed batch stays the next one to deliver.
  [[nodiscard]] Result<Batch> deliver();
  // With `other`, the slot has that buffer from now on.
  void release(int slot, const BatchBuffer* other = nullptr);
  [[nodiscard]] const BatchBuffer& buffer(int slot) const {
    return slots_[static_cast<std::size_t>(slot)].buffer;
  }

  [[nodiscard]] int ready_count() const { return ready_count_; }
  // The slot of the next batch to deliver.
  [[nodiscard]] Position position() const;

 private:
  enum class Stage { free, filling, ready, held };

  struct Slot {
    BatchBuffer buffer;
    Stage stage = Stage::free;
    Batch batch;
    std::vector<std::uint32_t> indices;  // a copy: batches of several epochs may be in the ring
    std::int64_t claimed = 0;
    std::int64_t filled = 0;
    std::optional<Error> error;
    std::int64_t error_sample = 0;
  };

  struct Given {
    Position position;
    std::vector<std::uint32_t> indices;
  };

  static constexpr int kNone = -1;

  [[nodiscard]] int free_slot() const;
  [[nodiscard]] bool has_batch_to_begin() const { return !is_given_ || !given_.empty(); }
  void begin_batch(int slot);
  void take_given(Slot& slot);
  void take_from_order(Slot& slot);
  [[nodiscard]] bool is_epoch_over_at(std::int64_t sample) const;
  [[nodiscard]] int due_slot() const;

  std::int64_t samples_;  // of an epoch
  EpochOrder order_;
  bool is_given_;
  std::deque<Given> given_;  // and not begun
  std::int64_t batch_size_ = 1;
  bool drop_last_ = true;
  std::vector<Slot> slots_;
  std::vector<int> sequence_;  // slot of batch n at n % size, for begun and not delivered batches
  std::int64_t begun_ = 0;
  std::int64_t delivered_ = 0;
  int claiming_ = kNone;  // the slot with unclaimed samples
  int ready_count_ = 0;
  bool has_failed_ = false;
  Position begin_at_;    // of the next batch to begin
  Position deliver_at_;  // of the next batch to deliver
};

}  // namespace autotuned::input
