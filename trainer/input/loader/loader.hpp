// SPDX-License-Identifier: Apache-2.0
// Fills batches ahead of the training step, in order, into buffers that the caller owns.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/loader/kept.hpp"
#include "trainer/input/loader/worker_cpus.hpp"
#include "trainer/input/transforms/part_span.hpp"
#include "trainer/input/transforms/pipeline.hpp"

namespace autotuned::input {

// Room for one batch of LoaderSettings::batch_size samples, owned by the caller (a tensor's memory,
// pinned memory). Any alignment that suits the type.
struct BatchBuffer {
  void* images = nullptr;          // batch_size x Pipeline::made_bytes(pixel_type)
  std::int64_t* labels = nullptr;  // batch_size
};

// Which sample comes when; fixed for the life of a loader.
struct SampleOrder {
  std::uint64_t seed = 1;
  bool is_shuffled = true;
};

struct LoaderSettings {
  int workers = 0;  // threads; 0: next() fills the batch in the caller's own thread
  std::int64_t batch_size = 32;
  bool drop_last = true;  // false: the last batch of an epoch may be short
  PixelType pixel_type = PixelType::float32;
  // The slots. At most so many batches are ready, being filled or in the caller's hands at a time:
  // prefetch_batches plus those that the caller holds at once (usually 1). At least 1.
  // Must stay valid until the next reconfigure() or the destructor.
  std::vector<BatchBuffer> ring;
  // Another form of the one that the loader was created with: the same shape, and it must outlive the
  // loader's use of it. Null: the one that it was created with.
  const Pipeline* pipeline = nullptr;
  // Of the workers; the calling thread, from whose CPU `apart` keeps them off, stays as it is.
  Affinity affinity = Affinity::any;
  // Of these data and such pipelines, and must outlive the loader's use of it. What is null is not kept,
  // whatever the pipeline says.
  Kept kept;
};

struct Batch {
  int slot = 0;              // index into LoaderSettings::ring
  std::int64_t samples = 0;  // less than batch_size only in a short last batch
  Position position;         // of the first sample
  bool ends_epoch = false;   // the next batch belongs to the next epoch
  std::int64_t wait_ns = 0;  // time spent in next(), filling included when there are no workers
};

// Since construction. producing_ns is summed over all threads that fill batches.
struct LoaderStatistics {
  std::int64_t samples = 0;
  std::int64_t producing_ns = 0;
  // Since time_parts(), of the pipeline's parts(): of the samples while it was on.
  std::int64_t timed_samples = 0;
  std::int64_t reading_ns = 0;
  std::vector<std::int64_t> part_ns;
};

// What batches are made of. All but the first are for measuring what loading costs: the samples of
// one batch, at most 64 MiB of them, again and again.
enum class Supply {
  data,
  stored_samples,  // as they are stored: they need not be read
  made_samples,    // as batches hold them: they are copied
};

// The sequence of samples depends on the order, the batch size and the position alone: never on
// workers, ring or timing. An epoch ends when fewer than batch_size samples remain (drop_last) or
// none; the next batch then starts the next epoch.
//
// Threads sleep unless there is a slot to fill and the loader is resumed. Steady state allocates
// nothing, nor do the decoders behind it, but for pictures that take more than PictureMemory keeps.
// One thread (the trainer's) calls everything; release(), fullness(), position() and
// statistics() may also come from others, though not during reconfigure() or seek().
class Loader {
 public:
  // Starts paused, at {0, 0}. `dataset` and `pipeline` must outlive the loader. Errors: see
  // reconfigure(). REQUIRES: the pipeline was compiled for the data's type.
  [[nodiscard]] static Result<std::unique_ptr<Loader>> create(const Dataset& dataset,
                                                              SampleOrder order,
                                                              const Pipeline& pipeline,
                                                              LoaderSettings settings);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch in order; its slot belongs to the caller until release(). Blocks until it is
  // full; while paused it is filled in the caller's thread, so this never waits for ever.
  // An Error (from Dataset::read, naming the file) takes the place of the batch that failed, after
  // all batches before it, and comes again until seek() or reconfigure().
  // REQUIRES: the caller holds fewer slots than the ring has.
  [[nodiscard]] Result<Batch> next();
  // Gives a slot back, in any order. REQUIRES: held since next().
  void release(int slot);

  // Threads fill the ring only between resume() and pause(). pause() returns when all are idle.
  void resume();
  void pause();

  // The number of batches that are ready: full and not yet handed out.
  [[nodiscard]] int fullness() const;

  // Of the batch that next() returns next. A position at an epoch's very end reads as {epoch + 1, 0}.
  [[nodiscard]] Position position() const;
  // Discards what is ready and goes on from there. Slots that the caller holds count as released.
  // REQUIRES: epoch >= 0, 0 <= sample <= the data set's size.
  void seek(Position position);

  // Takes on other settings at the present position(); otherwise like seek(). Whether it is paused
  // stays as it was. On an Error nothing has changed.
  // ErrorKind::invalid: negative workers, a batch size below 1, or above the data set's size with
  // drop_last, or an empty ring. ErrorKind::unsupported: uint8 of a pipeline without a table, or the
  // system does not let threads be moved to other CPUs.
  // ErrorKind::out_of_memory: the threads cannot be started.
  [[nodiscard]] Result<void> reconfigure(LoaderSettings settings);

  [[nodiscard]] LoaderStatistics statistics() const;
  // Whether the time of every part is taken, from the next chunk of samples on; forgets what was.
  void time_parts(bool is_on);

  // The same, and when each thread worked on which part, until take_spans(): at most so many stretches.
  void record_spans(std::int64_t most);
  [[nodiscard]] PartSpans take_spans();

  // Puts samples into the cache and the index, in the order in which they come next, until all of this epoch
  // are there, their bytes are used up, `most` is over or `is_cancelled` says so. What cannot be read is passed
  // over: it comes again when its turn is. Nothing without either. REQUIRES: paused.
  void fill_cache(int threads, std::chrono::nanoseconds most,
                  const std::function<bool()>& is_cancelled);

  // From the next batch that is begun; those that are ready stay. Positions go on as ever.
  // reconfigure() returns to the data. ErrorKind::unsupported: it would be the same; others are
  // those of next(). Back to the data after any error. REQUIRES: paused.
  [[nodiscard]] Result<void> supply(Supply what);

 private:
  class State;
  explicit Loader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace autotuned::input
