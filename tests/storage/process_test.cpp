// SPDX-License-Identifier: Apache-2.0
// Several processes on one history, and processes that are killed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <random>
#include <stdexcept>

#include "storage/history.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/storage/sample.hpp"

namespace autotuned::storage {
namespace {

class Pipe {
 public:
  Pipe() {
    if (::pipe(ends_.data()) != 0) throw std::runtime_error("pipe failed");
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void send() const {
    if (::write(ends_[1], "x", 1) != 1) ::_exit(96);
  }
  // False at the end of the stream.
  [[nodiscard]] bool receive() const {
    char byte = 0;
    return ::read(ends_[0], &byte, 1) == 1;
  }
  void close_reading() { close_end(0); }
  void close_writing() { close_end(1); }

 private:
  void close_end(std::size_t end) {
    if (ends_.at(end) >= 0) ::close(ends_.at(end));
    ends_.at(end) = -1;
  }
  std::array<int, 2> ends_{-1, -1};
};

// A few milliseconds, to reach any place of a transaction.
void spin(std::uint64_t turns) {
  std::atomic<std::uint64_t> turn = 0;
  while (turn.fetch_add(1, std::memory_order_relaxed) < turns) {
  }
}

// A trial of the sample run and its blocks, for ever: one byte into the pipe for each block stored.
int write_blocks(const std::filesystem::path& file, int trial, const Pipe& acknowledged) {
  auto history = History::open(file, Access::read_write);
  if (!history) return 1;
  const RunId run = sample_run().id;
  if (!history->put_trial(run, sample_trial(trial))) return 2;
  for (int pair = 1;; ++pair) {
    // Some facts are larger than a page, and now and then a whole row is replaced.
    TrialBlock block = sample_block(pair);
    block.block.losses.assign(pair % 7 == 0 ? 3000U : 3U, 0.5);
    if (!history->put_block({run, trial}, block)) return 3;
    acknowledged.send();
    if (pair % 5 == 0 && !history->put_trial(run, sample_trial(trial))) return 4;
  }
}

TEST(KillTest, RunsOfAKilledProcessAreSeenAsInterrupted) {
  const TemporaryFolder folder;
  const auto file = folder / "history.db";
  const RunId run = sample_run().id;  // in training
  static_cast<void>(open_with_run(file));
  const Pipe claimed;
  const int child = start_child([&] {
    const auto claim = History::open(file, Access::read_write)->claim(run);
    if (!claim) return 1;
    claimed.send();
    for (;;)
      ::pause();
  });
  ASSERT_TRUE(claimed.receive());
  const auto history = History::open(file, Access::read_write).value();
  EXPECT_FALSE(history.run(run.text)->is_interrupted);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(wait_for(child), -SIGKILL);
  EXPECT_TRUE(history.run(run.text)->is_interrupted);
  EXPECT_TRUE(history.claim(run)->is_open());
}

// Two at one run would spoil it for each other. The second one waits a while, then is told.
TEST(ClaimTest, OneProcessAtATime) {
  const TemporaryFolder folder;
  const History history = open_with_run(folder / "history.db");
  auto first = history.claim(sample_run().id).value();
  const auto second = history.claim(sample_run().id);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::busy);
  EXPECT_NE(second.error().what.find(sample_run().id.text), std::string::npos);
  first.reset();
  EXPECT_TRUE(history.claim(sample_run().id));
}

TEST(KillTest, NothingAcknowledgedIsLost) {
  constexpr int kKills = 50;
  const TemporaryFolder folder;
  const auto file = folder / "history.db";
  const RunId run = sample_run().id;
  static_cast<void>(open_with_run(file));

  std::mt19937 random(20261121);
  std::vector<std::size_t> stored;  // by trial
  for (int kill = 1; kill <= kKills; ++kill) {
    Pipe pipe;
    const int child = start_child([&] {
      pipe.close_reading();
      return write_blocks(file, kill, pipe);
    });
    pipe.close_writing();
    // Between a block and the next at first, then anywhere within the transactions that follow.
    std::size_t acknowledged = 0;
    const auto before_kill = random() % 8;
    while (acknowledged < before_kill && pipe.receive())
      ++acknowledged;
    spin(random() % 1'000'000);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    while (pipe.receive())
      ++acknowledged;
    ASSERT_EQ(wait_for(child), -SIGKILL);

    const auto history = History::open(file, Access::read_only);
    ASSERT_TRUE(history) << history.error().message();
    stored.push_back(history->blocks({run, kill}).value().size());
    ASSERT_GE(stored.back(), acknowledged) << "after kill " << kill;
    ASSERT_LE(stored.back(), acknowledged + 1) << "after kill " << kill;
    ASSERT_EQ(history->check_integrity().value().text(), "ok");
  }
  const auto history = History::open(file, Access::read_only).value();
  std::size_t sum = 0;
  for (int kill = 1; kill <= kKills; ++kill) {
    const std::size_t blocks = history.blocks({run, kill}).value().size();
    EXPECT_EQ(blocks, stored.at(static_cast<std::size_t>(kill) - 1)) << "of kill " << kill;
    sum += blocks;
  }
  EXPECT_GT(sum, 50U);
}

TEST(KillTest, FirstStartCanBeRepeated) {
  constexpr int kKills = 50;
  std::mt19937 random(20261122);
  for (int kill = 0; kill < kKills; ++kill) {
    const TemporaryFolder folder;
    Pipe pipe;
    const int child = start_child([&] {
      pipe.close_reading();
      pipe.send();
      static_cast<void>(open_with_run(folder / "history.db"));
      return 0;
    });
    pipe.close_writing();
    ASSERT_TRUE(pipe.receive());
    spin(random() % 3'000'000);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    static_cast<void>(wait_for(child));
    auto history = History::open(folder / "history.db", Access::read_write);
    ASSERT_TRUE(history) << history.error().message();
    must(history->put_environment(sample_environment()));
    ASSERT_EQ(history->check_integrity().value().text(), "ok");
  }
}

TEST(ProcessTest, FirstStartsDoNotCollide) {
  constexpr int kRounds = 15;
  constexpr int kProcesses = 4;
  for (int round = 0; round < kRounds; ++round) {
    const TemporaryFolder folder;
    const auto file = folder / "new/history.db";
    Pipe start;
    std::vector<int> children;
    for (int child = 0; child < kProcesses; ++child) {
      children.push_back(start_child([&] {
        start.close_writing();
        static_cast<void>(start.receive());  // ends when the parent closes
        auto history = History::open(file, Access::read_write);
        if (!history) throw std::runtime_error(history.error().message());
        must(history->put_environment(sample_environment("e" + std::to_string(child))));
        return 0;
      }));
    }
    start.close_writing();
    for (const int child : children)
      ASSERT_EQ(wait_for(child), 0) << "round " << round;
    const auto history = History::open(file, Access::read_only);
    ASSERT_TRUE(history) << history.error().message();
    ASSERT_EQ(history->check_integrity().value().text(), "ok");
  }
}

// Readers come and go while two processes write: nobody is told `busy`, and what was seen stays.
TEST(ProcessTest, ReadersAndWritersDoNotDisturbEachOther) {
  constexpr int kFacts = 100;
  const TemporaryFolder folder;
  const auto file = folder / "history.db";
  const std::vector<std::string> runs = {"r-1", "r-2"};
  for (const std::string& run : runs)
    must(open_with_run(file, run).put_trial(RunId{run}, sample_trial()));

  std::vector<int> writers;
  for (const std::string& run : runs) {
    writers.push_back(start_child([&] {
      auto history = History::open(file, Access::read_write).value();
      for (int pair = 1; pair <= kFacts; ++pair)
        must(history.put_block({RunId{run}, 1}, sample_block(pair)));
      return 0;
    }));
  }
  std::vector<int> readers;
  for (int reader = 0; reader < 2; ++reader) {
    readers.push_back(start_child([&] {
      std::size_t seen = 0;
      while (seen < kFacts) {
        const auto history = History::open(file, Access::read_only);
        if (!history) throw std::runtime_error(history.error().message());
        const auto blocks = history->blocks({RunId{"r-1"}, 1});
        if (!blocks) throw std::runtime_error(blocks.error().message());
        if (blocks->size() < seen) throw std::runtime_error("a block went away");
        seen = blocks->size();
      }
      return 0;
    }));
  }
  for (const int writer : writers)
    EXPECT_EQ(wait_for(writer), 0);
  for (const int reader : readers)
    EXPECT_EQ(wait_for(reader), 0);
  const auto history = History::open(file, Access::read_only).value();
  for (const std::string& run : runs)
    EXPECT_EQ(history.blocks({RunId{run}, 1}).value().size(), std::size_t{kFacts});
}

}  // namespace
}  // namespace autotuned::storage
