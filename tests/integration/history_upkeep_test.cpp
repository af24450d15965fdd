// SPDX-License-Identifier: Apache-2.0
// history backup, history import and history prune, as a user calls them.
#include <gmock/gmock.h>

#include "storage/history.hpp"
#include "tests/integration/told.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

TEST(HistoryUpkeep, BackupIsAHistory) {
  const Scene scene;
  ASSERT_EQ(scene.run().code, 0);
  const std::string copy = (scene.folder() / "copy.db").string();
  const Outcome made = ended(0, scene.command({"history", "backup", copy}));
  EXPECT_THAT(made.out, HasSubstr("integrity ok"));
  EXPECT_EQ(scene.command({"show", "last", "--history", copy, "--json"}).json(), scene.last_run());

  Told told(scene, "history_upkeep");
  told.ends(2, "a file that is there", scene.command({"history", "backup", copy}));
  const Outcome replaced =
      ended(0, scene.command({"history", "backup", copy, "--overwrite", "--json"}));
  EXPECT_EQ(replaced.json().at("replaced"), true);
  EXPECT_EQ(replaced.json().at("integrity"), "ok");
  // The option in front of the subcommand is meant for it.
  told.ends(2, "the history itself",
            scene.command({"history", "--history", copy, "backup", copy, "--overwrite"}));
}

TEST(HistoryUpkeep, OnlyAnEarlierCopyIsReplaced) {
  const Scene scene;
  ASSERT_EQ(scene.run().code, 0);
  const auto back_up_to = [&](const std::string& file) {
    return ended(2, scene.command({"history", "backup", file, "--overwrite"})).err;
  };
  for (const char* suffix : {"-wal", "-shm", "-journal", "-owners"})
    EXPECT_THAT(back_up_to(scene.history().string() + suffix), HasSubstr("name another file"));
  scene.folder().write("model.pt", "precious");
  EXPECT_THAT(back_up_to((scene.folder() / "model.pt").string()), HasSubstr("it is not a history"));
  EXPECT_EQ(scene.folder().read("model.pt"), "precious");

  const std::string copy = (scene.folder() / "copy.db").string();
  expect_code(0, scene.command({"history", "backup", copy}));
  ASSERT_EQ(scene.run({"--retune"}).code, 0);
  expect_code(0, scene.command({"history", "backup", copy, "--overwrite"}));
  expect_code(0, scene.command({"history", "prune", "--keep-last", "0"}));
  EXPECT_THAT(back_up_to(copy), HasSubstr("1 run that this history lacks"));
  EXPECT_EQ(scene.runs().size(), 1);
  // Once after the runs were pruned; then the copy has no more than the history.
  expect_code(2, scene.command({"history", "backup", copy, "--drop-runs"}));
  EXPECT_THAT(
      ended(0, scene.command({"history", "backup", copy, "--overwrite", "--drop-runs"})).out,
      HasSubstr("; 1 run of the earlier copy that the history lacks is lost"));
  const Outcome nightly =
      ended(0, scene.command({"history", "backup", copy, "--overwrite", "--json"}));
  EXPECT_EQ(nightly.json().at("runs_lost"), 0);
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
  const Outcome told = ended(0, import_into_here({}));
  EXPECT_THAT(told.out, HasSubstr(": 1 run with "));
  EXPECT_EQ(scene.command({"show", "last", "--history", here, "--json"}).json(), scene.last_run());
  EXPECT_EQ(scene.command({"best", scene.recipe().string(), "--history", here}).code, 0);

  const Json again = import_into_here({"--json"}).json().at("files").at(0);
  EXPECT_EQ(again.at("runs").size(), 0);
  EXPECT_EQ(again.at("known"), 1);
  // The option in front of the subcommand is meant for it.
  const Outcome itself = scene.command({"history", "--history", here, "import", here});
  Told(scene, "history_upkeep").lines("itself", itself.err, "the history itself");
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
  for (const std::string& words : {std::string("would remove 1 run with "), oldest})
    EXPECT_THAT(told.out, HasSubstr(words));
  EXPECT_EQ(scene.runs().size(), 2);

  const Json removed = prune({"--keep-last", "0", "--vacuum", "--json"}).json();
  EXPECT_EQ(removed.at("runs"), Json({oldest}));
  EXPECT_EQ(removed.at("kept_for_best"), 1);
  ASSERT_EQ(scene.runs().size(), 1);
  EXPECT_EQ(scene.runs()[0].at("run"), newest);
  // The next run verifies the configuration that was kept.
  const Json again = result_of(scene.run());
  EXPECT_EQ(again.at("trials").at(0).at("kind"), "verification");
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
    const Outcome pruned =
        ended(1, scene.command({"history", "prune", "--keep-last", "0", "--vacuum"}));
    EXPECT_THAT(pruned.out, HasSubstr("removed 1 run with "));
    EXPECT_THAT(pruned.err, testing::ContainsRegex("its space was not given back|"
                                                   "cannot compact the history"));
    EXPECT_EQ(scene.runs().size(), 1);
  }
  EXPECT_EQ(scene.command({"show", oldest}).code, 2);
  const Outcome again =
      ended(0, scene.command({"history", "prune", "--keep-last", "0", "--vacuum"}));
  Told(scene, "history_upkeep").lines("nothing is left", again.out, "removed ");
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
  Told told(scene, "history_upkeep");
  for (const char* number : {"0x10", "0b1", "0o7"})
    told.ends(2, number, scene.command({"history", "prune", "--keep-last", number, "--dry-run"}));
}

TEST(HistoryUpkeep, NothingIsMadeWhereThereIsNoHistory) {
  const Scene scene;
  const std::string copy = (scene.folder() / "copy.db").string();
  Told told(scene, "history_upkeep");
  told.ends(1, "prune", scene.command({"history", "prune", "--keep-last", "1"}));
  told.ends(1, "backup", scene.command({"history", "backup", copy}));
  told.ends(2, "import", scene.command({"history", "import", copy}));
  EXPECT_FALSE(std::filesystem::exists(scene.history()));
  EXPECT_FALSE(std::filesystem::exists(copy));
}

}  // namespace
}  // namespace autotuned
