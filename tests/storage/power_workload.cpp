// SPDX-License-Identifier: Apache-2.0
#include "tests/storage/power_workload.hpp"

#include <SQLiteCpp/SQLiteCpp.h>

#include <string>

#include "storage/history.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/storage/power_vfs.hpp"
#include "tests/storage/sample.hpp"

namespace autotuned::storage {

namespace {
const std::string kRun = "r-1";
}  // namespace

int store_facts(const std::filesystem::path& file, int most) {
  int stored = 0;
  auto history = History::open(file, Access::read_write);
  const auto put = [&](const Result<void>& outcome) {
    if (outcome) ++stored;
    return outcome.has_value();
  };
  if (!history || !put(history->put_environment(sample_environment())) ||
      !put(history->put_recipe(sample_recipe())) || !put(history->put_run(sample_run(kRun))) ||
      !put(history->put_trial(RunId{kRun}, sample_trial()))) {
    return stored;
  }
  const Json large(std::string(4'500'000, 'x'));
  while (stored < most) {
    // Some facts are larger than a page; one is so large that the log is moved into the database; and
    // now and then the history is closed, which moves it too and deletes it.
    TrialBlock block = sample_block(stored);
    block.block.losses.assign(stored % 3 == 0 ? 3000U : 3U, 0.125);
    const bool is_large = stored == kLargeFact;
    if (!put(is_large ? history->put_profile(RunId{kRun}, {}, large, {}, {}, 1)
                      : history->put_block({RunId{kRun}, 1}, block))) {
      return stored;
    }
    if (stored % 11 == 0) {
      history = fail(ErrorKind::cancelled, "closed");
      history = History::open(file, Access::read_write);
      if (!history) return stored;
    }
  }
  return stored;
}

int count_facts(const std::filesystem::path& file) {
  const PowerVfs no_faults;  // and no waiting for a real disk
  const auto history = History::open(file, Access::read_write);
  if (!history || history->check_integrity().value_or("") != "ok") return -1;
  const auto count = [&](const char* table) {
    return SQLite::Database(file.string())
        .execAndGet(std::string("SELECT count(*) FROM ") + table)
        .getInt();
  };
  return count("environments") + count("recipes") + count("runs") + count("trials") +
         count("blocks") + count("profiles");
}

std::uint64_t operations_of(int most) {
  const PowerVfs vfs;
  const TemporaryFolder folder;
  static_cast<void>(store_facts(folder / "history.db", most));
  return vfs.operations();
}

Cut cut_power_at(int most, std::uint64_t operation, std::uint64_t seed) {
  const TemporaryFolder before;
  const TemporaryFolder after;
  Cut cut;
  {
    PowerVfs vfs;
    vfs.arm(Fault::power_loss, operation);
    cut.acknowledged = store_facts(before / "history.db", most);
    vfs.write_disk(after.path(), seed);
  }
  cut.found = count_facts(after / "history.db");
  return cut;
}

}  // namespace autotuned::storage
