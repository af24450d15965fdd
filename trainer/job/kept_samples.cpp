// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/kept_samples.hpp"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <system_error>
#include <utility>

#include "profiler/spans.hpp"
#include "trainer/common/process_memory.hpp"

namespace autotuned::trainer {
namespace {

// Before a block: more than that would hold up the trials, and what comes later fills on its way.
constexpr std::chrono::nanoseconds kMaxFilling = std::chrono::seconds(20);

// The folder, or where it will be made: a file without a name needs no more than that.
std::filesystem::path existing_folder(std::filesystem::path folder) {
  std::error_code ignored;
  while (!std::filesystem::is_directory(folder, ignored) && folder.has_relative_path())
    folder = folder.parent_path();
  return folder.empty() ? std::filesystem::path(".") : folder;
}

// Nothing where files are kept in memory: there a cache in memory is the better one.
std::int64_t free_disk_bytes(const std::filesystem::path& folder) {
  struct statfs facts {};
  if (::statfs(folder.c_str(), &facts) != 0) return 0;
  if (facts.f_type == TMPFS_MAGIC || facts.f_type == RAMFS_MAGIC) return 0;
  return static_cast<std::int64_t>(facts.f_bavail) * static_cast<std::int64_t>(facts.f_bsize);
}

}  // namespace

std::int64_t cache_bytes_wanted(const input::Pipeline& pipeline, const input::Dataset& data) {
  const input::Dataset::Stored stored = data.stored();
  if (pipeline.cached_parts() == 0) return stored.bytes;
  const input::SampleType& type = pipeline.cached_type();
  const auto element_bytes = static_cast<std::int64_t>(input::bytes_of(type.element));
  if (!type.has_one_shape()) return stored.decoded_bytes * element_bytes;
  return stored.items * type.shape().elements() * element_bytes;
}

KeptSamples::KeptSamples(const recipes::Recipe& recipe, std::int64_t memory_allowed_bytes)
    : recipe_(&recipe), memory_allowed_bytes_(memory_allowed_bytes) {}

std::int64_t KeptSamples::kept_bytes(input::CachePlace place) const {
  const bool has_index = place == input::CachePlace::memory && index_.index != nullptr;
  std::int64_t bytes = has_index ? index_.index->bytes() : 0;
  for (const Cache& one : caches_)
    bytes += one.place == place ? one.cache->bytes() : 0;
  return bytes;
}

std::int64_t KeptSamples::bytes_allowed(input::CachePlace place) const {
  const bool is_file = place == input::CachePlace::file;
  const auto& given = is_file ? recipe_->tune.cache_disk_bytes : recipe_->tune.cache_memory_bytes;
  if (given) return *given;
  // Each of several ranks keeps what it trains on, and takes its part; what it is allowed is its part already.
  const std::int64_t ranks = recipe_->train.ranks;
  const std::int64_t free = (is_file ? free_disk_bytes(existing_folder(recipe_->output_dir))
                                     : available_memory_bytes(memory_allowed_bytes_ * ranks)) /
                            ranks;
  const double share = is_file ? recipe_->tune.cache_disk_ratio : recipe_->tune.cache_memory_ratio;
  // What is kept is not available any more, but ours.
  return static_cast<std::int64_t>(share * static_cast<double>(free + kept_bytes(place)));
}

std::int64_t KeptSamples::bytes_left(input::CachePlace place) const {
  return std::max<std::int64_t>(bytes_allowed(place) - kept_bytes(place), 0);
}

Result<input::Kept> KeptSamples::for_pipeline(const input::Pipeline& pipeline,
                                              const input::Dataset& data,
                                              const input::Kept& in_use) {
  const auto cache = cache_for(pipeline, data, in_use.cache);
  if (!cache) return tl::unexpected(cache.error());
  const auto index = index_for(pipeline, data);
  if (!index) return tl::unexpected(index.error());
  return input::Kept{*cache, *index};
}

Result<input::SampleCache*> KeptSamples::cache_for(const input::Pipeline& pipeline,
                                                   const input::Dataset& data,
                                                   const input::SampleCache* in_use) {
  const std::string& key = pipeline.cached_key();
  const input::CachePlace place = pipeline.form().cache_place;
  const auto stored = data.stored();
  const bool is_in_memory = pipeline.cached_parts() == 0 && !data.view(0).empty();
  if (!pipeline.is_cached() || is_in_memory) return nullptr;
  const auto found = std::ranges::find_if(
      caches_, [&](const Cache& one) { return one.key == key && one.place == place; });
  if (found != caches_.end()) {
    caches_.splice(caches_.begin(), caches_, found);
    return found->cache.get();
  }
  if (caches_.size() > 1) {
    // The cache that the feed uses stays, however many have been asked for since.
    auto given_up = std::prev(caches_.end());
    if (given_up->cache.get() == in_use) --given_up;
    caches_.erase(given_up);
  }
  auto cache = place == input::CachePlace::file
                   ? input::SampleCache::create_in_file(stored.items, bytes_left(place),
                                                        existing_folder(recipe_->output_dir))
                   : input::SampleCache::create(stored.items, bytes_left(place));
  if (!cache) return tl::unexpected(cache.error());
  caches_.push_front({.key = key,
                      .place = place,
                      .wanted_bytes = cache_bytes_wanted(pipeline, data),
                      .cache = std::move(*cache)});
  return caches_.front().cache.get();
}

std::optional<Error> KeptSamples::fill(Feed& feed, int threads,
                                       const std::function<bool()>& is_cancelled) {
  const input::Kept used = feed.settings().kept;
  const auto one = std::ranges::find_if(
      caches_, [&](const Cache& cache) { return cache.cache.get() == used.cache; });
  const bool fills_cache = used.cache != nullptr && one != caches_.end() && !one->was_filled;
  const bool fills_index = used.index != nullptr && !index_.was_filled;
  if (!fills_cache && !fills_index) return std::nullopt;
  const std::int64_t start = profiler::now_ns();
  feed.fill_cache(threads, kMaxFilling, is_cancelled);
  // What is not too much for memory will be read from there in training as well.
  if (fills_cache && one->wanted_bytes > available_memory_bytes(memory_allowed_bytes_))
    one->cache->forget_memory();
  const std::int64_t fill_ns = profiler::now_ns() - start;
  if (fills_cache) {
    one->fill_ns = fill_ns;
    one->filled_samples = one->cache->kept_items();
    one->was_filled = true;
  }
  if (!fills_index) return std::nullopt;
  index_.fill_ns = fill_ns;
  index_.was_filled = true;
  return save_index();
}

// An index that was written down is read by the next process.
void KeptSamples::add_one_time_cost(const input::Kept& used, Block& block) const {
  const auto one = std::ranges::find_if(
      caches_, [&](const Cache& cache) { return cache.cache.get() == used.cache; });
  if (one != caches_.end()) {
    block.one_time_ns = one->fill_ns;
    block.one_time_samples = one->filled_samples;
  }
  const bool is_index_lost = index_.file.empty() || index_.has_warned;
  if (used.index != nullptr && is_index_lost) {
    block.one_time_ns = std::max(block.one_time_ns, index_.fill_ns);
  }
}

void KeptSamples::add_cache_facts(const input::Kept& used, profiler::ProfileFacts& facts) const {
  for (const Cache& one : caches_) {
    if (one.cache.get() != used.cache) continue;
    facts.cached_samples = one.cache->kept_items();
    facts.cache_bytes = one.cache->bytes();
    facts.cache_fill_ns = one.fill_ns;
  }
}

}  // namespace autotuned::trainer
