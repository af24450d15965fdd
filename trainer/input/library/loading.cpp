// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/library/loading.hpp"

#include <signal.h>

#include <algorithm>
#include <cstddef>

#include "trainer/input/common/random.hpp"

namespace autotuned::input {
namespace {

constexpr const char* kOfLoader = "autotuned.Loader";

// While it lives, new threads block all signals: these are for the threads of the program that opened the library.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP})
      sigdelset(&all, own);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

// The form of the pipeline that was fastest in all measurements (docs/benchmarks-input.md), among those that give the
// same bytes.
PipelineForm form_of(const LoadingSettings& settings) {
  return {.crops_first = true,
          .decodes_crop = true,
          .point_ops = PointOps::fused,
          .cache = settings.cache_bytes > 0 ? CacheKind::prefix : CacheKind::none,
          .indexes_jpegs = settings.index_bytes > 0,
          .dilation = Dilation::bits};
}

bool makes_floats(const Pipeline& pipeline, const std::vector<Transform>& transforms) {
  return pipeline.table() == nullptr || std::ranges::any_of(transforms, [](const Transform& one) {
           return find_transform(one.type)->is_point_wise;
         });
}

}  // namespace

Result<std::unique_ptr<Loading>> Loading::open(std::string_view text) {
  auto settings = read_loading_settings(text);
  if (!settings) return forward_error(settings);
  std::unique_ptr<Loading> loading(new Loading(std::move(*settings)));
  for (const auto make : {&Loading::open_data, &Loading::make_kept, &Loading::make_loader}) {
    if (auto made = (loading.get()->*make)(); !made) return forward_error(made);
  }
  return loading;
}

Result<void> Loading::open_data() {
  auto data = open_dataset(settings_.data_type, settings_.data);
  if (!data) return forward_error(data);
  data_ = std::move(*data);
  if (data_->target().has_tokens()) {
    return fail(ErrorKind::unsupported, "data of type `" + settings_.data_type + "` are tokens",
                kOfLoader, "give it pictures or arrays");
  }
  samples_ = settings_.share.samples_of(data_->size());
  if (samples_ < 1) {
    return fail(ErrorKind::invalid,
                "there are " + std::to_string(data_->size()) + " samples for " +
                    std::to_string(settings_.share.ranks) + " ranks",
                kOfLoader, "use fewer ranks, or do not drop what is left over (drop_last)");
  }
  std::vector<Transform>& transforms = settings_.transforms;
  const TransformKind* const first =
      transforms.empty() ? nullptr : find_transform(transforms.front().type);
  const bool is_decoded = first != nullptr && first->takes_encoded;
  if (data_->type().element == Element::encoded && !is_decoded) {
    transforms.insert(transforms.begin(), Transform{"decode"});
  }
  auto pipeline = Pipeline::compile(data_->type(), transforms,
                                    seed_of_rank(settings_.seed, settings_.share.rank),
                                    form_of(settings_), data_->target().is_mask());
  if (!pipeline) return forward_error(pipeline);
  pipeline_ = std::move(*pipeline);
  pixel_type_ = makes_floats(pipeline_, transforms) ? PixelType::float32 : PixelType::uint8;
  return {};
}

Result<void> Loading::make_kept() {
  const std::int64_t items = data_->stored().items;
  const bool is_in_memory = pipeline_.cached_parts() == 0 && !data_->view(0).empty();
  if (pipeline_.is_cached() && !is_in_memory) {
    auto cache = SampleCache::create(items, settings_.cache_bytes);
    if (!cache) return forward_error(cache);
    cache_ = std::move(*cache);
  }
  if (pipeline_.is_indexed()) {
    auto index = JpegIndex::create(items, settings_.index_bytes);
    if (!index) return forward_error(index);
    index_ = std::move(*index);
  }
  return {};
}

Result<void> Loading::make_loader() {
  const auto samples = static_cast<std::size_t>(settings_.batch_size);
  const std::int64_t ahead = settings_.workers * settings_.prefetch_factor;
  const auto slots = static_cast<std::size_t>(std::max<std::int64_t>(1, ahead));
  // The batches outside of the loader: that of a step, of the next one, and one that the caller keeps a little longer.
  constexpr std::size_t kOfCaller = 3;
  image_blocks_ =
      std::make_shared<BlockPool>(samples * pipeline_.made_bytes(pixel_type_), slots + kOfCaller);
  target_blocks_ = std::make_shared<BlockPool>(samples * data_->target().bytes(pipeline_.shape()),
                                               slots + kOfCaller);
  LoaderSettings settings{.workers = static_cast<int>(settings_.workers),
                          .batch_size = settings_.batch_size,
                          .drop_last = settings_.drop_last,
                          .pixel_type = pixel_type_,
                          .ring = {},
                          .kept = {.cache = cache_.get(), .index = index_.get()}};
  for (std::size_t i = 0; i < slots; ++i) {
    auto slot = take_slot();
    if (!slot) return forward_error(slot);
    slots_.push_back(std::move(*slot));
    settings.ring.push_back(buffer_of(slots_.back()));
  }
  const SampleOrder order{.seed = settings_.seed,
                          .is_shuffled = settings_.is_shuffled,
                          .share = settings_.share,
                          .is_given = settings_.are_batches_given};
  const SignalsBlocked blocked;
  auto loader = Loader::create(*data_, order, pipeline_, std::move(settings));
  if (!loader) return forward_error(loader);
  loader_ = std::move(*loader);
  return {};
}

Result<Loading::Slot> Loading::take_slot() {
  auto images = image_blocks_->take();
  if (!images) return forward_error(images);
  auto targets = target_blocks_->take();
  if (!targets) return forward_error(targets);
  return Slot{std::move(*images), std::move(*targets)};
}

BatchBuffer Loading::buffer_of(const Slot& slot) const {
  BatchBuffer buffer{.images = slot.images.get()};
  const TargetType target = data_->target();
  if (target.is_mask()) {
    buffer.masks = static_cast<std::uint8_t*>(slot.targets.get());
  } else if (target.is_class()) {
    buffer.labels = static_cast<std::int64_t*>(slot.targets.get());
  } else {
    buffer.values = static_cast<float*>(slot.targets.get());
  }
  return buffer;
}

bool Loading::is_epoch_over_at(std::int64_t sample) const {
  return samples_ - sample < (settings_.drop_last ? settings_.batch_size : 1);
}

std::int64_t Loading::batches() const {
  const std::int64_t size = settings_.batch_size;
  return (settings_.drop_last ? samples_ : samples_ + size - 1) / size;
}

std::string Loading::description() const {
  Json names = Json::array();
  for (const std::string& name : data_->class_names())
    names.push_back(name);
  return to_line({{"samples", samples_}, {"batches", batches()}, {"classes", std::move(names)}});
}

Result<void> Loading::start(Position position) {
  if (settings_.are_batches_given) {
    loader_->seek({});
    given_ = 0;
    has_failed_ = false;
    loader_->resume();
    return {};
  }
  if (position.epoch < 0 || position.sample < 0 || position.sample > samples_) {
    return fail(ErrorKind::invalid,
                "there is no sample " + std::to_string(position.sample) + " in epoch " +
                    std::to_string(position.epoch),
                kOfLoader,
                "epochs and samples are counted from 0, and an epoch has " +
                    std::to_string(samples_) + " samples");
  }
  Position next = loader_->position();
  if (is_epoch_over_at(next.sample)) next = {next.epoch + 1, 0};
  if (position != next || has_failed_) loader_->seek(position);
  has_failed_ = false;
  loader_->resume();
  return {};
}

Result<void> Loading::give(Position position, std::span<const std::uint32_t> indices) {
  if (!settings_.are_batches_given) {
    return fail(ErrorKind::unsupported, "the loader has an order of its own", kOfLoader,
                "open it with given_batches");
  }
  if (position.epoch < 0 || position.sample < 0 || indices.empty() ||
      std::ssize(indices) > settings_.batch_size) {
    return fail(ErrorKind::invalid,
                "a batch of " + std::to_string(indices.size()) + " samples at sample " +
                    std::to_string(position.sample) + " of epoch " + std::to_string(position.epoch),
                kOfLoader,
                "a batch has 1 to " + std::to_string(settings_.batch_size) +
                    " samples; epochs and samples are counted from 0");
  }
  const std::uint32_t highest = *std::ranges::max_element(indices);
  if (highest >= data_->size()) {
    return fail(ErrorKind::invalid, "there is no sample " + std::to_string(highest), kOfLoader,
                "the data have " + std::to_string(data_->size()) + " samples, counted from 0");
  }
  loader_->give(position, indices);
  ++given_;
  return {};
}

Result<Loading::Taken> Loading::next() {
  if (settings_.are_batches_given && given_ == 0) {
    return fail(ErrorKind::invalid, "all batches that were given have been taken", kOfLoader,
                "give the next one before");
  }
  // Before the batch: without memory for the one after it, none is lost.
  auto other = take_slot();
  if (!other) return forward_error(other);
  const auto batch = loader_->next();
  if (!batch) {
    has_failed_ = true;
    return forward_error(batch);
  }
  if (given_ > 0) --given_;
  Slot& slot = slots_[static_cast<std::size_t>(batch->slot)];
  std::swap(slot, *other);
  const BatchBuffer buffer = buffer_of(slot);
  loader_->release(batch->slot, &buffer);
  return Taken{batch->samples, std::move(other->images), std::move(other->targets)};
}

}  // namespace autotuned::input
