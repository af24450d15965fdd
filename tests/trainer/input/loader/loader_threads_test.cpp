// SPDX-License-Identifier: Apache-2.0
// What only shows with several threads; meant for ThreadSanitizer.
#include <gmock/gmock.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "tests/trainer/input/loader_fixture.hpp"
#include "trainer/input/loader/loader.hpp"
#include "trainer/input/loader/worker_cpus.hpp"

namespace autotuned::input {
namespace {

constexpr SampleOrder kShuffled{.seed = 9, .is_shuffled = true};

// Lets a test wait until something has happened in another thread, or until it fails.
class Gate {
 public:
  template <class Change>
  void change(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  template <class Condition>
  void wait(Condition condition) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, condition);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

TEST(LoaderThreads, FillTheRingAheadWithoutBeingAsked) {
  Gate gate;
  int reads = 0;
  NumberedDataset dataset(100);
  dataset.on_read = [&](std::int64_t) -> Result<void> {
    gate.change([&] { ++reads; });
    return {};
  };
  const LoaderCase job{.workers = 2, .slots = 3, .batch_size = 4};
  Buffers buffers(job.slots, job.batch_size, job.type);
  const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
  loader->resume();
  gate.wait([&] { return reads == 12; });
  loader->pause();  // until the last chunk is noted
  EXPECT_EQ(loader->fullness(), 3);
  EXPECT_EQ(reads, 12);  // and no further than the ring
  const auto batch = loader->next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->wait_ns, 0);
  EXPECT_EQ(loader->fullness(), 2);
  EXPECT_EQ(loader->position(), (Position{0, 4}));
}

TEST(LoaderThreads, ShareOneBatch) {
  Gate gate;
  std::set<std::thread::id> inside;
  NumberedDataset dataset(100);
  // Nobody gets on before two threads read samples of the only batch that there is room for.
  dataset.on_read = [&](std::int64_t) -> Result<void> {
    gate.change([&] { inside.insert(std::this_thread::get_id()); });
    gate.wait([&] { return inside.size() >= 2; });
    return {};
  };
  const LoaderCase job{.workers = 2, .slots = 1, .batch_size = 8};
  Buffers buffers(job.slots, job.batch_size, job.type);
  const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
  Expected expected(dataset.size(), kShuffled);
  loader->resume();
  expect_batches(*loader, buffers, job, expected, 1);
  EXPECT_FALSE(inside.contains(std::this_thread::get_id()));
}

// All other samples for which there is room get ready meanwhile, those of its batch and of later ones.
TEST(LoaderThreads, GoOnWhileOneSampleIsSlow) {
  Gate gate;
  bool is_over = false;
  std::set<std::int64_t> read;
  NumberedDataset dataset(100);
  dataset.on_read = [&](std::int64_t index) -> Result<void> {
    if (index == 0) gate.wait([&] { return is_over; });
    gate.change([&] { read.insert(index); });
    return {};
  };
  const LoaderCase job{.workers = 2, .slots = 3, .batch_size = 8};
  Buffers buffers(job.slots, job.batch_size, job.type);
  const SampleOrder in_turn{.is_shuffled = false};
  const auto loader = make_loader(dataset, in_turn, settings_of(job, buffers));
  loader->resume();
  gate.wait([&] { return read.size() == 23; });
  while (loader->fullness() < 2)  // until the last chunk is noted
    std::this_thread::yield();
  EXPECT_FALSE(read.contains(0));
  gate.change([&] { is_over = true; });
  Expected expected(dataset.size(), in_turn);
  expect_batches(*loader, buffers, job, expected, 3);
}

// The CPUs that a thread may use.
std::vector<bool> cpus_of(pthread_t thread) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  EXPECT_EQ(::pthread_getaffinity_np(thread, sizeof mask, &mask), 0);
  std::vector<bool> cpus(CPU_SETSIZE);
  for (std::size_t cpu = 0; cpu < cpus.size(); ++cpu)
    cpus[cpu] = CPU_ISSET(cpu, &mask);
  return cpus;
}

// Whether `cpus` are all of `all` but one, or all where there is but one.
bool are_all_but_one(const std::vector<bool>& cpus, const std::vector<bool>& all) {
  int left_out = 0;
  for (std::size_t cpu = 0; cpu < all.size(); ++cpu) {
    if (cpus[cpu] && !all[cpu]) return false;
    if (all[cpu] && !cpus[cpu]) ++left_out;
  }
  return left_out == (std::ranges::count(all, true) > 1 ? 1 : 0);
}

TEST(WorkerCpus, AreTheOthersOfTheCaller) {
  const std::vector<bool> callers = cpus_of(::pthread_self());
  Gate gate;
  bool is_over = false;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] { gate.wait([&] { return is_over; }); });
  // Which one that is only the system knows, since it may move the caller meanwhile.
  EXPECT_TRUE(place_threads(threads, Affinity::apart));
  for (std::jthread& thread : threads)
    EXPECT_TRUE(are_all_but_one(cpus_of(thread.native_handle()), callers));
  EXPECT_EQ(cpus_of(::pthread_self()), callers);
  EXPECT_TRUE(place_threads(threads, Affinity::any));
  for (std::jthread& thread : threads)
    EXPECT_EQ(cpus_of(thread.native_handle()), callers);
  gate.change([&] { is_over = true; });
}

TEST(LoaderThreads, KeepOffTheCpuOfTheCallerWhereTold) {
  const std::vector<bool> callers = cpus_of(::pthread_self());
  Gate gate;
  std::set<std::vector<bool>> seen;
  NumberedDataset dataset(100);
  dataset.on_read = [&](std::int64_t) -> Result<void> {
    gate.change([&] { seen.insert(cpus_of(::pthread_self())); });
    return {};
  };
  const LoaderCase job{.workers = 3, .slots = 2, .batch_size = 8};
  Buffers buffers(job.slots, job.batch_size, job.type);
  Expected expected(dataset.size(), kShuffled);
  const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
  const auto masks = [&](int workers, Affinity affinity) {
    LoaderSettings settings = settings_of(job, buffers);
    settings.workers = workers;
    settings.affinity = affinity;
    EXPECT_TRUE(loader->reconfigure(settings));
    seen.clear();
    loader->resume();
    expect_batches(*loader, buffers, job, expected, 6);
    loader->pause();
    EXPECT_EQ(cpus_of(::pthread_self()), callers);
    return seen;
  };
  // As many as before, more and fewer are placed alike; then all may run anywhere again.
  for (const int workers : {3, 4, 2}) {
    const auto found = masks(workers, Affinity::apart);
    ASSERT_EQ(found.size(), 1U) << workers;
    EXPECT_TRUE(are_all_but_one(*found.begin(), callers)) << workers;
  }
  EXPECT_EQ(masks(2, Affinity::any), std::set{callers});
}

TEST(LoaderThreads, DoNothingWhilePaused) {
  std::atomic<bool> is_paused = true;
  std::atomic<int> reads_while_paused = 0;
  NumberedDataset dataset(1000);
  dataset.on_read = [&](std::int64_t) -> Result<void> {
    if (is_paused) ++reads_while_paused;
    return {};
  };
  const LoaderCase job{.workers = 3, .slots = 4, .batch_size = 16};
  Buffers buffers(job.slots, job.batch_size, job.type);
  const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
  for (int i = 0; i < 1000; ++i) {
    is_paused = false;
    loader->resume();
    const auto batch = loader->next();
    ASSERT_TRUE(batch);
    loader->pause();
    is_paused = true;
    const int fullness = loader->fullness();
    loader->release(batch->slot);  // room for another batch, but not yet
    std::this_thread::yield();
    ASSERT_EQ(loader->fullness(), fullness);
    ASSERT_EQ(reads_while_paused, 0);
  }
}

TEST(LoaderThreads, EndWithTheLoaderInAnyState) {
  const NumberedDataset dataset(100);
  for (int i = 0; i < 200; ++i) {
    const LoaderCase job{.workers = i % 4, .slots = static_cast<std::size_t>(1 + i % 3)};
    Buffers buffers(job.slots, job.batch_size, job.type);
    const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
    if (i % 2 == 0) loader->resume();
    if (i % 5 == 0) {
      ASSERT_TRUE(loader->next());
    }
  }
}

TEST(LoaderThreads, SurviveEveryChangeWhileTheyWork) {
  const NumberedDataset dataset(200, true);
  LoaderCase job{.workers = 2, .slots = 3, .batch_size = 8};
  auto buffers = std::make_unique<Buffers>(job.slots, job.batch_size, job.type);
  const auto loader = make_loader(dataset, kShuffled, settings_of(job, *buffers));
  Expected expected(dataset.size(), kShuffled);
  std::uint32_t random = 12345;
  const auto below = [&random](std::uint32_t bound) {
    random = random * 1664525 + 1013904223;
    return (random >> 8U) % bound;
  };
  for (int i = 0; i < 3000; ++i) {
    switch (below(6)) {
      case 0: {
        job = {static_cast<int>(below(5)), 1 + below(6), 1 + below(40),
               below(2) == 0 ? PixelType::uint8 : PixelType::float32, below(2) == 0};
        auto other = std::make_unique<Buffers>(job.slots, job.batch_size, job.type);
        ASSERT_TRUE(loader->reconfigure(settings_of(job, *other)));
        buffers = std::move(other);
        break;
      }
      case 1: {
        const Position position{below(4), below(201)};
        loader->seek(position);
        expected.seek(position);
        break;
      }
      case 2:
        loader->pause();
        break;
      case 3:
        loader->resume();
        break;
      default:
        expect_batches(*loader, *buffers, job, expected, static_cast<int>(1 + below(5)));
    }
    ASSERT_FALSE(testing::Test::HasFatalFailure());
  }
}

TEST(LoaderThreads, MayBeWatchedAndGivenSlotsFromOtherThreads) {
  const NumberedDataset dataset(1000);
  const LoaderCase job{.workers = 2, .slots = 4, .batch_size = 16};
  Buffers buffers(job.slots, job.batch_size, job.type);
  const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
  loader->resume();
  Gate gate;
  std::vector<int> to_release;
  bool is_over = false;
  std::jthread releaser([&] {
    while (true) {
      std::vector<int> slots;
      gate.wait([&] { return is_over || !to_release.empty(); });
      gate.change([&] { slots.swap(to_release); });
      if (slots.empty()) return;
      for (const int slot : slots)
        loader->release(slot);
      EXPECT_LE(loader->fullness(), 4);
      const Position position = loader->position();
      EXPECT_GE(loader->statistics().samples, position.sample);
    }
  });
  for (int i = 0; i < 60; ++i) {
    const auto batch = loader->next();
    ASSERT_TRUE(batch);
    gate.change([&] { to_release.push_back(batch->slot); });
    gate.wait([&] { return to_release.empty(); });
  }
  gate.change([&] { is_over = true; });
}

}  // namespace
}  // namespace autotuned::input
