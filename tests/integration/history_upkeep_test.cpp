// SPDX-License-Identifier: Apache-2.0
// history backup, history import and history prune, as a user calls them.
#include <gmock/gmock.h>

#include "storage/history.hpp"
#include "tests/integration/scene.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

TEST(HistoryUpkeep, BackupIsAHistory) {
  const Scene scene;
  ASSERT_EQ(scene.run().code, 0);
  const std::string copy = (scene.folder() / "copy.db").string();
  const Outcome made = scene.command({"history", "backup", copy});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("integrity ok"));
  EXPECT_EQ(scene.command({"show", "last", "--history", copy, "--json"}).json(), scene.last_run());

  const Outcome again = scene.command({"history", "backup", copy});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("exists already"));
  const Outcome replaced = scene.command({"history", "backup", copy, "--overwrite", "--json"});
  EXPECT_EQ(replaced.code, 0);
  EXPECT_EQ(replaced.json().at("replaced"), true);
  EXPECT_EQ(replaced.json().at("integrity"), "ok");
  // The option in front of the subcommand is meant for it.
  EXPECT_EQ(scene.command({"history", "--history", copy, "backup", copy, "--overwrite"}).code, 2);
}

TEST(HistoryUpkeep, ImportTakesRunsOver) {
  const Scene scene;
  ASSERT_EQ(scene.run().code, 0);
  const std::string here = (scene.folder() / "here.db").string();
  const auto import_into_here = [&](std::vector<std::string> options) {
    options.insert(options.begin(),
                   {"history", "import", scene.history().string(), "--history", here});
    return scene.command(options);
  };
  const Outcome told = import_into_here({});
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_THAT(told.out, HasSubstr(": 1 run with "));
  EXPECT_EQ(scene.command({"show", "last", "--history", here, "--json"}).json(), scene.last_run());
  EXPECT_EQ(scene.command({"best", scene.recipe().string(), "--history", here}).code, 0);

  const Json again = import_into_here({"--json"}).json().at("files").at(0);
  EXPECT_EQ(again.at("runs").size(), 0);
  EXPECT_EQ(again.at("known"), 1);
  // The option in front of the subcommand is meant for it.
  EXPECT_THAT(scene.command({"history", "--history", here, "import", here}).err,
              HasSubstr("the history itself"));
}

TEST(HistoryUpkeep, PruneSaysAndKeepsTheBest) {
  const Scene scene;
  ASSERT_EQ(scene.run().code, 0);
  ASSERT_EQ(scene.run({"--retune"}).code, 0);
  ASSERT_EQ(scene.runs().size(), 2);
  const std::string newest = scene.runs()[0].at("run");
  const std::string oldest = scene.runs()[1].at("run");
  const auto prune = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"history", "prune"});
    return scene.command(options);
  };
  EXPECT_EQ(prune({}).code, 2);
  EXPECT_EQ(prune({"--keep-last", "-1"}).code, 2);
  EXPECT_EQ(prune({"--older-than", "1", "--json"}).json().at("runs").size(), 0);

  const Outcome told = prune({"--keep-last", "0", "--dry-run"});
  EXPECT_THAT(told.out, HasSubstr("would remove 1 run with "));
  EXPECT_THAT(told.out, HasSubstr(oldest));
  EXPECT_EQ(scene.runs().size(), 2);

  const Json removed = prune({"--keep-last", "0", "--vacuum", "--json"}).json();
  EXPECT_EQ(removed.at("runs"), Json({oldest}));
  EXPECT_EQ(removed.at("kept_for_best"), 1);
  ASSERT_EQ(scene.runs().size(), 1);
  EXPECT_EQ(scene.runs()[0].at("run"), newest);
  // The next run verifies the configuration that was kept.
  const Outcome again = scene.run();
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.json().at("trials").at(0).at("kind"), "verification");
}

// Its space cannot be given back then. What was removed is gone all the same.
TEST(HistoryUpkeep, PruneSaysWhatItRemovedBesideAReader) {
  const Scene scene;
  ASSERT_EQ(scene.run().code, 0);
  ASSERT_EQ(scene.run({"--retune"}).code, 0);
  const std::string oldest = scene.runs()[1].at("run");
  {
    const auto reader = storage::History::open(scene.history(), storage::Access::read_only).value();
    ASSERT_EQ(reader.runs({}).value().size(), 2U);
    const Outcome pruned = scene.command({"history", "prune", "--keep-last", "0", "--vacuum"});
    EXPECT_EQ(pruned.code, 1);
    EXPECT_THAT(pruned.out, HasSubstr("removed 1 run with "));
    EXPECT_THAT(pruned.err, testing::AnyOf(HasSubstr("its space was not given back"),
                                           HasSubstr("cannot compact the history")));
    EXPECT_EQ(scene.runs().size(), 1);
  }
  EXPECT_EQ(scene.command({"show", oldest}).code, 2);
  const Outcome again = scene.command({"history", "prune", "--keep-last", "0", "--vacuum"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("removed 0 runs with 0 trials\n"));
}

// Also where it begins with a zero, which C and others take for octal.
TEST(HistoryUpkeep, NumbersAreDecimal) {
  const Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  for (const char* number : {"08", "010", "000"}) {
    const Outcome pruned =
        scene.command({"history", "prune", "--keep-last", number, "--dry-run", "--json"});
    EXPECT_EQ(pruned.code, 0) << number << pruned.err;
  }
  for (const char* number : {"0x10", "0b1", "0o7"}) {
    const Outcome refused = scene.command({"history", "prune", "--keep-last", number, "--dry-run"});
    EXPECT_EQ(refused.code, 2) << number;
    EXPECT_THAT(refused.err,
                HasSubstr("--keep-last: expected a whole number, found '" + std::string(number)));
  }
}

TEST(HistoryUpkeep, NothingIsMadeWhereThereIsNoHistory) {
  const Scene scene;
  EXPECT_EQ(scene.command({"history", "prune", "--keep-last", "1"}).code, 1);
  EXPECT_EQ(scene.command({"history", "backup", (scene.folder() / "copy.db").string()}).code, 1);
  const Outcome imported =
      scene.command({"history", "import", (scene.folder() / "copy.db").string()});
  EXPECT_EQ(imported.code, 2);
  EXPECT_THAT(imported.err, HasSubstr("name the history of another machine"));
  EXPECT_FALSE(std::filesystem::exists(scene.history()));
  EXPECT_FALSE(std::filesystem::exists(scene.folder() / "copy.db"));
}

}  // namespace
}  // namespace autotuned
