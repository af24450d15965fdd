// SPDX-License-Identifier: Apache-2.0
// What a run leaves for other programs, and where.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "tests/daemon/logs/event_reader.hpp"
#include "tests/integration/told.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(Json::parse(line));
  return lines;
}

TEST(Export, WritesCurvesAndTrialsForOthers) {
  const Scene scene;
  const Outcome run = ended(0, scene.run());
  const std::string id = run.json().at("run");
  const auto& folder = scene.folder();
  const Json outcome = result_of(scene.command(
      {"export", "last", "--json", "--tensorboard", (folder / "board").string(), "--csv",
       (folder / "run.csv").string(), "--jsonl", (folder / "run.jsonl").string()}));
  const Json files = outcome.at("files");
  ASSERT_EQ(files.size(), 3U);

  const std::string events = files[0].at("file");
  EXPECT_THAT(events, testing::ContainsRegex("/board/" + id + "/.*tfevents"));
  const std::string name = std::filesystem::relative(events, folder.path()).string();
  std::map<std::string, ReadEvent> last;
  for (const ReadEvent& event : EventReader::read(folder.read(name)))
    last[event.tag] = event;
  EXPECT_EQ(last.at("train/loss").value, 0.5F);
  EXPECT_EQ(last.at("train/loss").step, 10);
  EXPECT_EQ(last.at("test/accuracy").value, 0.75F);
  EXPECT_GT(last.at("trials/ratio").value, 1.4F);
  EXPECT_EQ(last.at("trials/ratio").step, 3) << "the confirmation";

  EXPECT_THAT(folder.read("run.csv"), HasSubstr("\n" + id + ",train/loss,10,"));
  const auto lines = json_lines(folder.read("run.jsonl"));
  EXPECT_EQ(lines.front().at("loss"), 0.5);
  EXPECT_EQ(lines.back().at("id"), id + ".3");
}

TEST(Export, SaysThatNothingIsToBeWritten) {
  const Scene scene;
  Told told(scene, "export");
  told.ends(2, "nothing", scene.command({"export", "last"}));
  told.ends(2, "an empty name", scene.command({"export", "last", "--csv", ""}));
  told.ends(2, "one name for two",
            scene.command({"export", "last", "--csv", "a", "--jsonl", "./a"}));
}

TEST(Export, ReplacesOnlyWhatItMay) {
  const Scene scene;
  const Outcome run = ended(0, scene.run());
  const auto& folder = scene.folder();
  folder.write("precious", "model");
  std::filesystem::create_symlink("precious", folder / "link");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const auto export_to = [&](const char* option, const std::filesystem::path& file,
                             bool overwrite) {
    std::vector<std::string> words = {
        "export", "last", "--tensorboard", (folder / "board").string(), option, file.string()};
    if (overwrite) words.emplace_back("--overwrite");
    return scene.command(words);
  };
  Told told(scene, "export");
  for (const char* option : {"--html", "--csv", "--jsonl"}) {
    told.ends(2, option, export_to(option, folder / "precious", false));
    // What export did not write cannot be exported again.
    for (const char* name : {"link", "pipe", "state/history.db", "precious", "recipe.yaml",
                             "out/model.pt", "out/best.yaml", "out/summary.json"}) {
      const Outcome refused = export_to(option, folder / name, true);
      EXPECT_EQ(refused.code, 2) << option << " " << name << refused.err;
    }
  }
  EXPECT_EQ(folder.read("precious"), "model");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
  EXPECT_FALSE(std::filesystem::exists(folder / "board")) << "refused before anything is written";
  EXPECT_EQ(scene.last_run().at("run"), run.json().at("run"));

  // Each of its own forms, and an empty file, gives way to any other.
  folder.write("mine", "");
  for (const char* option :
       {"--html", "--csv", "--jsonl", "--csv", "--html", "--jsonl", "--html"}) {
    const Outcome replaced = export_to(option, folder / "mine", true);
    EXPECT_EQ(replaced.code, 0) << option << ": " << replaced.err;
  }
  EXPECT_THAT(folder.read("mine"), HasSubstr("<html"));
}

// A run takes what lies among its logs for its own, and SQLite what has the name of a log of the history.
TEST(Export, LeavesLogsAlone) {
  const Scene scene;
  expect_code(0, scene.run());
  const auto& folder = scene.folder();
  const std::string log = folder.read("out/log/training.jsonl");
  ASSERT_NE(log, "");
  folder.write("copy.jsonl", log);
  const std::string history = scene.history().string();
  const auto refused = [&](const char* option, const std::string& file) {
    return ended(2, scene.command({"export", "last", option, file, "--overwrite"})).err;
  };
  for (const char* option : {"--html", "--csv", "--jsonl"}) {
    for (const char* name : {"out/log/training.jsonl", "out/log/new", "copy.jsonl"})
      EXPECT_NE(refused(option, (folder / name).string()), "") << option << " " << name;
  }
  for (const char* option : {"--html", "--csv", "--jsonl", "--tensorboard"}) {
    for (const char* suffix : {"-wal", "-shm", "-journal", "-owners"}) {
      EXPECT_THAT(refused(option, history + suffix), HasSubstr("reserved for a file of")) << option;
      EXPECT_FALSE(std::filesystem::is_directory(history + suffix));
    }
  }
  EXPECT_EQ(folder.read("out/log/training.jsonl"), log);
  EXPECT_EQ(folder.read("copy.jsonl"), log);
  EXPECT_FALSE(std::filesystem::exists(folder / "out/log/new"));
}

TEST(Show, ListsTheFilesOfARun) {
  const Scene scene;
  const Json first = result_of(scene.run());
  const std::string id = first.at("run");
  const std::string text = scene.command({"show", "last"}).out;
  for (const char* name :
       {"out/model.pt", "out/best.yaml", "out/summary.json", "out/log/training.jsonl"})
    EXPECT_THAT(text, HasSubstr((scene.folder() / name).string()));
  for (const char* name : {"checkpoint-", "trainer-1.log"})
    EXPECT_THAT(text, Not(HasSubstr(name))) << "there is none, or it is empty";

  const Json second = result_of(scene.run());
  const std::string later = second.at("run");
  const std::string shown = scene.command({"show", id}).out;
  EXPECT_THAT(shown, Not(HasSubstr("model.pt")));
  Told(scene, "export").lines("an earlier run", shown, later);
}

}  // namespace
}  // namespace autotuned
