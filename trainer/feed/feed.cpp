// SPDX-License-Identifier: Apache-2.0
#include "trainer/feed/feed.hpp"

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>

#include <array>
#include <cassert>
#include <optional>
#include <vector>

#include "profiler/spans.hpp"
#include "trainer/common/device.hpp"
#include "trainer/feed/device_copier.hpp"
#include "trainer/feed/device_flow.hpp"
#include "trainer/feed/device_pass.hpp"
#include "trainer/feed/feed_buffers.hpp"
#include "trainer/feed/feed_size.hpp"
#include "trainer/feed/pinned_cache.hpp"
#include "trainer/input/loader/read_ahead.hpp"

namespace autotuned::trainer {
namespace {

using profiler::Span;

}  // namespace

class Feed::State final : public BatchSource {
 public:
  State(const input::Pipeline& pipeline, at::Device device)
      : shape_(pipeline.shape()),
        first_pipeline_(pipeline),
        pipeline_(&pipeline),
        device_(device),
        pinned_cache_(device.str()) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  // Memory that is copied to or from is not given back before.
  ~State() override {
    try {
      if (flow_) flow_->settle();
    } catch (const c10::Error&) {
      // A device in that state fails whatever comes next, too.
    }
  }

  Result<void> start(const input::Dataset& dataset, input::SampleOrder order,
                     const FeedSettings& settings) {
    target_ = dataset.target();
    if (auto fits = check_pinned(settings); !fits) return fits;
    Buffers buffers = allocate(settings);
    dataset_ = &dataset;
    order_ = order;
    auto read_ahead = make_read_ahead(settings, buffers);
    if (!read_ahead) return tl::unexpected(read_ahead.error());
    auto loader =
        input::Loader::create(dataset, order, *pipeline_, loader_settings(settings, buffers.ring));
    if (!loader) return tl::unexpected(loader.error());
    loader_ = std::move(*loader);
    adopt(settings, std::move(buffers));
    use(std::move(*read_ahead));
    return {};
  }

  Result<void> configure(const FeedSettings& settings) {
    if (auto fits = check_pinned(settings); !fits) return fits;
    pinned_cache_.make_way_for(pinned_blocks(settings));
    Buffers buffers = allocate(settings);
    auto read_ahead = make_read_ahead(settings, buffers);
    if (!read_ahead) return tl::unexpected(read_ahead.error());
    give_up_taken();
    const auto changed = loader_->reconfigure(loader_settings(settings, buffers.ring));
    if (!changed) return changed;
    adopt(settings, std::move(buffers));
    use(std::move(*read_ahead));
    return {};
  }

  void resume() {
    is_loading_ = true;
    loader_->resume();
    if (read_ahead_ != nullptr) read_ahead_->resume();
  }

  void pause() {
    is_loading_ = false;
    loader_->pause();
    if (read_ahead_ != nullptr) read_ahead_->pause();
  }

  Result<DeviceBatch> next() {
    const at::NoGradGuard no_grad;
    if (!flow_) return next_on_host();
    const auto taken = flow_->next();
    if (!taken) return tl::unexpected(taken.error());
    const Span span(profiler::span::kTransfer);
    return landed(*taken);
  }

  void done() {
    if (flow_) {
      flow_->done();
      return;
    }
    assert(held_);
    give_back(*held_);
    held_.reset();
  }

  void run_ahead() {
    if (flow_) flow_->run_ahead();
  }

  Result<void> begin_reuse(Reuse what) {
    if (what == Reuse::raw_bytes) return loader_->supply(input::Supply::stored_samples);
    if (what == Reuse::made_samples) return loader_->supply(input::Supply::made_samples);
    if (what != Reuse::host_batch) return {};
    if (is_direct(settings_)) {
      return fail(ErrorKind::unsupported,
                  "a batch is used where it was made: handing it over is free", "feed");
    }
    auto taken = take();
    if (!taken) {
      Error error = taken.error();
      // Here that would say something about the reuse; it is a file that cannot be read.
      if (error.kind == ErrorKind::unsupported) error.kind = ErrorKind::corrupt;
      return tl::unexpected(std::move(error));
    }
    taken->wait_ns = 0;
    taken->is_repeated = true;
    repeated_ = *taken;
    return {};
  }

  void end_reuse() {
    if (repeated_) {
      if (flow_) flow_->drop_repeated();
      loader_->release(repeated_->slot);
      repeated_.reset();
    }
    (void)loader_->supply(input::Supply::data);  // cannot fail
  }

  input::Position position() const {
    return is_ahead() ? flow_->ahead()->position : loader_->position();
  }

  void seek(input::Position position) {
    give_up_taken();
    loader_->seek(position);
    if (read_ahead_ != nullptr) read_ahead_->follow(position);
  }

  void time_transfers(bool is_on) {
    times_transfers_ = is_on;
    if (flow_) flow_->time_transfers(is_on);
  }

  int fullness() const { return loader_->fullness() + (is_ahead() ? 1 : 0); }
  input::Loader& loader() { return *loader_; }
  const FeedSettings& settings() const { return settings_; }
  PinnedBlocks pinned_blocks(const FeedSettings& settings) const {
    return trainer::pinned_blocks(settings, first_pipeline_, !device_.is_cpu(), target_);
  }
  PinnedCache& pinned_cache() { return pinned_cache_; }

 private:
  struct Buffers {
    std::vector<HostSlot> ring;
    at::Tensor converted;                  // on the CPU, behind a uint8 transfer
    std::unique_ptr<DeviceCopier> copier;  // not on the CPU
  };

  Result<void> check_pinned(const FeedSettings& settings) const {
    return check_pinned_bytes(settings, first_pipeline_, !device_.is_cpu(), target_);
  }

  // Null where nothing is to be read ahead.
  Result<std::unique_ptr<input::ReadAhead>> make_read_ahead(const FeedSettings& settings,
                                                            const Buffers& buffers) const {
    if (settings.read_ahead_batches == 0) return nullptr;
    // The workers are ahead by as many batches as there are slots.
    const auto slots = static_cast<std::int64_t>(buffers.ring.size());
    return input::ReadAhead::create(*dataset_, order_,
                                    (slots + settings.read_ahead_batches) * settings.batch_size,
                                    settings.kept.cache);
  }

  void use(std::unique_ptr<input::ReadAhead> read_ahead) {
    read_ahead_ = std::move(read_ahead);
    if (read_ahead_ == nullptr) return;
    read_ahead_->follow(loader_->position());
    if (is_loading_) read_ahead_->resume();
  }

  bool is_direct(const FeedSettings& settings) const {
    return device_.is_cpu() && !sends_bytes(settings, first_pipeline_) && !target_.has_tokens() &&
           (!settings.is_channels_last || shape_.channels == 1);
  }

  Buffers allocate(const FeedSettings& settings) const {
    const std::array<std::int64_t, 4> sizes = {settings.batch_size, shape_.channels, shape_.height,
                                               shape_.width};
    const at::ScalarType type = target_.has_tokens()                     ? at::kInt
                                : sends_bytes(settings, first_pipeline_) ? at::kByte
                                                                         : at::kFloat;
    const auto images = at::dtype(type);
    const bool is_pinned = settings.pin_memory && !device_.is_cpu();
    Buffers buffers;
    const int slots = host_batches(settings, !device_.is_cpu());
    for (int i = 0; i < slots; ++i) {
      HostSlot& slot = buffers.ring.emplace_back();
      slot.images = at::empty(sizes, images.pinned_memory(is_pinned));
      slot.labels = empty_targets(settings.batch_size, is_pinned);
      if (is_direct(settings)) {
        slot.direct = settings.is_channels_last ? as_channels_last(slot.images) : slot.images;
      }
    }
    if (device_.is_cpu()) {
      if (settings.is_uint8) buffers.converted = at::empty(sizes, at::kFloat);
      return buffers;
    }
    buffers.copier = std::make_unique<DeviceCopier>(device_, buffers.ring.data(), sizes, type,
                                                    settings.non_blocking);
    return buffers;
  }

  at::Tensor empty_targets(std::int64_t samples, bool is_pinned) const {
    if (target_.is_mask()) {
      return at::empty({samples, shape_.height, shape_.width},
                       at::dtype(at::kByte).pinned_memory(is_pinned));
    }
    if (target_.floats() == 0) {
      return at::empty({samples}, at::dtype(at::kLong).pinned_memory(is_pinned));
    }
    return at::empty({samples, target_.width}, at::dtype(at::kFloat).pinned_memory(is_pinned));
  }

  // Class masks travel as bytes.
  at::Tensor as_labels(const at::Tensor& targets) const {
    return target_.is_mask() ? targets.to(at::kLong) : targets;
  }

  input::LoaderSettings loader_settings(const FeedSettings& settings,
                                        const std::vector<HostSlot>& ring) const {
    input::LoaderSettings result{
        .workers = settings.workers,
        .batch_size = settings.batch_size,
        .drop_last = settings.drop_last,
        .pixel_type = settings.is_uint8 ? input::PixelType::uint8 : input::PixelType::float32,
        .ring = {},
        .pipeline = settings.pipeline,
        .affinity = settings.affinity,
        .kept = settings.kept};
    for (const HostSlot& slot : ring) {
      input::BatchBuffer& buffer = result.ring.emplace_back();
      buffer.images = slot.images.mutable_data_ptr();
      if (target_.is_mask()) {
        buffer.masks = slot.labels.mutable_data_ptr<std::uint8_t>();
      } else if (target_.floats() == 0) {
        buffer.labels = slot.labels.mutable_data_ptr<std::int64_t>();
      } else {
        buffer.values = slot.labels.mutable_data_ptr<float>();
      }
    }
    return result;
  }

  void adopt(const FeedSettings& settings, Buffers buffers) {
    // Copies into the old buffers may still be under way.
    synchronize();
    const PinnedBlocks left = pinned_blocks(settings_);
    settings_ = settings;
    flow_.reset();
    buffers_ = std::move(buffers);
    if (buffers_.copier != nullptr) {
      flow_.emplace(*this, *buffers_.copier, settings.non_blocking);
      flow_->time_transfers(times_transfers_);
    }
    // LibTorch does not take back a freed block before an event that it has put behind its last copy.
    if (left.bytes() > 0) synchronize();
    pinned_cache_.keep(left, most_pinned_bytes(settings));
    const input::Pipeline* const pipeline = &pipeline_of(settings, first_pipeline_);
    device_pass_ = DevicePass(pipeline->device_formulas(), device_);
    if (std::exchange(pipeline_, pipeline) != pipeline) device_table_.reset();
    if (device_.is_cpu()) return;
    if (settings.is_uint8 && !device_table_.defined()) {
      std::vector<float> values = pipeline_->table()->values;
      device_table_ =
          at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::kFloat)
              .to(device_);
    }
  }

  void synchronize() const {
    if (!device_.is_cpu()) at::accelerator::synchronizeDevice(device_.index());
  }

  Result<TakenBatch> take() override {
    const Span span(profiler::span::kDataWait);
    if (repeated_) return *repeated_;
    auto batch = loader_->next();
    if (!batch) return tl::unexpected(batch.error());
    if (read_ahead_ != nullptr) read_ahead_->follow(loader_->position());
    return TakenBatch{.slot = batch->slot,
                      .samples = batch->samples,
                      .wait_ns = batch->wait_ns,
                      .position = batch->position,
                      .ends_epoch = batch->ends_epoch};
  }

  void give_back(const TakenBatch& taken) override {
    if (!taken.is_repeated) loader_->release(taken.slot);
  }

  void go_back_to(input::Position position) override { loader_->seek(position); }

  // The caller must seek or reconfigure the loader afterwards.
  void give_up_taken() {
    held_.reset();
    if (flow_) flow_->drop();
  }

  bool is_ahead() const { return flow_ && flow_->ahead() != nullptr; }

  DeviceBatch described(const TakenBatch& taken) const {
    return {.samples = taken.samples,
            .wait_ns = taken.wait_ns,
            .bytes = taken.samples * sample_bytes(settings_, first_pipeline_, target_),
            .ends_epoch = taken.ends_epoch,
            .position = taken.position};
  }

  static DeviceBatch with_tokens(DeviceBatch batch, const at::Tensor& blocks) {
    TokenBatch split = split_tokens(blocks);
    batch.images = std::move(split.tokens);
    batch.labels = std::move(split.next);
    return batch;
  }

  Result<DeviceBatch> next_on_host() {
    assert(!held_);
    auto taken = take();
    if (!taken) return tl::unexpected(taken.error());
    held_ = *taken;
    const Span span(profiler::span::kTransfer);
    const HostSlot& slot = buffers_.ring[static_cast<std::size_t>(taken->slot)];
    DeviceBatch batch = described(*taken);
    if (target_.has_tokens()) return with_tokens(batch, first_samples(slot.images, taken->samples));
    batch.labels = as_labels(first_samples(slot.labels, taken->samples));
    if (slot.direct.defined()) {
      batch.images = first_samples(slot.direct, taken->samples);
      return batch;
    }
    at::Tensor images = first_samples(slot.images, taken->samples);
    if (settings_.is_uint8) {
      convert_on_host(*pipeline_->table(), images, buffers_.converted);
      images = first_samples(buffers_.converted, taken->samples);
    }
    if (!device_pass_.is_empty()) images = device_pass_.run(images);
    batch.images = settings_.is_channels_last ? as_channels_last(images) : images;
    return batch;
  }

  // --- a GPU only, from here on ---------------------------------------------------------------------

  DeviceBatch landed(const TakenBatch& taken) const {
    DeviceBatch batch = described(taken);
    if (target_.has_tokens()) return with_tokens(batch, buffers_.copier->images(taken));
    batch.labels = as_labels(buffers_.copier->labels(taken));
    batch.images = buffers_.copier->images(taken);
    if (settings_.is_uint8) batch.images = look_up(batch.images);
    if (!device_pass_.is_empty()) batch.images = device_pass_.run(batch.images);
    if (settings_.is_channels_last) batch.images = as_channels_last(batch.images);
    return batch;
  }

  at::Tensor look_up(const at::Tensor& bytes) const {
    at::Tensor indices = bytes.to(at::kInt);
    if (shape_.channels > 1) {
      indices += at::arange(0, 256L * shape_.channels, 256, indices.options())
                     .view({1, shape_.channels, 1, 1});
    }
    return device_table_.index_select(0, indices.view(-1)).view(bytes.sizes());
  }

  input::SampleShape shape_;
  const input::Pipeline& first_pipeline_;
  const input::Pipeline* pipeline_;
  at::Device device_;
  input::TargetType target_;  // of the data
  FeedSettings settings_;
  PinnedCache pinned_cache_;
  Buffers buffers_;
  const input::Dataset* dataset_ = nullptr;
  input::SampleOrder order_;
  std::unique_ptr<input::Loader> loader_;  // after the buffers that its threads write to
  std::unique_ptr<input::ReadAhead> read_ahead_;
  bool is_loading_ = false;
  std::optional<TakenBatch> held_;      // on the CPU, between next() and done()
  std::optional<TakenBatch> repeated_;  // what the loader would give, over and over
  std::optional<DeviceFlow> flow_;      // not on the CPU; of the buffers
  bool times_transfers_ = false;
  at::Tensor device_table_;
  DevicePass device_pass_;
};

Feed::Feed(std::unique_ptr<State> state) : state_(std::move(state)) {}
Feed::~Feed() = default;

Result<std::unique_ptr<Feed>> Feed::create(const input::Dataset& dataset, input::SampleOrder order,
                                           const input::Pipeline& pipeline, at::Device device,
                                           const FeedSettings& settings) {
  auto state = std::make_unique<State>(pipeline, device);
  if (auto started = state->start(dataset, order, settings); !started) {
    return tl::unexpected(started.error());
  }
  return std::unique_ptr<Feed>(new Feed(std::move(state)));
}

Result<void> Feed::configure(const FeedSettings& settings) {
  return state_->configure(settings);
}
const FeedSettings& Feed::settings() const {
  return state_->settings();
}
std::int64_t Feed::pinned_bytes() const {
  return state_->pinned_blocks(state_->settings()).bytes();
}
void Feed::give_back_pinned() {
  state_->pinned_cache().give_back();
}
Result<DeviceBatch> Feed::next() {
  return state_->next();
}
void Feed::done() {
  state_->done();
}
void Feed::run_ahead() {
  state_->run_ahead();
}
void Feed::resume() {
  state_->resume();
}
void Feed::pause() {
  state_->pause();
}
Result<void> Feed::begin_reuse(Reuse what) {
  return state_->begin_reuse(what);
}
void Feed::end_reuse() noexcept {
  try {
    state_->end_reuse();
  } catch (const c10::Error&) {
    // The awaited copy failed. The device then also fails the next step, which reports it.
  }
}
int Feed::fullness() const {
  return state_->fullness();
}
input::Position Feed::position() const {
  return state_->position();
}
void Feed::seek(input::Position position) {
  state_->seek(position);
}
input::LoaderStatistics Feed::statistics() const {
  return state_->loader().statistics();
}
void Feed::time_transfers(bool is_on) {
  state_->time_transfers(is_on);
}
void Feed::time_parts(bool is_on) {
  state_->loader().time_parts(is_on);
}
void Feed::record_spans(std::int64_t most) {
  state_->loader().record_spans(most);
}
input::PartSpans Feed::take_spans() {
  return state_->loader().take_spans();
}
void Feed::fill_cache(int threads, std::chrono::nanoseconds most,
                      const std::function<bool()>& is_cancelled) {
  state_->loader().fill_cache(threads, most, is_cancelled);
}

}  // namespace autotuned::trainer
