// SPDX-License-Identifier: Apache-2.0
// What was acknowledged survives a power cut, and a full or failing disk costs one call.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <random>
#include <stdexcept>

#include "storage/history.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/storage/power_vfs.hpp"
#include "tests/storage/power_workload.hpp"
#include "tests/storage/sample.hpp"

namespace autotuned::storage {
namespace {

const std::string kRun = "r-1";

// Cuts the power at a random operation of storing `most` facts, for each seed, and looks at the disk.
void cut_power(int most, std::uint64_t seeds) {
  const std::uint64_t operations = operations_of(most);
  std::mt19937_64 random(static_cast<std::uint64_t>(most));
  std::uint64_t cut_while_storing = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Cut cut = cut_power_at(most, 1 + random() % operations, seed);
    if (cut.acknowledged > 0 && cut.acknowledged < most) ++cut_while_storing;
    ASSERT_TRUE(cut.is_right()) << "seed " << seed << ": " << cut.acknowledged << " acknowledged, "
                                << cut.found << " found";
  }
  EXPECT_GT(cut_while_storing, seeds / 2);
}

TEST(PowerLossTest, NothingAcknowledgedIsLost) {
  cut_power(kLargeFact, 170);
}

TEST(PowerLossTest, NothingAcknowledgedIsLostWhenTheLogIsMoved) {
  cut_power(kMaxFacts, 30);
}

// The test above would not be worth much if it passed without the syncs.
TEST(PowerLossTest, WithoutFullSyncFactsAreLost) {
  int lost = 0;
  for (std::uint64_t seed = 0; seed < 50 && lost == 0; ++seed) {
    const TemporaryFolder before;
    const TemporaryFolder after;
    const auto file = before / "history.db";
    constexpr int kRows = 20;
    {
      const PowerVfs vfs;
      static_cast<void>(open_with_run(file));
      SQLite::Database database(file.string(), SQLite::OPEN_READWRITE);
      database.exec("PRAGMA synchronous = NORMAL");
      for (int row = 0; row < kRows; ++row) {
        database.exec("INSERT INTO environments VALUES ('n" + std::to_string(row) +
                      "', '{}', '', '')");
      }
      vfs.write_disk(after.path(), seed);
    }
    const int found = count_rows(after / "history.db");
    ASSERT_GE(found, 0) << "consistent even so";
    if (found < kRows + 3) ++lost;
  }
  EXPECT_GT(lost, 0);
}

// Nor if rows that are lost, or half replaced, could pass for those that were stored.
TEST(PowerLossTest, EachNumberOfFactsIsToldFromTheOthers) {
  const TemporaryFolder folder;
  const auto file = folder / "history.db";
  EXPECT_EQ(facts_in(file), 0);
  for (const int facts : {1, 4, 6, 8, 10, 12, kMaxFacts}) {
    std::filesystem::remove(file);
    ASSERT_EQ(store_facts(file, facts), facts);
    EXPECT_EQ(facts_in(file), facts);
  }
  for (const char* change :
       {"UPDATE trials SET reason = 'another'", "UPDATE runs SET state = 'tuning'",
        "UPDATE best_configurations SET updated_unix_ns = 6",
        "DELETE FROM blocks WHERE pair = 29"}) {
    std::filesystem::remove(file);
    ASSERT_EQ(store_facts(file, kMaxFacts), kMaxFacts);
    run_sql(file, change);
    EXPECT_EQ(facts_in(file), -1) << change;
  }
}

class FaultTest : public ::testing::TestWithParam<Fault> {};

// The n-th operation fails, for every n until a run meets no fault.
TEST_P(FaultTest, CostsOneCallAndNothingThatWasAcknowledged) {
  constexpr int kFewFacts = 14;
  int failed = 0;
  for (std::uint64_t operation = 1;; ++operation) {
    ASSERT_LT(operation, 2000U);
    const TemporaryFolder folder;
    const auto file = folder / "history.db";
    int acknowledged = 0;
    bool was_reached = false;
    {
      PowerVfs vfs;
      vfs.arm(GetParam(), operation);
      acknowledged = store_facts(file, kFewFacts);
      was_reached = vfs.operations() >= operation;
    }
    if (acknowledged < kFewFacts) ++failed;
    const int found = facts_in(file);
    ASSERT_GE(found, acknowledged) << "operation " << operation;
    ASSERT_LE(found, acknowledged + 1) << "operation " << operation;
    if (!was_reached) break;
  }
  EXPECT_GT(failed, 20);
}

INSTANTIATE_TEST_SUITE_P(Faults, FaultTest, ::testing::Values(Fault::disk_full, Fault::write_error),
                         [](const auto& fault) {
                           return fault.param == Fault::disk_full ? "DiskFull" : "WriteError";
                         });

TEST(DiskFullTest, IsNamedAndLeavesTheHistoryWhole) {
  const TemporaryFolder folder;
  PowerVfs vfs;
  History history = open_with_run(folder / "history.db", kRun);
  vfs.arm(Fault::disk_full, 1);
  const auto put = history.put_environment(sample_environment("e2"));
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::disk_full) << put.error().message();
  EXPECT_EQ(history.runs({}).value().size(), 1U);
  vfs.arm(Fault::disk_full, 0);
  EXPECT_TRUE(history.put_environment(sample_environment("e2"))) << "space was made";
  EXPECT_EQ(history.check_integrity().value().text(), "ok");
}

// The same with the system's own refusal to let a file grow.
TEST(DiskFullTest, LimitOfTheSystemIsNamed) {
  const TemporaryFolder folder;
  const auto file = folder / "history.db";
  must(open_with_run(file, kRun).put_trial(RunId{kRun}, sample_trial()));
  const int child = start_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{400'000, 400'000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    auto history = History::open(file, Access::read_write).value();
    for (int pair = 1; pair < 1000; ++pair) {
      TrialBlock block = sample_block(pair);
      block.block.losses.assign(3000, 0.125);
      const auto put = history.put_block({RunId{kRun}, 1}, block);
      if (put) continue;
      const bool is_clean =
          put.error().kind == ErrorKind::disk_full &&
          history.blocks({RunId{kRun}, 1}).value().size() + 1 == static_cast<std::size_t>(pair);
      if (!is_clean) throw std::runtime_error(put.error().message());
      return pair > 5 ? 0 : 2;
    }
    return 3;
  });
  EXPECT_EQ(wait_for(child), 0);
  EXPECT_GT(count_rows(file), 5);
}

}  // namespace
}  // namespace autotuned::storage
