// SPDX-License-Identifier: Apache-2.0
// The caches of a job, in memory or in a file.
#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "profiler/spans.hpp"
#include "trainer/common/process_memory.hpp"
#include "trainer/job/job_state.hpp"

namespace autotuned::trainer {
namespace {

// Before a block: more than that would hold up the trials, and what comes later fills on its way.
constexpr std::chrono::nanoseconds kMostFilling = std::chrono::seconds(20);

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

std::int64_t Job::State::kept_bytes(input::CachePlace place) const {
  const bool has_index = place == input::CachePlace::memory && index_.index != nullptr;
  std::int64_t bytes = has_index ? index_.index->bytes() : 0;
  for (const Cache& one : caches_)
    bytes += one.place == place ? one.cache->bytes() : 0;
  return bytes;
}

std::int64_t Job::State::cache_bytes_allowed(input::CachePlace place) const {
  const bool is_file = place == input::CachePlace::file;
  const auto& given = is_file ? recipe_.tune.cache_disk_bytes : recipe_.tune.cache_memory_bytes;
  if (given) return *given;
  // With several ranks, each keeps its own samples and uses its part of the space; the allowed bytes are that part
  // already.
  const std::int64_t ranks = recipe_.train.ranks;
  const std::int64_t free = (is_file ? free_disk_bytes(existing_folder(recipe_.output_dir))
                                     : available_memory_bytes(memory_allowed_bytes_ * ranks)) /
                            ranks;
  const double share = is_file ? recipe_.tune.cache_disk_ratio : recipe_.tune.cache_memory_ratio;
  // Memory that our caches use is not free, but counts for us.
  return static_cast<std::int64_t>(share * static_cast<double>(free + kept_bytes(place)));
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
  const input::CachePlace place = pipeline.form().cache_place;
  const auto stored = train_data_->stored();
  const bool is_in_memory = pipeline.cached_parts() == 0 && !train_data_->view(0).empty();
  if (!pipeline.is_cached() || is_in_memory) return nullptr;
  const auto found = std::ranges::find_if(
      caches_, [&](const Cache& one) { return one.key == key && one.place == place; });
  if (found != caches_.end()) {
    caches_.splice(caches_.begin(), caches_, found);
    return found->cache.get();
  }
  if (caches_.size() > 1) {
    // Not what the feed works with until it is told, however many have been asked for since.
    auto given_up = std::prev(caches_.end());
    if (feed_ != nullptr && given_up->cache.get() == feed_->settings().kept.cache) --given_up;
    caches_.erase(given_up);
  }
  const std::int64_t room =
      std::max<std::int64_t>(cache_bytes_allowed(place) - kept_bytes(place), 0);
  auto cache = place == input::CachePlace::file
                   ? input::SampleCache::create_in_file(stored.items, room,
                                                        existing_folder(recipe_.output_dir))
                   : input::SampleCache::create(stored.items, room);
  if (!cache) return tl::unexpected(cache.error());
  caches_.push_front({.key = key,
                      .place = place,
                      .wanted_bytes = cache_bytes_wanted(pipeline),
                      .cache = std::move(*cache)});
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
  // If all of it fits into memory, training will read it from there, too; otherwise it must be measured from the disk.
  if (fills_cache && one->wanted_bytes > available_memory_bytes(memory_allowed_bytes_))
    one->cache->forget_memory();
  const std::int64_t fill_ns = profiler::now_ns() - start;
  if (fills_cache) {
    one->fill_ns = fill_ns;
    one->filled_samples = one->cache->kept_items();
    one->was_filled = true;
  }
  if (fills_index) {
    index_.fill_ns = fill_ns;
    index_.was_filled = true;
    save_index();
  }
}

// An index that was written down is read by the next process.
void Job::State::add_one_time_cost(Block& block) const {
  const input::Kept used = feed_->settings().kept;
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

std::int64_t Job::State::cache_bytes_wanted(const input::Pipeline& pipeline) const {
  const input::Dataset::Stored stored = train_data_->stored();
  if (pipeline.cached_parts() == 0) return stored.bytes;
  const input::SampleType& type = pipeline.cached_type();
  const auto element_bytes = static_cast<std::int64_t>(input::bytes_of(type.element));
  if (!type.has_one_shape()) return stored.decoded_bytes * element_bytes;
  return stored.items * type.shape().elements() * element_bytes;
}

// Sets the bytes of each kind of cache; 0 if it would be the same as a smaller one.
void Job::State::describe_caches() {
  facts_.stored_samples = train_data_->stored().items;
  facts_.cache_allowed_bytes = cache_bytes_allowed(input::CachePlace::memory);
  facts_.cache_disk_allowed_bytes = cache_bytes_allowed(input::CachePlace::file);
  if (train_data_->view(0).empty()) facts_.cache_raw_bytes = train_data_->stored().bytes;
  const auto bytes_of = [&](input::CacheKind kind) -> std::int64_t {
    const auto pipeline = pipeline_of(recipe_, *train_data_, {.cache = kind});
    if (!pipeline || pipeline->cached_parts() == 0) return 0;
    return cache_bytes_wanted(*pipeline);
  };
  facts_.cache_decoded_bytes = bytes_of(input::CacheKind::decoded);
  facts_.cache_prefix_bytes = bytes_of(input::CacheKind::prefix);
}

}  // namespace autotuned::trainer
