// SPDX-License-Identifier: Apache-2.0
// Brings batches to the device as tensors: the loader's ring, the transfer, and the conversion of bytes after it.
// Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "trainer/feed/reuse.hpp"
#include "trainer/input/loader/loader.hpp"

namespace autotuned::trainer {

struct FeedSettings {
  int workers = 0;
  int prefetch_batches = 2;  // per worker
  std::int64_t batch_size = 32;
  bool drop_last = true;
  bool is_uint8 = false;  // bytes travel to the device and become numbers there
  bool pin_memory = false;
  bool non_blocking = false;
  bool is_channels_last = false;
  std::int64_t memory_allowed_bytes =
      0;                       // of which a part may be page-locked (feed_size.hpp); 0: unknown
  int read_ahead_batches = 0;  // how many batches ahead of the loader the system reads their files
  // Another form of the pipeline with which the feed was created; null: that pipeline. Must outlive its use.
  const input::Pipeline* pipeline = nullptr;
  // The cache and the index for that pipeline; null members are not used. Must outlive their use.
  input::Kept kept = {};
  input::Affinity affinity = input::Affinity::any;  // of the workers

  friend bool operator==(const FeedSettings&, const FeedSettings&) = default;
};

struct DeviceBatch {
  // float32 (samples, channels, rows, columns), in the settings' memory format; or tokens, int64 (samples, tokens)
  at::Tensor images;
  // The targets: classes are int64 (samples), or after mixed() float32 (samples, classes); numbers and tags are float32
  // (samples, values); class masks are int64 (samples, rows, columns), with input::kNoClass where a pixel does not
  // count. For tokens, the next token of each, int64 (samples, tokens).
  at::Tensor labels;
  std::int64_t samples = 0;
  std::int64_t wait_ns = 0;  // for the loader
  std::int64_t bytes = 0;    // handed over to the device
  bool ends_epoch = false;
  input::Position position = {};  // of the first sample
};

// On the CPU a float32 batch is used where the loader wrote it, without a copy. Tokens travel as int32.
//
// On a GPU the batch is copied; with non_blocking on a stream of its own, one batch ahead of the step. That part is
// written against LibTorch's device-generic interface.
//
// One thread. Functions throw c10::Error where they allocate or copy.
class Feed {
 public:
  // `dataset` and `pipeline` must outlive the feed. ErrorKind::unsupported: bytes are to be transferred, but the
  // pipeline gives none. ErrorKind::out_of_memory: too much memory would be page-locked. configure() has both errors,
  // too.
  [[nodiscard]] static Result<std::unique_ptr<Feed>> create(const input::Dataset& dataset,
                                                            input::SampleOrder order,
                                                            const input::Pipeline& pipeline,
                                                            at::Device device,
                                                            const FeedSettings& settings);
  ~Feed();
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  // Changes the settings at the present position; the ring starts empty. After an error nothing has changed. What is
  // page-locked for the settings before stays locked for a change back (PinnedCache).
  [[nodiscard]] Result<void> configure(const FeedSettings& settings);
  void give_back_pinned();  // what is kept so
  [[nodiscard]] const FeedSettings& settings() const;
  // The page-locked memory of the batches, without what is kept.
  [[nodiscard]] std::int64_t pinned_bytes() const;

  // Returns the next batch, whose tensors are valid until done(). Records the spans `data_wait` and `transfer`.
  [[nodiscard]] Result<DeviceBatch> next();
  // REQUIRES: the step that used the batch of the last next() is enqueued on the device.
  void done();
  // Starts the copy of the following batch, if copies run ahead. To be called when the step is enqueued.
  void run_ahead();

  void resume();
  void pause();
  [[nodiscard]] int fullness() const;  // batches that are ready

  // Makes next() reuse data instead of loading it, for a rung of the ladder, until end_reuse(), which must come before
  // configure() and seek(). With Reuse::host_batch no loader is needed; device_batch must be done by the caller.
  // ErrorKind::unsupported: this rung would be the same as another. REQUIRES (both functions): paused, and no batch is
  // held.
  [[nodiscard]] Result<void> begin_reuse(Reuse what);
  void end_reuse() noexcept;

  // The position of the batch that next() returns next.
  [[nodiscard]] input::Position position() const;
  // Goes on at `position`. Also drops a batch that the caller still holds after a failed step.
  void seek(input::Position position);
  [[nodiscard]] input::LoaderStatistics statistics() const;
  // DeviceFlow's and input::Loader's functions of these names.
  void time_transfers(bool is_on);
  void time_parts(bool is_on);
  void record_spans(std::int64_t most);
  [[nodiscard]] input::PartSpans take_spans();
  void fill_cache(int threads, std::chrono::nanoseconds most,
                  const std::function<bool()>& is_cancelled);

 private:
  class State;
  explicit Feed(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace autotuned::trainer
