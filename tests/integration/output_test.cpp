// SPDX-License-Identifier: Apache-2.0
// What lies in the output folder and in the history belongs to the runs that wrote it: no other run touches it, and a
// run that could not go on is left so that the same command continues it.
#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "tests/integration/told.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;
using testing::Not;

// A device of its own for what is started from here on: nothing else waits for it.
void use_another_device(Scene& scene) {
  const auto locks = scene.folder() / "other-device";
  std::filesystem::create_directory(locks);
  chmod(locks.c_str(), 0700);
  scene.set("AUTOTUNED_LOCKS=" + locks.string());
}

std::string recipe_with_seed(const Scene& scene, int seed) {
  return scene.folder()
      .write("seed.yaml",
             scene.folder().read("recipe.yaml") + "seed: " + std::to_string(seed) + "\n")
      .string();
}

Json paused_training() {
  Json behaviour = Scene::fast_job();
  behaviour["faults"] = {{{"do", "pause"}, {"request", "train_step"}, {"step", 4}, {"once", true}}};
  return behaviour;
}

// Nothing can go on from a folder that is not there.
TEST(OutputFolder, IsNotMadeByAnExtensionThatIsRefused) {
  const Scene scene;
  Told(scene, "output").ends(1, "no training before", scene.run({"--extend"}));
  EXPECT_FALSE(std::filesystem::exists(scene.folder() / "out"));
}

// It would break lines of the history's lists, of scripts and of messages.
TEST(OutputFolder, ANameWithALineBreakIsRefused) {
  const Scene scene;
  const std::string folder = (scene.folder() / "one\ntwo").string();
  Told(scene, "output")
      .ends(2, "one, two", scene.command({"run", scene.recipe().string(), "--output", folder}));
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(OutputFolder, TwoRunsAtATimeAreOneTooMany) {
  Scene scene{paused_training()};
  Running first = scene.start_run_until("\ntuned ");
  while (scene.fake().requests("train_step").size() < 5)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  use_another_device(scene);
  const auto requests = scene.fake().requests().size();
  const Outcome second = ended(1, scene.command({"run", recipe_with_seed(scene, 2), "--json"}));
  // It would remove the traces that the run is writing, and number its logs anew.
  const Outcome profile = ended(1, scene.command({"profile", scene.recipe().string()}));
  Told told(scene, "output");
  told.measured_lines("a run", second.err, "another run writes");
  told.measured_lines("a profile", profile.err, "another command writes");
  EXPECT_EQ(scene.fake().requests().size(), requests);
  EXPECT_EQ(scene.runs().size(), 1);
  const Descriptor gate = scene.fake().open_gate();
  EXPECT_EQ(first.finish().code, 0);
}

// A seed on each device, with one history.
TEST(OutputFolder, SeedsOnTwoDevicesAreTwoRuns) {
  Scene scene{paused_training()};
  Running first = scene.start_run_until("\ntuned ");
  use_another_device(scene);
  const Json second = result_of(scene.command({"run", recipe_with_seed(scene, 2), "--json",
                                               "--output", (scene.folder() / "out-2").string()}));
  EXPECT_EQ(second.at("training").at("resumed_from_step"), 0);
  {
    const Descriptor gate = scene.fake().open_gate();
    const Json outcome = result_of(first.finish());
    EXPECT_NE(outcome.at("run"), second.at("run"));
  }
  EXPECT_TRUE(std::filesystem::exists(scene.folder() / "out/model.pt"));
  EXPECT_TRUE(std::filesystem::exists(scene.folder() / "out-2/model.pt"));
  EXPECT_EQ(scene.runs().size(), 2);
}

void expect_output_refused(Told& told, const std::string& given, const Scene& scene) {
  told.ends(1, given, scene.run());
  EXPECT_TRUE(scene.fake().requests().empty());
  told.ends(2, given + ", to check", scene.command({"check", scene.recipe().string()}));
  scene.fake().forget_requests();
}

TEST(OutputFolder, ThatOthersCanWriteIsRefused) {
  const Scene scene;
  Told told(scene, "output");
  std::filesystem::create_directories(scene.folder() / "out/log");
  for (const char* name : {"out", "out/log"}) {
    chmod((scene.folder() / name).c_str(), 0777);
    expect_output_refused(told, name, scene);
    chmod((scene.folder() / name).c_str(), 0755);
  }
  EXPECT_EQ(scene.run().code, 0);
}

TEST(OutputFolder, FolderInThePlaceOfTheModelIsRefused) {
  const Scene scene;
  Told told(scene, "output");
  std::filesystem::create_directories(scene.folder() / "out/model.pt");
  expect_output_refused(told, "a folder", scene);
  EXPECT_EQ(scene.run({"--tune-only"}).code, 0);
}

TEST(OutputFolder, ModelOfAnotherTrainingIsNotReplacedWithoutAWord) {
  const Scene scene;
  const std::string words = "has the model of run ";
  const Outcome first = ended(0, scene.run());
  const Outcome same = ended(0, scene.run());
  const std::string id = same.json().at("run");
  const std::string other = recipe_with_seed(scene, 2);
  // It replaces no model, and its summary does not hide whose that is.
  const Outcome tuned = ended(0, scene.command({"run", other, "--json", "--tune-only"}));
  EXPECT_THAT(first.err + same.err + tuned.err, Not(HasSubstr(words)));
  Told(scene, "output")
      .ends(0, "another training", scene.command({"run", other, "--json"}), words + id);
}

TEST(OutputFolder, ResultsOfATrainingStayWhereARunOnlyTunes) {
  const Scene scene;
  const Json trained = result_of(scene.run());
  const std::string id = trained.at("run");
  const std::string best = scene.folder().read("out/best.yaml");
  const std::string summary = scene.folder().read("out/summary.json");
  const Outcome tuned =
      ended(0, scene.command({"run", scene.recipe().string(), "--tune-only", "--retune"}));
  EXPECT_THAT(tuned.out, HasSubstr("recipe   not written: "));
  EXPECT_THAT(tuned.out, HasSubstr("stay those of run " + id));
  EXPECT_EQ(scene.folder().read("out/best.yaml"), best);
  EXPECT_EQ(scene.folder().read("out/summary.json"), summary);
  // Each run has its own files.
  const std::string model = (scene.folder() / "out/model.pt").string();
  EXPECT_THAT(scene.command({"show", id}).out, HasSubstr(model));
  EXPECT_THAT(scene.command({"show", "last"}).out,
              testing::AllOf(Not(HasSubstr(model)), Not(HasSubstr("of a later run"))));
  // Without the model they describe nothing.
  std::filesystem::remove(model);
  const Json alone = result_of(scene.run({"--tune-only", "--retune"}));
  const Json written = Json::parse(scene.folder().read("out/summary.json"));
  EXPECT_EQ(written.at("run"), alone.at("run"));
}

// Else a recipe that somebody wrote would be lost.
TEST(OutputFolder, RecipeThatLiesThereAsBestYamlIsNotReplaced) {
  const Scene scene;
  const std::string own = scene.folder().read("recipe.yaml") + "# mine\n";
  const std::string best = scene.folder().write("out/best.yaml", own).string();
  Told told(scene, "output");
  told.ends(1, "run", scene.command({"run", best}));
  told.ends(2, "check", scene.command({"check", best}));
  EXPECT_EQ(scene.folder().read("out/best.yaml"), own);
  const std::string elsewhere = (scene.folder() / "elsewhere").string();
  expect_code(0, scene.command({"run", best, "--output", elsewhere}));
  EXPECT_EQ(scene.folder().read("out/best.yaml"), own);
  // One that a run wrote may be run again.
  expect_code(0, scene.command({"run", elsewhere + "/best.yaml", "--output", elsewhere}));
}

TEST(OutputFolder, FilesOfNoRunAreNotReplacedWithoutAWord) {
  const Scene scene;
  const std::string words = " that no run of this history wrote: this one replaces ";
  Told told(scene, "output");
  scene.folder().write("out/model.pt", "mine");
  scene.folder().write("out/summary.json", "{}");
  told.ends(0, "a run that only tunes", scene.run({"--tune-only"}), words);
  EXPECT_EQ(scene.folder().read("out/model.pt"), "mine");
  told.ends(0, "a run that trains", scene.run(), words);
  const Outcome second = ended(0, scene.run());
  EXPECT_THAT(second.err, Not(HasSubstr(words)));
}

TEST(OutputFolder, LinkInThePlaceOfTheLogsIsRefused) {
  const Scene scene;
  std::filesystem::create_directories(scene.folder() / "out");
  std::filesystem::create_directories(scene.folder() / "precious");
  std::filesystem::create_directory_symlink(scene.folder() / "precious",
                                            scene.folder() / "out/log");
  Told told(scene, "output");
  expect_output_refused(told, "a link", scene);
  EXPECT_TRUE(std::filesystem::is_empty(scene.folder() / "precious"));
}

// What a trainer prints never lands in a file of somebody, by whatever link.
TEST(OutputFolder, LinkedLogsAreNotFollowed) {
  const Scene scene{Scene::fast_job({{"do", "print"}, {"kilobytes", 700}, {"request", "profile"}})};
  scene.folder().write("precious", "precious\n");
  std::filesystem::create_directories(scene.folder() / "out/log");
  for (int i = 1; i <= 8; ++i) {
    const auto log = scene.folder() / ("out/log/trainer-" + std::to_string(i) + ".log");
    if (i % 2 == 0) {
      std::filesystem::create_hard_link(scene.folder() / "precious", log);
      // Renaming one name of a file to another one does nothing.
      std::filesystem::create_hard_link(scene.folder() / "precious", log.string() + ".1");
    } else {
      std::filesystem::create_symlink(scene.folder() / "precious", log);
    }
  }
  std::filesystem::create_symlink(scene.folder() / "precious",
                                  scene.folder() / "out/log/training.jsonl");
  expect_code(0, scene.run());
  EXPECT_EQ(scene.folder().read("precious"), "precious\n");
  EXPECT_THAT(scene.folder().read("out/log/training.jsonl"), HasSubstr("\"step\""));
}

TEST(OutputFolder, WhatAKilledWriterLeftIsRemoved) {
  const Scene scene;
  scene.folder().write("out/.autotuned-0123456789abcdef.tmp", "half a model");
  scene.folder().write("out/log/.autotuned-0123456789abcdef.tmp", "half a checkpoint");
  ASSERT_EQ(scene.run().code, 0);
  EXPECT_FALSE(std::filesystem::exists(scene.folder() / "out/.autotuned-0123456789abcdef.tmp"));
  EXPECT_FALSE(std::filesystem::exists(scene.folder() / "out/log/.autotuned-0123456789abcdef.tmp"));
}

// Longer than any command waits.
TEST(LockedHistory, CostsNoSearch) {
  const Scene scene{Scene::fast_job({{"do", "pause"}, {"request", "profile"}, {"once", true}})};
  Running running = scene.start_run_until("ceiling ");
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(scene.history().c_str(), &database), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(database, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  const Descriptor gate = scene.fake().open_gate();
  ASSERT_TRUE(running.wait_for("has locked the history"));
  std::this_thread::sleep_for(std::chrono::seconds(6));
  sqlite3_close(database);
  const Json outcome = result_of(running.finish());
  EXPECT_NEAR(outcome.at("best").at("speedup").get<double>(), 1.56, 0.03);
}

TEST(FullDisk, AfterTheTrainingLeavesTheRunToTheSameCommand) {
  const Scene scene{paused_training()};
  const auto out = scene.folder() / "out";
  std::filesystem::create_directory(out);
  if (mount("autotuned-test", out.c_str(), "tmpfs", 0, "size=512k,mode=755") != 0) {
    GTEST_SKIP() << "mounting a file system is not permitted here";
  }
  Running running = scene.start_run_until("\ntuned ");
  {
    std::ofstream filler(out / "filler");
    filler << std::string(1 << 20, 'x');
  }
  Outcome outcome;
  {
    const Descriptor gate = scene.fake().open_gate();
    outcome = running.finish();
  }
  EXPECT_EQ(outcome.code, 1);
  const std::string run = scene.last_run().at("run");
  EXPECT_THAT(outcome.err, HasSubstr("the same command continues run " + run));
  EXPECT_EQ(scene.last_run().at("state"), "training");
  EXPECT_THAT(scene.last_run().at("error").get<std::string>(), HasSubstr("No space left"));
  std::filesystem::remove(out / "filler");
  const Json again = result_of(scene.run());
  EXPECT_EQ(again.at("run"), run);
  EXPECT_EQ(again.at("error"), "");
  umount2(out.c_str(), MNT_DETACH);
}

// Once the training is over, whatever keeps its results from being written costs no training.
TEST(Results, ThatCannotAllBeWrittenLeaveTheRunToTheSameCommand) {
  const Scene scene;
  const auto summary = scene.folder() / "out/summary.json";
  std::filesystem::create_directories(summary);
  const Outcome outcome = ended(1, scene.run());
  const std::string run = scene.last_run().at("run");
  Told(scene, "output").lines("a folder", outcome.err, summary.string());
  EXPECT_THAT(outcome.err, HasSubstr("the same command continues run " + run));
  EXPECT_EQ(scene.last_run().at("state"), "training");
  std::filesystem::remove(summary);
  const Json again = result_of(scene.run());
  EXPECT_EQ(again.at("run"), run);
  EXPECT_EQ(again.at("training").at("resumed_from_step"), 10);
  EXPECT_TRUE(std::filesystem::is_regular_file(summary));
}

}  // namespace
}  // namespace autotuned
