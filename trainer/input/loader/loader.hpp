// SPDX-License-Identifier: Apache-2.0
// Fills batches ahead of the training step, in order, into buffers that the caller owns.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "trainer/input/common/epoch_order.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/loader/kept.hpp"
#include "trainer/input/loader/worker_cpus.hpp"
#include "trainer/input/pixels/part_span.hpp"
#include "trainer/input/transforms/pipeline.hpp"

namespace autotuned::input {

// Memory for one batch of LoaderSettings::batch_size samples, owned by the caller (a tensor's memory,
// pinned memory), aligned for the type.
struct BatchBuffer {
  void* images = nullptr;          // batch_size x Pipeline::made_bytes(pixel_type)
  std::int64_t* labels = nullptr;  // batch_size, of targets that are classes
  float* values = nullptr;         // batch_size x TargetType::width, of numbers and tags
  std::uint8_t* masks = nullptr;   // batch_size x Pipeline::mask_bytes(), of class masks
};

// The order of samples; fixed for the life of a loader.
struct SampleOrder {
  std::uint64_t seed = 1;
  bool is_shuffled = true;
  Share share = {};  // of several ranks; an epoch, and the positions in it, are those of this part
  // The order of somebody else: the caller gives the samples of each batch (Loader::give). Nothing above counts then.
  bool is_given = false;
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
  // Another form of the pipeline that the loader was created with, with the same shape. Must outlive the loader's use
  // of it. Null: the pipeline that the loader was created with.
  const Pipeline* pipeline = nullptr;
  // CPUs of the workers. `apart` excludes the CPU of the calling thread, whose own CPUs stay the same.
  Affinity affinity = Affinity::any;
  // A cache and an index of these data and of such pipelines. They must outlive the loader's use of them. Null: samples
  // are not kept, whatever the pipeline says.
  Kept kept;
};

struct Batch {
  int slot = 0;              // index into LoaderSettings::ring
  std::int64_t samples = 0;  // less than batch_size only in a short last batch
  Position position;         // of the first sample
  bool ends_epoch = false;   // the next batch belongs to the next epoch
  std::int64_t wait_ns = 0;  // time spent in next(), filling included when there are no workers
};

// Statistics since construction. producing_ns is summed over all threads that fill batches.
struct LoaderStatistics {
  std::int64_t samples = 0;
  std::int64_t producing_ns = 0;
  // Times of the pipeline's parts() since time_parts().
  std::int64_t timed_samples = 0;
  std::int64_t reading_ns = 0;
  std::vector<std::int64_t> part_ns;
};

// The source of batches. The last two measure the cost of loading: they repeat the samples of one batch, at most 64 MiB.
enum class Supply {
  data,
  stored_samples,  // stored bytes in memory: not read again
  made_samples,    // samples as batches hold them: only copied
};

// The sequence of samples depends on the order, the batch size and the position alone: never on
// workers, ring or timing. An epoch ends when fewer than batch_size samples remain (drop_last) or
// none; the next batch then starts the next epoch.
//
// Threads sleep unless there is a slot to fill and the loader is resumed. In the steady state
// neither it nor its decoders allocate memory, except for pictures that need more than PictureMemory keeps.
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
  // full; while paused it is filled in the caller's thread, so this always returns.
  // An Error (from Dataset::read, with the file) is returned instead of the batch that failed, after all batches before
  // it, and again until seek() or reconfigure().
  // REQUIRES: the caller holds fewer slots than the ring has. Where the order is given, a batch was given that was not
  // handed out yet.
  [[nodiscard]] Result<Batch> next();
  // The batch that follows those given before: its samples, and the position of the first one, by which samples draw their
  // random numbers. It has memory of its own until it gets a slot. seek() and reconfigure() forget the batches that were not
  // handed out.
  // REQUIRES: the order is given; 1 to batch_size indices, each below Dataset::size(); no negative position.
  void give(Position position, std::span<const std::uint32_t> indices);
  // Gives a slot back, in any order. With `other` the caller keeps the buffer of the slot, which has that one from now
  // on, of the same size. REQUIRES: held since next().
  void release(int slot, const BatchBuffer* other = nullptr);

  // Threads fill the ring only between resume() and pause(). pause() returns when all are idle.
  void resume();
  void pause();

  // The number of batches that are ready: full and not yet handed out.
  [[nodiscard]] int fullness() const;

  // The position of the batch that next() returns next. The end of an epoch reads as {epoch + 1, 0}.
  [[nodiscard]] Position position() const;
  // Discards ready batches and continues at this position. Slots that the caller holds count as released.
  // REQUIRES: epoch >= 0, 0 <= sample <= the samples of an epoch.
  void seek(Position position);

  // Changes the settings at the present position(); otherwise like seek(). A paused loader stays paused. On an Error
  // nothing has changed.
  // ErrorKind::invalid: negative workers, a batch size below 1, or above the samples of an epoch with
  // drop_last, or an empty ring. ErrorKind::unsupported: uint8 of a pipeline without a table, or the
  // system does not let threads be moved to other CPUs.
  // ErrorKind::out_of_memory: the threads cannot be started.
  [[nodiscard]] Result<void> reconfigure(LoaderSettings settings);

  [[nodiscard]] LoaderStatistics statistics() const;
  // Switches the timing of parts on or off, from the next chunk of samples on, and forgets earlier times.
  void time_parts(bool is_on);

  // The same, and records the spans of each thread until take_spans(): at most this number of spans.
  void record_spans(std::int64_t most);
  [[nodiscard]] PartSpans take_spans();

  // Adds samples to the cache and the index, in the order in which they come next, until all of this epoch are there,
  // the cache is full, `most` is over or `is_cancelled` returns true. Skips samples that cannot be read; the training
  // meets them later. Does nothing without cache and index. REQUIRES: paused.
  void fill_cache(int threads, std::chrono::nanoseconds most,
                  const std::function<bool()>& is_cancelled);

  // Changes the source from the next batch that is begun; ready batches stay, and positions continue. reconfigure()
  // returns to the data, and so does any error. ErrorKind::unsupported: the source would be the same as another; other
  // errors are those of next(). REQUIRES: paused.
  [[nodiscard]] Result<void> supply(Supply what);

 private:
  class State;
  explicit Loader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace autotuned::input
