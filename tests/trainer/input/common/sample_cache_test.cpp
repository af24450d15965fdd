// SPDX-License-Identifier: Apache-2.0
// Samples kept in memory or in a file: the same bytes, each made once, never more room than allowed.
#include "trainer/input/common/sample_cache.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <numeric>
#include <thread>

#include "tests/base/temporary_folder.hpp"
#include "tests/trainer/input/fixtures.hpp"
#include "tests/trainer/input/loader_fixture.hpp"

namespace autotuned::input {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::Le;

constexpr std::int64_t kPlenty = 1 << 20;

std::unique_ptr<SampleCache> cache_of(std::int64_t items, std::int64_t bytes,
                                      CachePlace place = CachePlace::memory) {
  auto cache = place == CachePlace::file ? SampleCache::create_in_file(
                                               items, bytes, std::filesystem::temp_directory_path())
                                         : SampleCache::create(items, bytes);
  EXPECT_TRUE(cache) << (cache ? "" : cache.error().message());
  return cache ? std::move(*cache) : nullptr;
}

std::vector<std::uint8_t> bytes_in(const SampleCache& cache, std::int64_t item) {
  std::vector<std::uint8_t> room;
  const auto found = cache.find(item, room);
  EXPECT_TRUE(found);
  return found ? std::vector<std::uint8_t>(found->bytes.begin(), found->bytes.end()) : room;
}

class SampleCaches : public testing::TestWithParam<CachePlace> {};
INSTANTIATE_TEST_SUITE_P(Places, SampleCaches,
                         testing::Values(CachePlace::memory, CachePlace::file));

Sample sample_of(const std::vector<std::uint8_t>& bytes) {
  return {Element::uint8, {1, 1, static_cast<int>(bytes.size())}, bytes};
}

TEST_P(SampleCaches, GiveBackWhatTheyWereGiven) {
  const auto cache = cache_of(3, kPlenty, GetParam());
  std::vector<std::uint8_t> room;
  EXPECT_FALSE(cache->has(1));
  EXPECT_FALSE(cache->find(1, room));
  std::vector<std::uint8_t> bytes = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  cache->keep(1, {Element::float32, {1, 3, 1}, bytes});
  cache->keep(2, {Element::encoded, {}, {}});
  bytes.assign(12, 0);
  cache->will_need(0);
  cache->will_need(1);
  cache->forget_memory();
  EXPECT_TRUE(cache->has(1));
  const auto found = cache->find(1, room);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->element, Element::float32);
  EXPECT_EQ(found->shape, (SampleShape{1, 3, 1}));
  EXPECT_THAT(found->bytes, testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(found->bytes.data()) % sizeof(float), 0U);
  EXPECT_EQ(bytes_in(*cache, 2).size(), 0U);  // of no bytes, but there
  EXPECT_FALSE(cache->has(0));
  EXPECT_EQ(cache->kept_items(), 2);
  cache->keep(1, sample_of({9}));  // what came first stays
  EXPECT_EQ(bytes_in(*cache, 1).size(), 12U);
}

TEST_P(SampleCaches, StayWithinTheirBytes) {
  const auto cache = cache_of(100, 4096, GetParam());
  const std::vector<std::uint8_t> bytes(500, 7);
  for (std::int64_t i = 0; i < 50; ++i)
    cache->keep(i, sample_of(bytes));
  EXPECT_LE(cache->bytes(), 4096);
  EXPECT_GT(cache->bytes(), 4096 - 800);
  EXPECT_EQ(cache->kept_items(), 5);
  EXPECT_TRUE(cache->has(4));
  EXPECT_FALSE(cache->has(5));
  EXPECT_FALSE(cache->is_wanted(5));  // it would not fit the next time either
  cache->keep(60, sample_of({1}));    // a small one still does
  EXPECT_TRUE(cache->has(60));
  EXPECT_FALSE(cache_of(100, 0, GetParam())->has(0));
  const auto empty = cache_of(100, 0, GetParam());
  empty->keep(0, sample_of({1}));
  EXPECT_EQ(empty->kept_items(), 0);
}

TEST_P(SampleCaches, AreFilledByManyAtOnce) {
  constexpr std::int64_t kItems = 500;
  const auto cache = cache_of(kItems, kPlenty, GetParam());
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        std::vector<std::uint8_t> bytes(64);
        std::vector<std::uint8_t> room;
        for (std::int64_t i = 0; i < kItems; ++i) {
          bytes.assign(64, static_cast<std::uint8_t>(i));
          cache->keep(i, sample_of(bytes));
          const auto found = cache->find(i, room);
          if (found && !std::ranges::equal(found->bytes, bytes)) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cache->kept_items(), kItems);
}

TEST(SampleCacheFile, HasNoNameAndEndsWithItsProcess) {
  const TemporaryFolder folder;
  auto cache = SampleCache::create_in_file(3, kPlenty, folder.path());
  ASSERT_TRUE(cache) << cache.error().message();
  (*cache)->keep(0, sample_of({1, 2, 3}));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_TRUE((*cache)->is_in_file());
  EXPECT_THAT(bytes_in(**cache, 0), testing::ElementsAre(1, 2, 3));
  const auto nowhere = SampleCache::create_in_file(3, kPlenty, folder / "missing");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().where, (folder / "missing").string());
}

// What was forgotten takes room until then, of which others may have found too little.
TEST(SampleCacheRoom, ServesAgainWhenCompacted) {
  constexpr std::int64_t kItems = 40;
  const auto cache = cache_of(kItems, 8192);
  const auto bytes_of_item = [](std::int64_t item) {
    return std::vector<std::uint8_t>(static_cast<std::size_t>(100 + 13 * (item % 7)),
                                     static_cast<std::uint8_t>(item));
  };
  const auto keep = [&](std::int64_t item) { cache->keep(item, sample_of(bytes_of_item(item))); };
  for (std::int64_t i = 0; i < kItems; ++i)
    keep(i);
  const std::int64_t full = cache->bytes();
  ASSERT_GT(cache->kept_items(), 20);
  ASSERT_FALSE(cache->has(kItems - 1));
  ASSERT_FALSE(cache->is_wanted(kItems - 1));  // found no room
  std::vector<bool> stays(kItems);
  for (std::int64_t i = 0; i < kItems; ++i) {
    stays[static_cast<std::size_t>(i)] = cache->has(i) && i % 2 == 1;
    if (i % 2 == 0) cache->forget(i);
  }
  EXPECT_EQ(cache->bytes(), full);
  const std::int64_t forgotten = cache->forgotten_bytes();
  EXPECT_GT(forgotten, 2000);
  cache->compact();
  EXPECT_EQ(cache->forgotten_bytes(), 0);
  EXPECT_EQ(cache->bytes(), full - forgotten);
  EXPECT_EQ(cache->kept_items(), std::ranges::count(stays, true));
  for (std::int64_t i = 0; i < kItems; ++i) {
    const bool stayed = stays[static_cast<std::size_t>(i)];
    EXPECT_EQ(cache->is_wanted(i), !stayed) << i;
    if (stayed) {
      EXPECT_EQ(bytes_in(*cache, i), bytes_of_item(i)) << i;
    }
  }
  keep(kItems - 1);
  EXPECT_EQ(bytes_in(*cache, kItems - 1), bytes_of_item(kItems - 1));
  EXPECT_LE(cache->bytes(), full);
}

// Ends what it limits.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    (void)std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

// As on a disk that becomes full: what was kept stays, and nobody tries again.
TEST(SampleCacheFile, GoesOnWithoutWhatTheDiskDoesNotTake) {
  const auto cache = cache_of(100, kPlenty, CachePlace::file);
  const std::vector<std::uint8_t> bytes(5000, 7);
  cache->keep(0, sample_of(bytes));
  {
    const FileSizeLimit limit(8000);
    cache->keep(1, sample_of(bytes));  // half of it
  }
  EXPECT_EQ(bytes_in(*cache, 0), bytes);
  EXPECT_FALSE(cache->has(1));
  EXPECT_FALSE(cache->is_wanted(1));
  EXPECT_FALSE(cache->is_wanted(2));
  cache->keep(2, sample_of({1}));
  EXPECT_FALSE(cache->has(2));
  EXPECT_EQ(cache->kept_items(), 1);
}

TEST(SampleCacheFile, IsNoLargerThanTheProcessMayMakeOne) {
  const FileSizeLimit limit(20'000);
  std::signal(SIGXFSZ, SIG_DFL);  // beyond the limit it would end the test
  const auto cache = cache_of(100, kPlenty, CachePlace::file);
  const std::vector<std::uint8_t> bytes(5000, 7);
  for (std::int64_t i = 0; i < 10; ++i)
    cache->keep(i, sample_of(bytes));
  EXPECT_EQ(cache->kept_items(), 3);
  EXPECT_EQ(bytes_in(*cache, 2), bytes);
}

// --- behind a loader ------------------------------------------------------------------------------

Pipeline numbered_in_form(CacheKind kind) {
  const std::vector<Transform> transforms = {{"resize", {{"size", 2}}},
                                             {"normalize", {{"mean", {0, -1000}}, {"std", 1}}}};
  auto made = Pipeline::compile(type_of(Element::uint8, {2, 2, 2}), transforms, 1, {.cache = kind});
  EXPECT_TRUE(made);
  return std::move(*made);
}

class CachedLoader : public testing::TestWithParam<std::tuple<CacheKind, int, CachePlace>> {};

TEST_P(CachedLoader, GivesTheSameBatchesAndReadsNothingTwice) {
  const auto [kind, workers, place] = GetParam();
  constexpr std::int64_t kSamples = 40;
  NumberedDataset dataset(kSamples);
  std::vector<std::atomic<int>> reads(kSamples);
  dataset.on_read = [&](std::int64_t index) -> Result<void> {
    ++reads[static_cast<std::size_t>(index)];
    return {};
  };
  const Pipeline pipeline = numbered_in_form(kind);
  const auto cache = cache_of(kSamples, kPlenty, place);
  const input::LoaderCase job{.workers = workers, .slots = 3, .batch_size = 8};
  Buffers buffers(job.slots, job.batch_size, job.type);
  const SampleOrder order{.seed = 5};
  LoaderSettings settings = settings_of(job, buffers);
  settings.kept.cache = cache.get();
  auto loader = Loader::create(dataset, order, pipeline, settings);
  ASSERT_TRUE(loader) << loader.error().message();
  (*loader)->resume();
  Expected expected(kSamples, order);
  const auto sum_of_reads = [&] { return std::accumulate(reads.begin(), reads.end(), 0); };
  expect_batches(**loader, buffers, job, expected, 5 * 2);  // two epochs
  (*loader)->pause();
  EXPECT_EQ(cache->kept_items(), kSamples);
  // Where one epoch follows the other, two workers may look for the same sample at the same time.
  for (const auto& count : reads)
    EXPECT_THAT(count.load(), AllOf(Ge(1), Le(std::max(1, workers))));
  const int before = sum_of_reads();
  (*loader)->resume();
  expect_batches(**loader, buffers, job, expected, 5 * 2);
  (*loader)->pause();
  EXPECT_EQ(sum_of_reads(), before);
}

TEST_P(CachedLoader, IsFilledAheadInTheOrderOfWhatComes) {
  const auto [kind, workers, place] = GetParam();
  constexpr std::int64_t kSamples = 40;
  NumberedDataset dataset(kSamples);
  std::atomic<int> reads = 0;
  dataset.on_read = [&](std::int64_t index) -> Result<void> {
    ++reads;
    if (index == 7) return fail(ErrorKind::corrupt, "is broken");
    return {};
  };
  const Pipeline pipeline = numbered_in_form(kind);
  const auto cache = cache_of(kSamples, kPlenty, place);
  const input::LoaderCase job{.workers = workers, .slots = 3, .batch_size = 8};
  Buffers buffers(job.slots, job.batch_size, job.type);
  LoaderSettings settings = settings_of(job, buffers);
  settings.kept.cache = cache.get();
  auto loader = Loader::create(dataset, {.seed = 5, .is_shuffled = false}, pipeline, settings);
  ASSERT_TRUE(loader) << loader.error().message();
  (*loader)->seek({0, 16});
  int asked = 0;
  (*loader)->fill_cache(1, std::chrono::hours(1), [&] { return ++asked == 4; });
  EXPECT_EQ(cache->kept_items(), 4);
  EXPECT_TRUE(cache->has(16));
  EXPECT_TRUE(cache->has(19));
  (*loader)->fill_cache(3, std::chrono::hours(1), [] { return false; });
  EXPECT_EQ(cache->kept_items(), kSamples - 1);
  EXPECT_EQ(reads, kSamples);
  (*loader)->fill_cache(1, std::chrono::nanoseconds(0), [] { return false; });
  // The broken one is named when its turn comes.
  (*loader)->seek({0, 0});
  const auto batch = (*loader)->next();
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().message(), "sample 7 of the data: is broken");
}

INSTANTIATE_TEST_SUITE_P(Kinds, CachedLoader,
                         testing::Combine(testing::Values(CacheKind::raw, CacheKind::prefix),
                                          testing::Values(0, 2),
                                          testing::Values(CachePlace::memory, CachePlace::file)));

TEST(CachedLoader, TakesOnAnotherCacheAndNoneOnItsWay) {
  constexpr std::int64_t kSamples = 40;
  const NumberedDataset dataset(kSamples);
  const Pipeline raw = numbered_in_form(CacheKind::raw);
  const Pipeline prefix = numbered_in_form(CacheKind::prefix);
  const auto first = cache_of(kSamples, kPlenty);
  const auto second = cache_of(kSamples, 1000);  // room for few
  const input::LoaderCase job{.workers = 2, .slots = 3, .batch_size = 8};
  Buffers buffers(job.slots, job.batch_size, job.type);
  const SampleOrder order{.seed = 5};
  auto loader = Loader::create(dataset, order, raw, settings_of(job, buffers));
  ASSERT_TRUE(loader);
  (*loader)->resume();
  Expected expected(kSamples, order);
  expect_batches(**loader, buffers, job, expected, 7);
  for (const auto& [pipeline, cache] : std::vector<std::pair<const Pipeline*, SampleCache*>>{
           {&raw, first.get()}, {&prefix, second.get()}, {&raw, nullptr}, {&raw, first.get()}}) {
    LoaderSettings settings = settings_of(job, buffers);
    settings.pipeline = pipeline;
    settings.kept.cache = cache;
    ASSERT_TRUE((*loader)->reconfigure(settings));
    expect_batches(**loader, buffers, job, expected, 12);
  }
  EXPECT_LE(second->bytes(), 1000);
  EXPECT_GT(second->kept_items(), 0);
  EXPECT_EQ(first->kept_items(), kSamples);
}

// A loader without workers, whose batches of 8 nobody looks at.
class TimedLoader : public testing::Test {
 protected:
  void SetUp() override {
    auto made = Loader::create(dataset_, {}, pipeline_, settings_of(job_, buffers_));
    ASSERT_TRUE(made);
    loader_ = std::move(*made);
  }
  void take() {
    const auto batch = loader_->next();
    ASSERT_TRUE(batch);
    loader_->release(batch->slot);
  }

  const NumberedDataset dataset_{40};
  const Pipeline pipeline_ = numbered_in_form(CacheKind::none);
  const input::LoaderCase job_{.workers = 0, .slots = 1, .batch_size = 8};
  Buffers buffers_{job_.slots, job_.batch_size, job_.type};
  std::unique_ptr<Loader> loader_;
};

TEST_F(TimedLoader, TimesEveryPartWhileAsked) {
  take();
  EXPECT_EQ(loader_->statistics().timed_samples, 0);
  loader_->time_parts(true);
  take();
  take();
  const LoaderStatistics timed = loader_->statistics();
  EXPECT_EQ(timed.timed_samples, 16);
  EXPECT_GT(timed.reading_ns, 0);
  ASSERT_EQ(timed.part_ns.size(), pipeline_.parts().size());
  for (const std::int64_t ns : timed.part_ns)
    EXPECT_GT(ns, 0);
  loader_->time_parts(false);
  take();
  EXPECT_EQ(loader_->statistics().timed_samples, 0);
}

TEST_F(TimedLoader, SpansSayWhichThreadWorkedOnWhichPartAndWhen) {
  take();
  loader_->record_spans(1000);
  take();
  const PartSpans whole = loader_->take_spans();
  take();
  EXPECT_EQ(whole.lost, 0);
  // One chunk, and for each of the 8 samples its reading and every part.
  ASSERT_EQ(whole.spans.size(), 1 + 8 * (1 + pipeline_.parts().size()));
  const PartSpan& chunk = whole.spans.front();
  EXPECT_EQ(chunk.part, PartSpan::kChunk);
  EXPECT_EQ(whole.spans[1].part, PartSpan::kReading);
  EXPECT_EQ(whole.spans[2].part, 0);
  for (const PartSpan& span : whole.spans) {
    EXPECT_EQ(span.thread, ::gettid());
    EXPECT_GE(span.start_ns, chunk.start_ns);
    EXPECT_LE(span.end_ns, chunk.end_ns);
  }
  EXPECT_TRUE(loader_->take_spans().spans.empty());

  loader_->record_spans(5);
  take();
  const PartSpans part = loader_->take_spans();
  EXPECT_EQ(part.spans.size(), 5U);
  EXPECT_EQ(part.lost, static_cast<std::int64_t>(whole.spans.size()) - 5);
}

}  // namespace
}  // namespace autotuned::input
