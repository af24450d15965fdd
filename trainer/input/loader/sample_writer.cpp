// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/loader/sample_writer.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "trainer/input/common/sample_cache.hpp"
#include "trainer/input/jpeg_index/jpeg_index.hpp"

namespace autotuned::input {
namespace {

constexpr std::size_t kCacheLineBytes = 64;
// The most bytes of a sample that are prefetched: the hardware fetches the rest by itself.
constexpr std::size_t kMaxPrefetchedBytes = 4096;
// Shuffled samples lie anywhere in memory, so that every one starts with cache misses. Asking for
// each two samples early nearly doubles the rate of small images.
constexpr std::size_t kPrefetchDistance = 2;

using Clock = std::chrono::steady_clock;

std::int64_t ns_of(Clock::time_point time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

// Calls what may throw, and names the sample in its errors.
template <class Work>
Result<void> about_sample(const Dataset& dataset, std::int64_t index, Work&& work) {
  try {
    Result<void> done = work();
    if (!done && done.error().where.empty()) done.error().where = dataset.name(index);
    return done;
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::out_of_memory, "no memory to read a sample", "the data set");
  } catch (const std::exception& exception) {
    return fail(ErrorKind::internal, std::string("reading a sample failed: ") + exception.what(),
                "the data set");
  }
}

}  // namespace

SampleWriter::SampleWriter(const Dataset& dataset, const Pipeline& pipeline, Kept kept)
    : dataset_(dataset),
      pipeline_(pipeline),
      cache_(kept.cache),
      index_(pipeline.is_indexed() ? kept.index : nullptr),
      stored_(dataset.type().element),
      target_size_{.floats = dataset.target().floats(), .mask_bytes = pipeline.mask_bytes()} {
  if (stored_ != Element::encoded) {
    const SampleShape shape = dataset.type().shape();
    stored_bytes_ = static_cast<std::size_t>(shape.elements()) * bytes_of(stored_);
  }
}

SampleWriter::Scratch SampleWriter::make_scratch() const {
  Scratch scratch = pipeline_.make_scratch();
  scratch.stored.resize(stored_bytes_);
  return scratch;
}

Result<void> SampleWriter::write(const BatchRing::Chunk& chunk, PixelType type,
                                 Scratch& scratch) const {
  const auto& indices = chunk.indices;
  const std::size_t bytes = pipeline_.written_bytes(type);
  auto* out = static_cast<std::uint8_t*>(chunk.buffer.images) +
              static_cast<std::size_t>(chunk.begin) * bytes;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (i + kPrefetchDistance < indices.size()) prefetch(indices[i + kPrefetchDistance]);
    auto written = write_sample(chunk, i, type, out, scratch);
    if (!written) return written;
    out += bytes;
  }
  return {};
}

Result<void> SampleWriter::write_sample(const BatchRing::Chunk& chunk, std::size_t i,
                                        PixelType type, std::uint8_t* out, Scratch& scratch) const {
  const std::int64_t index = chunk.indices[i];
  const std::size_t at = static_cast<std::size_t>(chunk.begin) + i;
  Position position = chunk.position;
  position.sample += static_cast<std::int64_t>(i);
  const BatchBuffer& batch = chunk.buffer;
  const auto try_sample = [&](std::int64_t tried) {
    return about_sample(dataset_, tried, [&] {
      const auto [floats, mask_bytes] = target_size_;
      if (floats > 0) {
        dataset_.read_target(tried, {batch.values + at * floats, floats});
      } else if (mask_bytes == 0) {
        batch.labels[at] = dataset_.label(tried);
      }
      auto done = write_image(tried, position, type, out, scratch);
      if (!done || mask_bytes == 0) return done;
      return write_mask(tried, position, batch.masks + at * mask_bytes, scratch);
    });
  };
  auto written = try_sample(index);
  Damage* const damage = dataset_.damage();
  for (std::int64_t tried = index; !written && damage != nullptr && is_damage(written.error());) {
    auto noted = damage->note(dataset_.stored_index(tried), written.error());
    if (!noted) return noted;
    // The next sample of the data set and not of the epoch: so the replacement depends on nothing but the sample.
    tried = (tried + 1) % dataset_.size();
    if (tried == index) break;  // none is left
    written = try_sample(tried);
  }
  return written;
}

void SampleWriter::prefetch(std::int64_t index) const {
  if (cache_ != nullptr) return cache_->will_need(dataset_.stored_index(index));
  const auto bytes = dataset_.view(index);
  const std::size_t count = std::min(bytes.size(), kMaxPrefetchedBytes);
  for (std::size_t i = 0; i < count; i += kCacheLineBytes)
    __builtin_prefetch(bytes.data() + i);
}

Result<void> SampleWriter::keep(std::int64_t index, Scratch& scratch) const {
  return about_sample(dataset_, index, [&]() -> Result<void> {
    const std::int64_t item = dataset_.stored_index(index);
    const bool is_to_cache = cache_ != nullptr && cache_->is_wanted(item);
    // A picture in the cache is not decoded any more.
    const bool is_decoded =
        cache_ != nullptr && pipeline_.cached_parts() > 0 && (is_to_cache || cache_->has(item));
    const bool is_to_index = index_ != nullptr && index_->is_wanted(item) && !is_decoded;
    if (!is_to_index && !is_to_cache) return {};
    auto begin = begin_of(index, scratch);
    if (!begin) return tl::unexpected(std::move(begin.error()));
    if (is_to_index) pipeline_.index(begin->sample, scratch);
    return {};
  });
}

Result<void> SampleWriter::write_image(std::int64_t index, Position position, PixelType type,
                                       std::uint8_t* out, Scratch& scratch) const {
  if (only_copies(type) && cache_ == nullptr) {
    return dataset_.read(index, {out, stored_bytes_});
  }
  const auto begin = begin_of(index, scratch);
  if (!begin) return tl::unexpected(begin.error());
  const Sample& sample = begin->sample;
  if (pipeline_.has_stages()) {
    return begin->is_kept ? pipeline_.run_rest(sample, position, type, out, scratch)
                          : pipeline_.run(sample, position, type, out, scratch);
  }
  if (only_copies(type)) {
    std::memcpy(out, sample.bytes.data(), sample.bytes.size());
  } else {
    convert_sample(*pipeline_.table(), sample.bytes, reinterpret_cast<float*>(out));
  }
  return {};
}

Result<void> SampleWriter::write_mask(std::int64_t index, Position position, std::uint8_t* out,
                                      Scratch& scratch) const {
  const bool is_timed = !scratch.part_ns.empty();
  const auto start = is_timed ? Clock::now() : Clock::time_point();
  const auto shape = dataset_.read_mask(index, scratch.mask);
  if (!shape) return tl::unexpected(shape.error());
  const Sample mask = {
      .element = Element::uint8, .shape = *shape, .bytes = scratch.mask.classes, .origin = {}};
  auto done = pipeline_.run_mask(mask, position, out, scratch);
  if (!is_timed) return done;
  const auto end = Clock::now();
  scratch.part_ns.back() += std::chrono::nanoseconds(end - start).count();
  if (scratch.keeps_spans) {
    scratch.spans.push_back({.part = static_cast<int>(scratch.part_ns.size()) - 1,
                             .start_ns = ns_of(start),
                             .end_ns = ns_of(end)});
  }
  return done;
}

Result<SampleWriter::Begin> SampleWriter::begin_of(std::int64_t index, Scratch& scratch) const {
  const std::int64_t item = dataset_.stored_index(index);
  if (cache_ != nullptr) {
    if (auto kept = cache_->find(item, scratch.cached)) {
      kept->origin = {kept->origin.stamp, item, index_};
      return Begin{*kept, true};
    }
  }
  auto made = stored_sample(index, scratch);
  if (!made) return tl::unexpected(std::move(made.error()));
  // A sample that does not fit into the cache need not be made in its cached form.
  if (cache_ == nullptr || !cache_->is_wanted(item)) return Begin{*made, false};
  made = pipeline_.run_cached_parts(*made, scratch);
  if (!made) return tl::unexpected(std::move(made.error()));
  cache_->keep(item, *made);
  return Begin{*made, true};
}

Result<Sample> SampleWriter::stored_sample(std::int64_t index, Scratch& scratch) const {
  Sample sample{.element = stored_, .bytes = dataset_.view(index)};
  if (stored_ != Element::encoded) sample.shape = pipeline_.stored().shape();
  if (!sample.bytes.empty()) return sample;
  const bool is_timed = !scratch.part_ns.empty();
  const auto start = is_timed ? Clock::now() : Clock::time_point();
  Result<void> read;
  if (stored_ == Element::encoded) {
    auto stamp = dataset_.read_encoded(index, scratch.stored);
    if (!stamp) read = tl::unexpected(std::move(stamp.error()));
    if (stamp) sample.origin = {*stamp, dataset_.stored_index(index), index_};
  } else {
    read = dataset_.read(index, scratch.stored);
  }
  if (is_timed) {
    const auto end = Clock::now();
    scratch.stored_ns += std::chrono::nanoseconds(end - start).count();
    if (scratch.keeps_spans) {
      scratch.spans.push_back(
          {.part = PartSpan::kReading, .start_ns = ns_of(start), .end_ns = ns_of(end)});
    }
  }
  if (!read) return tl::unexpected(std::move(read.error()));
  sample.bytes = scratch.stored;
  return sample;
}

}  // namespace autotuned::input
