// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/loader/loader.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <stdexcept>

#include "tests/trainer/input/loader_fixture.hpp"

namespace autotuned::input {
namespace {

using testing::HasSubstr;

constexpr SampleOrder kShuffled{.seed = 3, .is_shuffled = true};

std::vector<LoaderCase> many_jobs() {
  std::vector<LoaderCase> jobs;
  for (const int workers : {0, 1, 2, 4}) {
    for (const std::size_t slots : {1U, 2U, 5U}) {
      for (const PixelType type : {PixelType::float32, PixelType::uint8}) {
        for (const bool drop_last : {true, false}) {
          for (const std::int64_t batch_size : {1, 8, 33}) {
            jobs.push_back({workers, slots, batch_size, type, drop_last});
          }
        }
      }
    }
  }
  return jobs;
}

TEST(Loader, GivesTheSameSequenceWhoeverFillsIt) {
  for (const bool is_in_memory : {true, false}) {
    const NumberedDataset dataset(100, is_in_memory);
    for (const LoaderCase& job : many_jobs()) {
      Buffers buffers(job.slots, job.batch_size, job.type);
      const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
      Expected expected(dataset.size(), kShuffled);
      loader->resume();
      // Over several ends of an epoch.
      expect_batches(*loader, buffers, job, expected, static_cast<int>(350 / job.batch_size));
    }
  }
}

TEST(Loader, ShowsEverySampleOncePerEpoch) {
  const NumberedDataset dataset(1000);
  const LoaderCase job{.workers = 2, .slots = 3, .batch_size = 64, .drop_last = false};
  Buffers buffers(job.slots, job.batch_size, job.type);
  const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
  loader->resume();
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int> seen(1000);
    Batch batch;
    do {
      const auto next = loader->next();
      ASSERT_TRUE(next);
      batch = *next;
      EXPECT_EQ(batch.position.epoch, epoch);
      for (const std::int64_t index : buffers.indices_of(batch)) {
        ++seen[static_cast<std::size_t>(index)];
      }
      loader->release(batch.slot);
    } while (!batch.ends_epoch);
    EXPECT_EQ(batch.samples, 1000 % 64);
    EXPECT_THAT(seen, testing::Each(1));
  }
}

TEST(Loader, MarksTheLastBatchOfAnEpoch) {
  const NumberedDataset dataset(10);
  for (const bool drop_last : {true, false}) {
    const LoaderCase job{.batch_size = 4, .drop_last = drop_last};
    Buffers buffers(job.slots, job.batch_size, job.type);
    const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
    std::vector<bool> ends;
    for (int i = 0; i < 6; ++i) {
      const auto batch = loader->next();
      ASSERT_TRUE(batch);
      ends.push_back(batch->ends_epoch);
      loader->release(batch->slot);
    }
    const std::vector<bool> expected = drop_last
                                           ? std::vector{false, true, false, true, false, true}
                                           : std::vector{false, false, true, false, false, true};
    EXPECT_EQ(ends, expected);
  }
}

TEST(Loader, GoesOnAnywhere) {
  const NumberedDataset dataset(100);
  for (const LoaderCase& job : many_jobs()) {
    Buffers buffers(job.slots, job.batch_size, job.type);
    const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
    Expected expected(dataset.size(), kShuffled);
    loader->resume();
    for (const Position position :
         {Position{5, 13}, Position{0, 0}, Position{2, 99}, Position{1, 100}, Position{0, 50}}) {
      loader->seek(position);
      EXPECT_EQ(loader->position(), position.sample == 100 ? (Position{2, 0}) : position);
      expected.seek(position);
      expect_batches(*loader, buffers, job, expected, 5);
    }
  }
}

TEST(Loader, KeepsItsPositionWhenSettingsChange) {
  const NumberedDataset dataset(100);
  auto jobs = many_jobs();
  auto buffers = std::make_unique<Buffers>(jobs[0].slots, jobs[0].batch_size, jobs[0].type);
  const auto loader = make_loader(dataset, kShuffled, settings_of(jobs[0], *buffers));
  Expected expected(dataset.size(), kShuffled);
  loader->resume();
  // A fixed order in which neighbours differ in everything.
  for (std::size_t i = 0; i < 2 * jobs.size(); ++i) {
    const LoaderCase& job = jobs[i * 29 % jobs.size()];
    auto other = std::make_unique<Buffers>(job.slots, job.batch_size, job.type);
    const auto changed = loader->reconfigure(settings_of(job, *other));
    ASSERT_TRUE(changed) << changed.error().message();
    buffers = std::move(other);
    expect_batches(*loader, *buffers, job, expected, 3);
  }
}

// 96 of 100 are seen; the four left are too few for another 32, but not for a batch of four.
TEST(Loader, ReturnsToTheRestOfAnEpochWithSmallerBatches) {
  const NumberedDataset dataset(100);
  LoaderCase job{.workers = 2, .slots = 4, .batch_size = 32};
  Buffers large(job.slots, job.batch_size, job.type);
  Buffers small(job.slots, 4, job.type);  // the loader still fills it when the test ends
  const auto loader = make_loader(dataset, kShuffled, settings_of(job, large));
  Expected expected(dataset.size(), kShuffled);
  loader->resume();
  expect_batches(*loader, large, job, expected, 3);
  EXPECT_EQ(loader->position(), (Position{0, 96}));
  job.batch_size = 4;
  ASSERT_TRUE(loader->reconfigure(settings_of(job, small)));
  expect_batches(*loader, small, job, expected, 1);
  EXPECT_EQ(loader->position(), (Position{1, 0}));
}

TEST(Loader, TakesSlotsBackInAnyOrder) {
  const NumberedDataset dataset(100);
  for (const int workers : {0, 2}) {
    const LoaderCase job{.workers = workers, .slots = 3};
    Buffers buffers(job.slots, job.batch_size, job.type);
    const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
    Expected expected(dataset.size(), kShuffled);
    loader->resume();
    const auto kept = loader->next();
    ASSERT_TRUE(kept);
    const auto kept_indices = expected.next(job.batch_size, true);
    expect_batches(*loader, buffers, job, expected, 20);
    EXPECT_EQ(buffers.indices_of(*kept), kept_indices);
    loader->release(kept->slot);
    expect_batches(*loader, buffers, job, expected, 20);
  }
}

TEST(Loader, FillsInTheCallersThreadWhilePaused) {
  const NumberedDataset dataset(100);
  const LoaderCase job{.workers = 2, .slots = 2};
  Buffers buffers(job.slots, job.batch_size, job.type);
  const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
  Expected expected(dataset.size(), kShuffled);
  expect_batches(*loader, buffers, job, expected, 30);
  EXPECT_EQ(loader->fullness(), 0);
}

TEST(Loader, CountsWhatItProduces) {
  const NumberedDataset dataset(100);
  const LoaderCase job{.batch_size = 10};
  Buffers buffers(job.slots, job.batch_size, job.type);
  const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
  const auto batch = loader->next();
  ASSERT_TRUE(batch);
  const LoaderStatistics statistics = loader->statistics();
  EXPECT_EQ(statistics.samples, 10);
  EXPECT_GT(statistics.producing_ns, 0);
  EXPECT_GE(batch->wait_ns, statistics.producing_ns);
}

TEST(Loader, EndsWithTheErrorOfTheDataSetInItsPlace) {
  std::atomic<bool> is_broken = true;
  NumberedDataset dataset(100);
  EpochOrder order(100, kShuffled.seed, true);
  const std::int64_t bad = order.of_epoch(0)[43];  // in batch 5 of 8 samples each
  dataset.on_read = [&](std::int64_t index) -> Result<void> {
    if (index == bad && is_broken) return fail(ErrorKind::io, "cannot read", "photos/7.jpg");
    return {};
  };
  for (const int workers : {0, 1, 4}) {
    is_broken = true;
    const LoaderCase job{.workers = workers, .slots = 4};
    Buffers buffers(job.slots, job.batch_size, job.type);
    const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
    Expected expected(dataset.size(), kShuffled);
    loader->resume();
    expect_batches(*loader, buffers, job, expected, 5);
    for (int i = 0; i < 3; ++i) {
      const auto batch = loader->next();
      ASSERT_FALSE(batch);
      EXPECT_EQ(batch.error().where, "photos/7.jpg");
      EXPECT_EQ(loader->position(), (Position{0, 40}));
    }
    is_broken = false;
    loader->seek(loader->position());
    expect_batches(*loader, buffers, job, expected, 20);
  }
}

TEST(Loader, TurnsExceptionsIntoErrors) {
  NumberedDataset dataset(100);
  dataset.on_read = [](std::int64_t index) -> Result<void> {
    if (index == 50) throw std::runtime_error("no such page");
    if (index == 51) throw std::bad_alloc();
    return {};
  };
  const LoaderCase job{.workers = 2, .slots = 2, .batch_size = 1};
  Buffers buffers(job.slots, job.batch_size, job.type);
  const auto loader = make_loader(dataset, {.is_shuffled = false}, settings_of(job, buffers));
  loader->resume();
  loader->seek({0, 50});
  const auto first = loader->next();
  ASSERT_FALSE(first);
  EXPECT_THAT(first.error().what, HasSubstr("no such page"));
  loader->seek({0, 51});
  const auto second = loader->next();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::out_of_memory);
}

TEST(Loader, RefusesSettingsThatCannotWorkAndKeepsTheOldOnes) {
  const NumberedDataset dataset(20);
  const LoaderCase job{.slots = 2};
  Buffers buffers(job.slots, job.batch_size, job.type);
  const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
  Expected expected(dataset.size(), kShuffled);
  const auto what = [&](LoaderSettings settings) {
    const auto result = loader->reconfigure(std::move(settings));
    return result ? std::string() : result.error().message();
  };
  auto settings = settings_of(job, buffers);
  settings.workers = -1;
  EXPECT_THAT(what(settings), HasSubstr("workers"));
  settings = settings_of(job, buffers);
  settings.batch_size = 0;
  EXPECT_THAT(what(settings), HasSubstr("batch size"));
  settings.batch_size = 21;
  EXPECT_THAT(what(settings),
              HasSubstr("a batch of 21 is never full: the data set has 20 samples"));
  settings.batch_size = 8;
  settings.ring.clear();
  EXPECT_THAT(what(settings), HasSubstr("ring"));
  expect_batches(*loader, buffers, job, expected, 5);
}

TEST(Loader, MayHaveABatchLargerThanTheData) {
  const NumberedDataset dataset(20);
  const LoaderCase job{.workers = 1, .slots = 2, .batch_size = 64, .drop_last = false};
  Buffers buffers(job.slots, job.batch_size, job.type);
  const auto loader = make_loader(dataset, kShuffled, settings_of(job, buffers));
  Expected expected(dataset.size(), kShuffled);
  loader->resume();
  expect_batches(*loader, buffers, job, expected, 5);
}

}  // namespace
}  // namespace autotuned::input
