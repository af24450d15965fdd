// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/loader/loader.hpp"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "trainer/input/loader/batch_ring.hpp"
#include "trainer/input/loader/fill_kept.hpp"
#include "trainer/input/loader/loader_check.hpp"
#include "trainer/input/loader/sample_writer.hpp"
#include "trainer/input/loader/stand_in.hpp"

namespace autotuned::input {
namespace {

// How long a thread works between two looks at the ring: long enough for the lock not to count,
// short enough for pause(), and for threads to share a batch of slow samples.
constexpr double kChunkNs = 100'000;

std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

class Loader::State {
 public:
  using Lock = std::unique_lock<std::mutex>;
  using Guard = std::lock_guard<std::mutex>;
  struct Workers {
    std::size_t threads = 0;
    Affinity affinity = Affinity::any;
  };

  State(const Dataset& dataset, SampleOrder order, const Pipeline& pipeline)
      : samples_(order.share.samples_of(dataset.size())),
        order_(order),
        dataset_(dataset),
        first_pipeline_(pipeline),
        pipeline_(&pipeline),
        writer_(std::in_place, dataset, pipeline),
        callers_scratch_(writer_->make_scratch()),
        ring_(dataset.size(), order) {}
  ~State() { keep_threads(0); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Result<Batch> next();
  void give(Position position, std::span<const std::uint32_t> indices) {
    const Guard guard(mutex_);
    ring_.give(position, indices);
    if (is_running_) work_.notify_one();
  }
  void release(int slot, const BatchBuffer* other = nullptr) {
    const Guard guard(mutex_);
    ring_.release(slot, other);
    if (is_running_) work_.notify_one();
  }
  void resume() {
    const Guard guard(mutex_);
    is_running_ = true;
    work_.notify_all();
  }
  bool pause();  // whether it was running
  void seek(Position position) {
    const bool was_running = pause();
    {
      const Guard guard(mutex_);
      ring_.seek(position);
    }
    if (was_running) resume();
  }
  Result<void> reconfigure(LoaderSettings settings);

  int fullness() const {
    const Guard guard(mutex_);
    return ring_.ready_count();
  }
  Position position() const {
    const Guard guard(mutex_);
    return ring_.position();
  }
  LoaderStatistics statistics() const {
    const Guard guard(mutex_);
    return statistics_;
  }
  void time_parts(bool is_on);
  void record_spans(std::int64_t most) {
    time_parts(true);
    const Guard guard(mutex_);
    spans_ = {};
    most_spans_ = most;
  }
  PartSpans take_spans() {
    time_parts(false);
    const Guard guard(mutex_);
    most_spans_ = 0;
    return std::exchange(spans_, {});
  }
  void fill_cache(int threads, std::chrono::nanoseconds most,
                  const std::function<bool()>& is_cancelled);
  Result<void> supply(Supply what);

 private:
  // Claims, fills and finishes one chunk. REQUIRES: ring_.can_claim(). Lets go of the lock meanwhile.
  void fill_chunk(Lock& lock, SampleWriter::Scratch& scratch);
  std::int64_t chunk_samples() const;
  bool has_batch_stages(PixelType type) const {
    return pipeline_->has_batch_stages(type) &&
           (stand_in_ == nullptr || !stand_in_->makes_whole_batches());
  }
  bool is_filled_by_caller() const { return threads_.empty() || !is_running_; }

  Result<void> write(BatchRing::Chunk chunk, PixelType type, SampleWriter::Scratch& scratch);
  Result<void> finish(const Batch& batch, const BatchRing::Chunk& chunk, PixelType type,
                      SampleWriter::Scratch& scratch);
  // From here on; threads keep what they need for one pipeline, so that another takes other threads.
  Result<void> use(const Pipeline& pipeline, Kept kept, Workers workers);
  void add_times(SampleWriter::Scratch& scratch, std::int64_t samples);
  void add_spans(SampleWriter::Scratch& scratch, PartSpan chunk);

  void work(const std::stop_token& stop, SampleWriter::Scratch scratch);
  Result<void> set_workers(Workers workers);
  void keep_threads(std::size_t count);  // ends all others
  EpochOrder epoch_order() const {
    return {dataset_.size(), order_.seed, order_.is_shuffled, order_.share};
  }

  const std::int64_t samples_;  // of an epoch
  const SampleOrder order_;
  const Dataset& dataset_;
  const Pipeline& first_pipeline_;

  // Changed only while no thread fills.
  const Pipeline* pipeline_;
  Kept kept_;
  std::optional<SampleWriter> writer_;
  std::unique_ptr<const StandIn> stand_in_;  // null: batches are of the data
  SampleWriter::Scratch callers_scratch_;
  // A slot's batch before the stages over the whole of it.
  std::vector<std::vector<float>> assembled_;

  mutable std::mutex mutex_;       // guards all below, except threads_
  std::condition_variable work_;   // there may be something to claim, or it is time to leave
  std::condition_variable ready_;  // the batch that is due is ready
  std::condition_variable idle_;   // paused, and nobody fills any more
  BatchRing ring_;
  PixelType pixel_type_ = PixelType::float32;
  std::int64_t batch_size_ = 1;
  bool is_running_ = false;
  int filling_ = 0;           // chunks in work
  double ns_per_sample_ = 0;  // recent, for the size of a chunk
  LoaderStatistics statistics_;
  bool times_parts_ = false;
  PartSpans spans_;
  std::int64_t most_spans_ = 0;  // 0: nobody records

  std::vector<std::jthread> threads_;  // of the thread that calls
  Affinity affinity_ = Affinity::any;  // of all of them
};

Result<Batch> Loader::State::next() {
  Lock lock(mutex_);
  if (ring_.is_next_ready()) return ring_.deliver();
  const std::int64_t start_ns = now_ns();
  while (!ring_.is_next_ready()) {
    assert(ring_.can_be_ready() && "the caller holds every slot, or has given no batch");
    if (is_filled_by_caller()) {
      fill_chunk(lock, callers_scratch_);
    } else {
      ready_.wait(lock);
    }
  }
  auto batch = ring_.deliver();
  lock.unlock();
  if (batch) batch->wait_ns = now_ns() - start_ns;
  return batch;
}

bool Loader::State::pause() {
  Lock lock(mutex_);
  const bool was_running = std::exchange(is_running_, false);
  idle_.wait(lock, [this] { return filling_ == 0; });
  return was_running;
}

Result<void> Loader::State::reconfigure(LoaderSettings settings) {
  const Pipeline& pipeline = settings.pipeline != nullptr ? *settings.pipeline : first_pipeline_;
  assert(pipeline.shape() == first_pipeline_.shape());
  auto checked = check(settings, samples_, pipeline);
  if (!checked) return checked;
  const bool was_running = pause();
  const Workers before{threads_.size(), affinity_};
  const Workers workers{static_cast<std::size_t>(settings.workers), settings.affinity};
  const Pipeline& pipeline_before = *pipeline_;
  const Kept kept_before = kept_;
  auto assembled = room_to_assemble(settings, pipeline);
  stand_in_.reset();
  auto started =
      assembled ? use(pipeline, settings.kept, workers) : tl::unexpected(assembled.error());
  if (started) {
    const Guard guard(mutex_);
    assembled_ = std::move(*assembled);
    ring_.configure(settings, ring_.position());
    pixel_type_ = settings.pixel_type;
    batch_size_ = settings.batch_size;
  } else if (&pipeline_before != pipeline_ || kept_before != kept_ ||
             before.threads != threads_.size()) {
    // These threads were there before: only a machine in distress has no room for them now.
    (void)use(pipeline_before, kept_before, before);
  }
  if (was_running) resume();
  return started;
}

void Loader::State::fill_chunk(Lock& lock, SampleWriter::Scratch& scratch) {
  assert(ring_.can_claim());
  const BatchRing::Chunk chunk = ring_.claim(chunk_samples());
  ++filling_;
  if (ring_.can_claim()) work_.notify_one();
  const PixelType type = pixel_type_;
  scratch.part_ns.resize(times_parts_ ? pipeline_->parts().size() : 0);
  scratch.keeps_spans = most_spans_ > 0;
  lock.unlock();

  const std::int64_t start_ns = now_ns();
  auto written = write(chunk, type, scratch);
  std::int64_t end_ns = now_ns();
  std::int64_t duration_ns = end_ns - start_ns;

  lock.lock();
  if (ring_.fill(chunk, std::move(written))) {
    const Batch* const batch = ring_.filled(chunk.slot);
    Result<void> finished;
    if (batch != nullptr && has_batch_stages(type)) {
      lock.unlock();
      const std::int64_t filled_ns = now_ns();
      finished = finish(*batch, chunk, type, scratch);
      end_ns = now_ns();
      duration_ns += end_ns - filled_ns;
      lock.lock();
    }
    ring_.complete(chunk.slot, std::move(finished));
  }
  --filling_;
  const auto samples = static_cast<std::int64_t>(chunk.indices.size());
  statistics_.samples += samples;
  statistics_.producing_ns += duration_ns;
  if (!scratch.part_ns.empty()) add_times(scratch, samples);
  if (scratch.keeps_spans) {
    add_spans(
        scratch,
        {.part = PartSpan::kChunk, .thread = ::gettid(), .start_ns = start_ns, .end_ns = end_ns});
  }
  const double ns_per_sample = static_cast<double>(duration_ns) / static_cast<double>(samples);
  constexpr double kNewShare = 0.25;
  ns_per_sample_ = ns_per_sample_ == 0
                       ? ns_per_sample
                       : ns_per_sample_ + kNewShare * (ns_per_sample - ns_per_sample_);
  if (ring_.is_next_ready()) ready_.notify_one();
  if (!is_running_ && filling_ == 0) idle_.notify_one();
}

void Loader::State::add_times(SampleWriter::Scratch& scratch, std::int64_t samples) {
  if (times_parts_) {
    statistics_.timed_samples += samples;
    statistics_.reading_ns += scratch.stored_ns;
    for (std::size_t i = 0; i < scratch.part_ns.size(); ++i)
      statistics_.part_ns[i] += scratch.part_ns[i];
  }
  scratch.stored_ns = 0;
  std::ranges::fill(scratch.part_ns, 0);
}

void Loader::State::add_spans(SampleWriter::Scratch& scratch, PartSpan chunk) {
  const auto add = [this](const PartSpan& span) {
    if (most_spans_ == 0) return;
    if (static_cast<std::int64_t>(spans_.spans.size()) < most_spans_) {
      spans_.spans.push_back(span);
    } else {
      ++spans_.lost;
    }
  };
  add(chunk);
  for (PartSpan& span : scratch.spans) {
    span.thread = chunk.thread;
    add(span);
  }
  scratch.spans.clear();
}

void Loader::State::time_parts(bool is_on) {
  const Guard guard(mutex_);
  times_parts_ = is_on;
  statistics_.timed_samples = 0;
  statistics_.reading_ns = 0;
  statistics_.part_ns.assign(is_on ? pipeline_->parts().size() : 0, 0);
}

void Loader::State::fill_cache(int threads, std::chrono::nanoseconds most,
                               const std::function<bool()>& is_cancelled) {
  if (kept_ == Kept{}) return;
  const Position from = position();
  EpochOrder order = epoch_order();
  fill_kept(*writer_, order.of_epoch(from.epoch), from.sample, threads, most, is_cancelled);
}

Result<void> Loader::State::supply(Supply what) {
  assert(!is_running_);
  if (what == Supply::data && stand_in_ == nullptr) return {};
  stand_in_.reset();
  // A batch that was begun with stages over the whole of it must end with them, and the reverse.
  if (pipeline_->has_batch_stages(pixel_type_)) seek(position());
  if (what == Supply::data) return {};
  const bool is_in_memory = kept_.cache != nullptr || !dataset_.view(0).empty();
  if (is_in_memory && (what == Supply::stored_samples || writer_->only_copies(pixel_type_))) {
    return fail(ErrorKind::unsupported, "the samples already have this form in memory", "loader");
  }
  if (what == Supply::made_samples) {
    const auto batch = next();
    if (!batch) return tl::unexpected(batch.error());
    stand_in_ = made_samples(ring_.buffer(batch->slot), batch->samples,
                             pipeline_->made_bytes(pixel_type_), writer_->target_size());
    release(batch->slot);
    return {};
  }
  EpochOrder order = epoch_order();
  auto stored = stored_samples(dataset_, *pipeline_, order, position(), batch_size_);
  if (!stored) return tl::unexpected(stored.error());
  stand_in_ = std::move(*stored);
  return {};
}

Result<void> Loader::State::write(BatchRing::Chunk chunk, PixelType type,
                                  SampleWriter::Scratch& scratch) {
  if (has_batch_stages(type)) {
    chunk.buffer.images = assembled_[static_cast<std::size_t>(chunk.slot)].data();
  }
  return stand_in_ != nullptr ? stand_in_->write(chunk, type, scratch)
                              : writer_->write(chunk, type, scratch);
}

Result<void> Loader::State::finish(const Batch& batch, const BatchRing::Chunk& chunk,
                                   PixelType type, SampleWriter::Scratch& scratch) {
  try {
    pipeline_->finish_batch(assembled_[static_cast<std::size_t>(chunk.slot)].data(), batch.samples,
                            batch.position, type, chunk.buffer.images, scratch);
    return {};
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::out_of_memory, "no memory to finish a batch", "loader",
                "use smaller batches, or input.point_ops: fused");
  }
}

std::int64_t Loader::State::chunk_samples() const {
  if (is_filled_by_caller()) return batch_size_;
  if (ns_per_sample_ == 0) return 1;  // nothing is known yet
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(kChunkNs / ns_per_sample_));
}

void Loader::State::work(const std::stop_token& stop, SampleWriter::Scratch scratch) {
  Lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return stop.stop_requested() || (is_running_ && ring_.can_claim()); });
    if (stop.stop_requested()) return;
    fill_chunk(lock, scratch);
  }
}

Result<void> Loader::State::use(const Pipeline& pipeline, Kept kept, Workers workers) {
  if (&pipeline != pipeline_ || kept != kept_) {
    try {
      // First what may fail: until then the loader is as it was.
      SampleWriter::Scratch scratch = SampleWriter(dataset_, pipeline).make_scratch();
      keep_threads(0);
      callers_scratch_ = std::move(scratch);
    } catch (const std::bad_alloc&) {
      return fail(ErrorKind::out_of_memory, "no memory for another configuration of the input",
                  "loader", "use fewer workers or smaller batches");
    }
    pipeline_ = &pipeline;
    kept_ = kept;
    time_parts(false);  // other parts
    writer_.emplace(dataset_, pipeline, kept);
  }
  return set_workers(workers);
}

Result<void> Loader::State::set_workers(Workers workers) {
  const std::size_t before = threads_.size();
  if (workers.threads < before) keep_threads(workers.threads);
  try {
    while (threads_.size() < workers.threads) {
      threads_.emplace_back(
          [this, scratch = writer_->make_scratch()](const std::stop_token& stop) mutable {
            work(stop, std::move(scratch));
          });
    }
  } catch (const std::exception& error) {
    keep_threads(before);
    return fail(
        ErrorKind::out_of_memory,
        "cannot start " + std::to_string(workers.threads) + " threads (" + error.what() + ")",
        "loader", "use fewer workers");
  }
  // They wait meanwhile. New ones are where the calling thread may be.
  if (workers.affinity == Affinity::any && affinity_ == Affinity::any) return {};
  auto placed = place_threads(threads_, workers.affinity);
  if (!placed) {
    keep_threads(std::min(before, threads_.size()));
    (void)place_threads(threads_, affinity_);
    return placed;
  }
  affinity_ = workers.affinity;
  return {};
}

void Loader::State::keep_threads(std::size_t count) {
  {
    const Guard guard(mutex_);
    for (std::size_t i = count; i < threads_.size(); ++i)
      threads_[i].request_stop();
    work_.notify_all();
  }
  threads_.resize(count);  // joins
}

Result<std::unique_ptr<Loader>> Loader::create(const Dataset& dataset, SampleOrder order,
                                               const Pipeline& pipeline, LoaderSettings settings) {
  std::unique_ptr<Loader> loader(new Loader(std::make_unique<State>(dataset, order, pipeline)));
  auto configured = loader->reconfigure(std::move(settings));
  if (!configured) return tl::unexpected(configured.error());
  return loader;
}

Loader::Loader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Loader::~Loader() = default;

Result<Batch> Loader::next() {
  return state_->next();
}
void Loader::give(Position position, std::span<const std::uint32_t> indices) {
  state_->give(position, indices);
}
void Loader::release(int slot, const BatchBuffer* other) {
  state_->release(slot, other);
}
void Loader::resume() {
  state_->resume();
}
void Loader::pause() {
  state_->pause();
}
int Loader::fullness() const {
  return state_->fullness();
}
Position Loader::position() const {
  return state_->position();
}
void Loader::seek(Position position) {
  state_->seek(position);
}
Result<void> Loader::reconfigure(LoaderSettings settings) {
  return state_->reconfigure(std::move(settings));
}
LoaderStatistics Loader::statistics() const {
  return state_->statistics();
}
void Loader::time_parts(bool is_on) {
  state_->time_parts(is_on);
}
void Loader::record_spans(std::int64_t most) {
  state_->record_spans(most);
}
PartSpans Loader::take_spans() {
  return state_->take_spans();
}
void Loader::fill_cache(int threads, std::chrono::nanoseconds most,
                        const std::function<bool()>& is_cancelled) {
  state_->fill_cache(threads, most, is_cancelled);
}
Result<void> Loader::supply(Supply what) {
  return state_->supply(what);
}

}  // namespace autotuned::input
