// SPDX-License-Identifier: Apache-2.0
// What a job keeps of its samples from one epoch to the next: caches in memory or in a file, and an index of JPEG files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/trial.hpp"
#include "profiler/metrics.hpp"
#include "recipes/recipe.hpp"
#include "trainer/feed/feed.hpp"
#include "trainer/input/common/sample_cache.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/jpeg_index/jpeg_index.hpp"
#include "trainer/input/loader/kept.hpp"
#include "trainer/input/transforms/pipeline.hpp"

namespace autotuned::trainer {

// What a cache of this pipeline would hold of all data.
[[nodiscard]] std::int64_t cache_bytes_wanted(const input::Pipeline& pipeline,
                                              const input::Dataset& data);

// One thread. Feeds use what it gave them: it must outlive them.
class KeptSamples {
 public:
  // REQUIRES: `recipe` outlives this. `memory_allowed_bytes`: of the process.
  KeptSamples(const recipes::Recipe& recipe, std::int64_t memory_allowed_bytes);

  // What a feed of these data uses with this pipeline; null where the pipeline keeps nothing. Of more than two caches the one
  // that was used longest ago is given up, but not that of `in_use`, which the feed works with until it is told.
  [[nodiscard]] Result<input::Kept> for_pipeline(const input::Pipeline& pipeline,
                                                 const input::Dataset& data,
                                                 const input::Kept& in_use);

  // Fills what the feed uses, with so many threads, if that was not done yet: blocks and profiles show a cache as it is once
  // everything is in it, and training fills it on its way. Answers as save_index().
  [[nodiscard]] std::optional<Error> fill(Feed& feed, int threads,
                                          const std::function<bool()>& is_cancelled);
  // Adds what filling has cost that the next process of this configuration must do again.
  void add_one_time_cost(const input::Kept& used, Block& block) const;
  // What the used cache holds, and what filling it took.
  void add_cache_facts(const input::Kept& used, profiler::ProfileFacts& facts) const;

  // Between two epochs, while loader threads work.
  void compact_index(Feed& feed);
  // Without a file the next job with these data makes the index anew: a warning and no error, and one is enough.
  [[nodiscard]] std::optional<Error> save_index();

  // Where the space of all caches there and, in memory, of the index ends.
  [[nodiscard]] std::int64_t bytes_allowed(input::CachePlace place) const;

 private:
  struct Cache {
    std::string key;
    input::CachePlace place = input::CachePlace::memory;
    std::int64_t wanted_bytes = 0;  // with all of the data
    std::unique_ptr<input::SampleCache> cache;
    bool was_filled = false;
    std::int64_t fill_ns = 0;
    std::int64_t filled_samples = 0;  // that it held then
  };
  struct Index {
    std::unique_ptr<input::JpegIndex> index;  // null until a form asks for it
    std::filesystem::path file;               // empty: there is no place for one
    std::string key;                          // of the data
    bool was_filled = false;
    std::int64_t fill_ns = 0;
    bool has_warned = false;  // that it cannot be saved
  };

  Result<input::SampleCache*> cache_for(const input::Pipeline& pipeline, const input::Dataset& data,
                                        const input::SampleCache* in_use);
  // kept_index.cpp
  Result<input::JpegIndex*> index_for(const input::Pipeline& pipeline, const input::Dataset& data);
  // What the caches there and, in memory, the index have.
  [[nodiscard]] std::int64_t kept_bytes(input::CachePlace place) const;
  // The free bytes of that space.
  [[nodiscard]] std::int64_t bytes_left(input::CachePlace place) const;

  const recipes::Recipe* recipe_;
  std::int64_t memory_allowed_bytes_;
  std::list<Cache>
      caches_;  // the one in use or used last first, and one more, so that two can be compared
  Index index_;
};

}  // namespace autotuned::trainer
