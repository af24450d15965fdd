// SPDX-License-Identifier: Apache-2.0
// Which samples a job keeps in memory.
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

std::int64_t Job::State::cache_bytes_allowed() const {
  if (recipe_.tune.cache_memory_bytes) return *recipe_.tune.cache_memory_bytes;
  std::int64_t kept = 0;  // is not available any more, but ours
  for (const Cache& one : caches_)
    kept += one.cache->bytes();
  return static_cast<std::int64_t>(
      recipe_.tune.cache_memory_ratio *
      static_cast<double>(available_memory_bytes(memory_allowed_bytes_) + kept));
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
  std::int64_t room = cache_bytes_allowed();
  for (const Cache& one : caches_)
    room -= one.cache->bytes();
  auto cache = input::SampleCache::create(stored.items, std::max<std::int64_t>(room, 0));
  if (!cache) return tl::unexpected(cache.error());
  caches_.push_front({.key = key, .cache = std::move(*cache)});
  return caches_.front().cache.get();
}

void Job::State::fill_cache(const CancelCheck& is_cancelled) {
  const input::SampleCache* const used = feed_->settings().cache;
  if (used == nullptr) return;
  const auto one = std::ranges::find_if(
      caches_, [used](const Cache& cache) { return cache.cache.get() == used; });
  if (one == caches_.end() || one->was_filled) return;
  const std::int64_t start = profiler::now_ns();
  feed_->fill_cache(cpus_allowed_, kMostFilling, is_cancelled);
  one->fill_ns = profiler::now_ns() - start;
  one->was_filled = true;
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
    if (one.cache.get() != feed_->settings().cache) continue;
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
