// SPDX-License-Identifier: Apache-2.0
#include "trainer/feed.hpp"

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>
#include <c10/core/StreamGuard.h>

#include <array>
#include <cassert>
#include <optional>
#include <vector>

#include "profiler/spans.hpp"
#include "trainer/device.hpp"
#include "trainer/device_pass.hpp"
#include "trainer/feed_buffers.hpp"
#include "trainer/feed_size.hpp"
#include "trainer/input/read_ahead.hpp"

namespace autotuned::trainer {
namespace {

using profiler::Span;

}  // namespace

class Feed::State {
 public:
  State(const input::Pipeline& pipeline, at::Device device)
      : shape_(pipeline.shape()),
        first_pipeline_(pipeline),
        pipeline_(&pipeline),
        device_(device) {}

  Result<void> start(const input::Dataset& dataset, input::SampleOrder order,
                     const FeedSettings& settings) {
    if (auto fits = check_pinned_bytes(settings, shape_, !device_.is_cpu()); !fits) return fits;
    Buffers buffers = allocate(settings);
    dataset_ = &dataset;
    order_ = order;
    auto read_ahead = make_read_ahead(settings, buffers);
    if (!read_ahead) return tl::unexpected(read_ahead.error());
    auto loader =
        input::Loader::create(dataset, order, *pipeline_, loader_settings(settings, buffers.ring));
    if (!loader) return tl::unexpected(loader.error());
    loader_ = std::move(*loader);
    take(settings, std::move(buffers));
    use(std::move(*read_ahead));
    return {};
  }

  Result<void> configure(const FeedSettings& settings) {
    if (auto fits = check_pinned_bytes(settings, shape_, !device_.is_cpu()); !fits) return fits;
    Buffers buffers = allocate(settings);
    auto read_ahead = make_read_ahead(settings, buffers);
    if (!read_ahead) return tl::unexpected(read_ahead.error());
    held_.reset();
    give_back_ahead();
    const auto changed = loader_->reconfigure(loader_settings(settings, buffers.ring));
    if (!changed) return changed;
    take(settings, std::move(buffers));
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
    assert(!held_);
    const at::NoGradGuard no_grad;
    if (device_.is_cpu()) return next_on_host();
    if (!ahead_) {
      if (auto started = start_copy(); !started) return tl::unexpected(started.error());
    }
    held_ = std::exchange(ahead_, std::nullopt);
    const Span span(profiler::span::kTransfer);
    return landed(*held_);
  }

  void done() {
    assert(held_);
    if (held_->slot >= 0) {
      if (!device_.is_cpu()) wait_for_copy(*held_);
      give_back(*held_);
    }
    if (held_->landing != nullptr && held_->landing->used) {
      held_->landing->used->record(compute_stream());
    }
    held_.reset();
  }

  void run_ahead() {
    if (device_.is_cpu() || !settings_.non_blocking || ahead_) return;
    // An error comes again from the next call of next().
    (void)start_copy();
  }

  Result<void> begin_reuse(Reuse what) {
    if (what == Reuse::raw_bytes) return loader_->supply(input::Supply::stored_samples);
    if (what == Reuse::made_samples) return loader_->supply(input::Supply::made_samples);
    if (what != Reuse::host_batch) return {};
    if (is_direct(settings_)) {
      return fail(ErrorKind::unsupported,
                  "a batch is used where it was made: handing it over is free", "feed");
    }
    auto taken = take_from_loader();
    if (!taken) return tl::unexpected(taken.error());
    taken->wait_ns = 0;
    taken->is_repeated = true;
    repeated_ = *taken;
    return {};
  }

  void end_reuse() {
    if (repeated_) {
      if (ahead_ && ahead_->is_repeated) {
        wait_for_copy(*ahead_);
        ahead_.reset();
      }
      loader_->release(repeated_->slot);
      repeated_.reset();
    }
    (void)loader_->supply(input::Supply::data);  // cannot fail
  }

  input::Position position() const { return ahead_ ? ahead_->position : loader_->position(); }

  void seek(input::Position position) {
    held_.reset();
    give_back_ahead();
    loader_->seek(position);
    if (read_ahead_ != nullptr) read_ahead_->follow(position);
  }

  int fullness() const { return loader_->fullness() + (ahead_ ? 1 : 0); }
  input::Loader& loader() { return *loader_; }
  const FeedSettings& settings() const { return settings_; }
  std::int64_t pinned_bytes() const {
    return trainer::pinned_bytes(settings_, shape_, !device_.is_cpu());
  }

 private:
  // A batch that was taken from the loader.
  struct Taken {
    int slot = -1;  // -1: given back already
    std::int64_t samples = 0;
    std::int64_t wait_ns = 0;
    input::Position position;
    bool ends_epoch = false;
    Landing* landing = nullptr;
    bool is_repeated = false;  // it stays with the feed
  };

  struct Buffers {
    std::vector<HostSlot> ring;
    at::Tensor converted;  // on the CPU, behind a uint8 transfer
    std::array<Landing, 2> landings;
  };

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

  const input::Pipeline& pipeline_of(const FeedSettings& settings) const {
    return settings.pipeline != nullptr ? *settings.pipeline : first_pipeline_;
  }

  // Whether bytes travel.
  bool is_bytes(const FeedSettings& settings) const {
    return settings.is_uint8 || !pipeline_of(settings).device_formulas().empty();
  }

  bool is_direct(const FeedSettings& settings) const {
    return device_.is_cpu() && !is_bytes(settings) &&
           (!settings.is_channels_last || shape_.channels == 1);
  }

  Buffers allocate(const FeedSettings& settings) const {
    const std::array<std::int64_t, 4> sizes = {settings.batch_size, shape_.channels, shape_.height,
                                               shape_.width};
    const auto images = at::dtype(is_bytes(settings) ? at::kByte : at::kFloat);
    const bool is_pinned = settings.pin_memory && !device_.is_cpu();
    Buffers buffers;
    const int slots = host_batches(settings, !device_.is_cpu());
    for (int i = 0; i < slots; ++i) {
      HostSlot& slot = buffers.ring.emplace_back();
      slot.images = at::empty(sizes, images.pinned_memory(is_pinned));
      slot.labels = at::empty({settings.batch_size}, at::dtype(at::kLong).pinned_memory(is_pinned));
      if (is_direct(settings)) {
        slot.direct = settings.is_channels_last ? as_channels_last(slot.images) : slot.images;
      }
    }
    if (device_.is_cpu()) {
      if (settings.is_uint8) buffers.converted = at::empty(sizes, at::kFloat);
      return buffers;
    }
    for (Landing& landing : buffers.landings) {
      landing.images = at::empty(sizes, images.device(device_));
      landing.labels = at::empty({settings.batch_size}, at::dtype(at::kLong).device(device_));
      if (settings.non_blocking) {
        landing.copied.emplace(device_.type());
        landing.used.emplace(device_.type());
      }
    }
    return buffers;
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
      result.ring.push_back(
          {slot.images.mutable_data_ptr(), slot.labels.mutable_data_ptr<std::int64_t>()});
    }
    return result;
  }

  void take(const FeedSettings& settings, Buffers buffers) {
    // Copies into the old buffers may still be under way.
    if (!device_.is_cpu()) at::accelerator::synchronizeDevice(device_.index());
    const bool frees_pinned = pinned_bytes() > 0;
    settings_ = settings;
    buffers_ = std::move(buffers);
    // LibTorch would keep the old ones page-locked for later.
    if (frees_pinned) release_pinned_cache(device_.str());
    const input::Pipeline* const pipeline = &pipeline_of(settings);
    device_pass_ = DevicePass(pipeline->device_formulas(), device_);
    if (std::exchange(pipeline_, pipeline) != pipeline) device_table_.reset();
    if (device_.is_cpu()) return;
    if (settings.is_uint8 && !device_table_.defined()) {
      std::vector<float> values = pipeline_->table()->values;
      device_table_ =
          at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::kFloat)
              .to(device_);
    }
    if (settings.non_blocking && !copy_stream_) {
      copy_stream_ =
          c10::impl::VirtualGuardImpl(device_.type()).getStreamFromGlobalPool(device_, false);
    }
  }

  Result<Taken> take_from_loader() {
    const Span span(profiler::span::kDataWait);
    if (repeated_) return *repeated_;
    auto batch = loader_->next();
    if (!batch) return tl::unexpected(batch.error());
    if (read_ahead_ != nullptr) read_ahead_->follow(loader_->position());
    return Taken{.slot = batch->slot,
                 .samples = batch->samples,
                 .wait_ns = batch->wait_ns,
                 .position = batch->position,
                 .ends_epoch = batch->ends_epoch};
  }

  void give_back(const Taken& taken) {
    if (!taken.is_repeated) loader_->release(taken.slot);
  }

  static at::Tensor first(const at::Tensor& tensor, std::int64_t samples) {
    return samples == tensor.size(0) ? tensor : tensor.narrow(0, 0, samples);
  }

  DeviceBatch described(const Taken& taken) const {
    const std::int64_t image_bytes =
        shape_.elements() * (is_bytes(settings_) ? std::int64_t{1} : std::int64_t{sizeof(float)});
    return {.samples = taken.samples,
            .wait_ns = taken.wait_ns,
            .bytes = taken.samples * (image_bytes + std::int64_t{sizeof(std::int64_t)}),
            .ends_epoch = taken.ends_epoch};
  }

  Result<DeviceBatch> next_on_host() {
    auto taken = take_from_loader();
    if (!taken) return tl::unexpected(taken.error());
    held_ = *taken;
    const Span span(profiler::span::kTransfer);
    const HostSlot& slot = buffers_.ring[static_cast<std::size_t>(taken->slot)];
    DeviceBatch batch = described(*taken);
    batch.labels = first(slot.labels, taken->samples);
    if (slot.direct.defined()) {
      batch.images = first(slot.direct, taken->samples);
      return batch;
    }
    at::Tensor images = first(slot.images, taken->samples);
    if (settings_.is_uint8) {
      convert_on_host(*pipeline_->table(), images, buffers_.converted);
      images = first(buffers_.converted, taken->samples);
    }
    if (!device_pass_.is_empty()) images = device_pass_.run(images);
    batch.images = settings_.is_channels_last ? as_channels_last(images) : images;
    return batch;
  }

  // --- a GPU only, from here on ---------------------------------------------------------------------

  c10::Stream compute_stream() const { return at::accelerator::getCurrentStream(device_.index()); }

  // Takes a batch from the loader and enqueues its copy.
  Result<void> start_copy() {
    auto taken = take_from_loader();
    if (!taken) return tl::unexpected(taken.error());
    const Span span(profiler::span::kTransfer);
    const at::NoGradGuard no_grad;
    taken->landing = &buffers_.landings[next_landing_];
    next_landing_ = 1 - next_landing_;
    Landing& landing = *taken->landing;
    const HostSlot& slot = buffers_.ring[static_cast<std::size_t>(taken->slot)];
    const auto copy = [&](bool is_asynchronous) {
      first(landing.images, taken->samples)
          .copy_(first(slot.images, taken->samples), is_asynchronous);
      first(landing.labels, taken->samples)
          .copy_(first(slot.labels, taken->samples), is_asynchronous);
    };
    if (settings_.non_blocking) {
      const c10::StreamGuard guard(*copy_stream_);
      landing.used->block(*copy_stream_);
      copy(true);
      landing.copied->record(*copy_stream_);
    } else {
      copy(false);
      give_back(*taken);
      taken->slot = -1;
    }
    ahead_ = *taken;
    return {};
  }

  static void wait_for_copy(const Taken& taken) {
    if (taken.landing != nullptr && taken.landing->copied) taken.landing->copied->synchronize();
  }

  DeviceBatch landed(const Taken& taken) const {
    if (taken.landing->copied) taken.landing->copied->block(compute_stream());
    DeviceBatch batch = described(taken);
    batch.labels = first(taken.landing->labels, taken.samples);
    batch.images = first(taken.landing->images, taken.samples);
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

  void give_back_ahead() {
    if (!ahead_) return;
    wait_for_copy(*ahead_);
    const input::Position position = ahead_->position;
    ahead_.reset();
    loader_->seek(position);  // counts the slot as released
  }

  input::SampleShape shape_;
  const input::Pipeline& first_pipeline_;
  const input::Pipeline* pipeline_;
  at::Device device_;
  FeedSettings settings_;
  Buffers buffers_;
  const input::Dataset* dataset_ = nullptr;
  input::SampleOrder order_;
  std::unique_ptr<input::Loader> loader_;  // after the buffers that its threads write to
  std::unique_ptr<input::ReadAhead> read_ahead_;
  bool is_loading_ = false;
  std::optional<Taken> held_;      // between next() and done()
  std::optional<Taken> ahead_;     // copied or being copied, not yet asked for
  std::optional<Taken> repeated_;  // what the loader would give, over and over
  std::size_t next_landing_ = 0;
  std::optional<c10::Stream> copy_stream_;
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
  return state_->pinned_bytes();
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
    // Of the copy that was waited for: a device in that state fails the next step, too.
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
