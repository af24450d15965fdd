// SPDX-License-Identifier: Apache-2.0
// The order in which batches are copied to a device: which slot and which landing buffer, and who waits for whom.
// Private to trainer/; knows neither LibTorch nor a device, so that tests show the order on a CPU.
//
// Steps run on one stream of the device. Copies run on the same one, or beside it on a stream of their own, one batch
// ahead of the step. A batch is in a slot of the loader's ring until its copy is over, and in one of two landing
// buffers ("landings") on the device until the step that uses it is over.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.hpp"
#include "trainer/input/common/epoch_order.hpp"

namespace autotuned::trainer {

// A batch that was taken from the loader.
struct TakenBatch {
  int slot = -1;  // -1: given back already
  std::int64_t samples = 0;
  std::int64_t wait_ns = 0;
  input::Position position;
  bool ends_epoch = false;
  int landing = -1;          // -1: not copied
  bool is_repeated = false;  // the source keeps it and gives it again
};

// The source of batches: the loader, or the same batch again and again.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual Result<TakenBatch> take() = 0;
  // The slot may be filled again.
  virtual void give_back(const TakenBatch& batch) = 0;
  // Goes back to `position`, as if the batches from there on had not been taken; they count as given back.
  virtual void go_back_to(input::Position position) = 0;
};

// The operations on the device. All only enqueue work, except copy() and the functions in which the caller waits.
class Copier {
 public:
  virtual ~Copier() = default;
  // Copies on the stream of the steps; the copy is over on return.
  virtual void copy(const TakenBatch& batch) = 0;
  // Enqueues the copy on the stream of copies.
  virtual void copy_beside(const TakenBatch& batch) = 0;
  // Copies that come from now on wait for the steps until the last mark_used() of this landing.
  virtual void let_copies_wait(int landing) = 0;
  // The copies enqueued so far fill this landing.
  virtual void mark_copied(int landing) = 0;
  // Steps that come from now on wait for the last mark_copied() of this landing.
  virtual void let_steps_wait(int landing) = 0;
  // The steps enqueued so far use this landing.
  virtual void mark_used(int landing) = 0;
  // The caller waits for the last mark_copied() of this landing.
  virtual void wait_for_copy(int landing) = 0;
  // The caller waits until the device has nothing left to do.
  virtual void wait_for_device() = 0;
};

class DeviceFlow {
 public:
  static constexpr int kLandings = 2;

  // Both must outlive it. `is_beside`: copies run beside the steps.
  DeviceFlow(BatchSource& source, Copier& copier, bool is_beside)
      : source_(source), copier_(copier), is_beside_(is_beside) {}

  // The next batch, in its landing; steps enqueued from now on find it there.
  [[nodiscard]] Result<TakenBatch> next();
  // REQUIRES: next(), and the step that uses it is enqueued.
  void done();
  // Starts the copy of the following batch, where copies run beside. An error comes again from next().
  void run_ahead();
  // Drops the batch that the caller holds and the one that is copied ahead. Their copies are over on return, so that
  // their slots are free for the loader's next seek().
  void drop();
  // Drops the batch that is copied ahead if it is a repeated one.
  void drop_repeated();
  // Waits until no copy is under way. To be called before the memory of a copy is freed.
  void settle();
  // While on, the span `transfer` holds the copy alone: a copy that the caller waits for also waits for the steps
  // before it, so those are waited for first.
  void time_transfers(bool is_on) { times_transfers_ = is_on; }

  // The batch that is copied ahead, or being copied, and not asked for yet; null: none.
  [[nodiscard]] const TakenBatch* ahead() const { return ahead_ ? &*ahead_ : nullptr; }

 private:
  Result<void> start_copy();
  void wait_for_copy(const TakenBatch& batch);

  BatchSource& source_;
  Copier& copier_;
  bool is_beside_;
  bool times_transfers_ = false;
  std::optional<TakenBatch> held_;  // between next() and done()
  std::optional<TakenBatch> ahead_;
  int next_landing_ = 0;
};

}  // namespace autotuned::trainer
