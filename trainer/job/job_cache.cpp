// SPDX-License-Identifier: Apache-2.0
// What a job tells of the samples that it keeps or could keep, and when they are filled in.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "trainer/job/job_state.hpp"

namespace autotuned::trainer {
namespace {

// So many files tell what the index of all takes.
constexpr std::int64_t kProbedFiles = 8;

}  // namespace

Result<input::Kept> Job::State::kept_for(const input::Pipeline& pipeline) {
  const input::Kept in_use = feed_ != nullptr ? feed_->settings().kept : input::Kept();
  return kept_.for_pipeline(pipeline, *train_data_, in_use);
}

void Job::State::fill_kept(const CancelCheck& is_cancelled) {
  warn(kept_.fill(*feed_, cpus_allowed_, is_cancelled));
}

void Job::State::warn(std::optional<Error> warning) {
  if (warning) warnings_.push_back(*std::move(warning));
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
  kept_.add_cache_facts(feed_->settings().kept, facts);
}

// Sets the bytes of each kind of cache; 0 if it would be the same as a smaller one.
void Job::State::describe_caches() {
  facts_.stored_samples = train_data_->stored().items;
  facts_.cache_allowed_bytes = kept_.bytes_allowed(input::CachePlace::memory);
  facts_.cache_disk_allowed_bytes = kept_.bytes_allowed(input::CachePlace::file);
  if (train_data_->view(0).empty()) facts_.cache_raw_bytes = train_data_->stored().bytes;
  const auto bytes_of = [&](input::CacheKind kind) -> std::int64_t {
    const auto pipeline = pipeline_of(recipe_, *train_data_, {.cache = kind});
    if (!pipeline || pipeline->cached_parts() == 0) return 0;
    return cache_bytes_wanted(*pipeline, *train_data_);
  };
  facts_.cache_decoded_bytes = bytes_of(input::CacheKind::decoded);
  facts_.cache_prefix_bytes = bytes_of(input::CacheKind::prefix);
}

void Job::State::describe_index() {
  const auto pipeline =
      pipeline_of(recipe_, *train_data_, {.decodes_crop = true, .indexes_jpegs = true});
  if (!pipeline || !pipeline->is_indexed()) return;
  input::JpegScanner scanner;
  std::vector<std::uint8_t> file;
  const std::int64_t items = train_data_->stored().items;
  const std::int64_t probed = std::min(items, kProbedFiles);
  std::int64_t with_points = 0;
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < probed; ++i) {
    if (!train_data_->read_encoded(i * items / probed, file)) continue;
    const auto points = scanner.scan(file);
    if (points.empty()) continue;
    ++with_points;
    bytes += static_cast<std::int64_t>(points.size_bytes());
  }
  // An index gains little if most files cannot have one.
  if (2 * with_points >= probed) facts_.jpeg_index_bytes = bytes * items / probed;
}

}  // namespace autotuned::trainer
