// SPDX-License-Identifier: Apache-2.0
// What a job keeps of samples in memory.
#include <algorithm>
#include <utility>

#include "profiler/spans.hpp"
#include "trainer/job_state.hpp"
#include "trainer/process_memory.hpp"

namespace autotuned::trainer {
namespace {

// Before a block: more than that would hold up the trials, and what comes later fills on its way.
constexpr std::chrono::nanoseconds kMostFilling = std::chrono::seconds(20);

}  // namespace

std::int64_t Job::State::kept_bytes() const {
  std::int64_t bytes = index_.index != nullptr ? index_.index->bytes() : 0;
  for (const Cache& one : caches_)
    bytes += one.cache->bytes();
  return bytes;
}

std::int64_t Job::State::cache_bytes_allowed() const {
  if (recipe_.tune.cache_memory_bytes) return *recipe_.tune.cache_memory_bytes;
  // What is kept is not available any more, but ours.
  return static_cast<std::int64_t>(
      recipe_.tune.cache_memory_ratio *
      static_cast<double>(available_memory_bytes(memory_allowed_bytes_) + kept_bytes()));
}

Result<input::Kept> Job::State::kept_for(const input::Pipeline& pipeline) {
  const auto cache = cache_for(pipeline);
  if (!cache) return tl::unexpected(cache.error());
  const auto index = index_for(pipeline);
  if (!index) return tl::unexpected(index.error());
  return input::Kept{*cache, *index};
}

Result<input::SampleCache*> Job::State::cache_for(const input::Pipeline& pipeline) {
  const std::string& key = pipeline.cached_key();
  const auto stored = train_data_->stored();
  const bool is_in_memory = pipeline.cached_parts() == 0 && !train_data_->view(0).empty();
  if (!pipeline.is_cached() || is_in_memory) return nullptr;
  const auto found = std::ranges::find(caches_, key, &Cache::key);
  if (found != caches_.end()) {
    caches_.splice(caches_.begin(), caches_, found);
    return found->cache.get();
  }
  // Not the first: it is what the feed may work with until it is told.
  if (caches_.size() > 1) caches_.pop_back();
  const std::int64_t room = cache_bytes_allowed() - kept_bytes();
  auto cache = input::SampleCache::create(stored.items, std::max<std::int64_t>(room, 0));
  if (!cache) return tl::unexpected(cache.error());
  caches_.push_front({.key = key, .cache = std::move(*cache)});
  return caches_.front().cache.get();
}

void Job::State::fill_cache(const CancelCheck& is_cancelled) {
  const input::Kept used = feed_->settings().kept;
  const auto one = std::ranges::find_if(
      caches_, [&](const Cache& cache) { return cache.cache.get() == used.cache; });
  const bool fills_cache = used.cache != nullptr && one != caches_.end() && !one->was_filled;
  const bool fills_index = used.index != nullptr && !index_.was_filled;
  if (!fills_cache && !fills_index) return;
  const std::int64_t start = profiler::now_ns();
  feed_->fill_cache(cpus_allowed_, kMostFilling, is_cancelled);
  const std::int64_t fill_ns = profiler::now_ns() - start;
  if (fills_cache) {
    one->fill_ns = fill_ns;
    one->was_filled = true;
  }
  if (fills_index) {
    index_.fill_ns = fill_ns;
    index_.was_filled = true;
    save_index();
  }
}

void Job::State::add_input_facts(profiler::ProfileFacts& facts,
                                 const input::LoaderStatistics& loaded) const {
  const input::Pipeline& pipeline = *feed_->settings().pipeline;
  const auto saved_by = [&](input::CacheKind kind) {
    std::int64_t ns = loaded.reading_ns;
    for (std::size_t i = 0; i < std::min(pipeline.parts_saved_by(kind), loaded.part_ns.size()); ++i)
      ns += loaded.part_ns[i];
    return ns;
  };
  facts.timed_samples = loaded.timed_samples;
  facts.reading_ns = loaded.reading_ns;
  facts.decoding_ns = saved_by(input::CacheKind::decoded);
  facts.prefix_ns = saved_by(input::CacheKind::prefix);
  facts.stored_samples = facts_.stored_samples;
  for (const Cache& one : caches_) {
    if (one.cache.get() != feed_->settings().kept.cache) continue;
    facts.cached_samples = one.cache->kept_items();
    facts.cache_bytes = one.cache->bytes();
    facts.cache_fill_ns = one.fill_ns;
  }
}

// What each kind of cache would hold; 0 where it would be the same as a smaller one.
void Job::State::describe_caches() {
  const input::Dataset::Stored stored = train_data_->stored();
  facts_.stored_samples = stored.items;
  facts_.cache_allowed_bytes = cache_bytes_allowed();
  if (train_data_->view(0).empty()) facts_.cache_raw_bytes = stored.bytes;
  const auto bytes_of = [&](input::CacheKind kind) -> std::int64_t {
    const auto pipeline = pipeline_of(recipe_, *train_data_, {.cache = kind});
    if (!pipeline || pipeline->cached_parts() == 0) return 0;
    const input::SampleType& type = pipeline->cached_type();
    const auto element_bytes = static_cast<std::int64_t>(input::bytes_of(type.element));
    if (!type.has_one_shape()) return stored.decoded_bytes * element_bytes;
    return stored.items * type.shape().elements() * element_bytes;
  };
  facts_.cache_decoded_bytes = bytes_of(input::CacheKind::decoded);
  facts_.cache_prefix_bytes = bytes_of(input::CacheKind::prefix);
}

}  // namespace autotuned::trainer
