// SPDX-License-Identifier: Apache-2.0
// What is remembered, and the commands that tell it.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "storage/history.hpp"
#include "tests/integration/told.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

// One run for all tests that only read.
class Commands : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    scene_ = new Scene;
    run_ = new Json(result_of(scene_->run()));
  }
  static void TearDownTestSuite() {
    delete scene_;
    delete run_;
  }
  [[nodiscard]] static std::string id() { return run_->at("run"); }

  static Scene* scene_;
  static Json* run_;
};
Scene* Commands::scene_ = nullptr;
Json* Commands::run_ = nullptr;

TEST_F(Commands, HistoryListsRuns) {
  const Json runs = scene_->runs();
  ASSERT_EQ(runs.size(), 1);
  EXPECT_EQ(runs[0].at("run"), id());
  EXPECT_EQ(runs[0].at("recipe"), "small");
  EXPECT_EQ(runs[0].at("state"), "finished");
  EXPECT_EQ(runs[0].at("best").at("speedup"), run_->at("best").at("speedup"));
  EXPECT_EQ(runs[0].at("training").at("steps"), 10);
  EXPECT_THAT(scene_->command({"history"}).out, HasSubstr(id()));
}

TEST_F(Commands, HistoryFilters) {
  const std::string machine = scene_->runs()[0].at("machine");
  const std::vector<std::pair<std::vector<std::string>, std::size_t>> filters = {
      {{"--recipe", "small"}, 1},
      {{"--recipe", "large"}, 0},
      {{"--machine", machine}, 1},
      {{"--machine", "0123456789abcdef"}, 0},
      {{"--plugin", "set_to_none"}, 1},
      {{"--plugin", "amp"}, 0},
      {{"--verdict", "accepted"}, 1},
      {{"--verdict", "failed"}, 0},
      {{"--since", "2020-01-01"}, 1},
      {{"--since", "2199-01-01"}, 0},
      {{"--plugin", "set_to_none", "--verdict", "rejected"}, 0},
      {{"--limit", "0"}, 0}};
  for (const auto& [filter, expected] : filters) {
    std::vector<std::string> arguments = {"history", "--json"};
    arguments.insert(arguments.end(), filter.begin(), filter.end());
    const Json outcome = result_of(scene_->command(arguments));
    EXPECT_EQ(outcome.size(), expected) << filter.at(1);
  }
  for (const char* day : {"yesterday", "2026-02-31"})
    EXPECT_EQ(scene_->command({"history", "--since", day}).code, 2);
  EXPECT_EQ(scene_->command({"history", "--verdict", "fine"}).code, 2);
}

TEST_F(Commands, HistorySaysWhatItLeavesOut) {
  Told told(*scene_, "commands");
  told.prints(0, "another recipe", scene_->command({"history", "--recipe", "large"}));
  told.prints(0, "none of them", scene_->command({"history", "--limit", "0"}));
  EXPECT_THAT(scene_->command({"history", "--limit", "1"}).out,
              testing::Not(HasSubstr("there are older ones")));
  told.ends(1, "nowhere", scene_->command({"history", "--history", "/nonexistent/history.db"}));
}

TEST_F(Commands, ShowTellsWhatRunSaid) {
  EXPECT_EQ(scene_->last_run(), *run_);
  EXPECT_EQ(scene_->command({"show", id(), "--json"}).json(), *run_);
  EXPECT_EQ(scene_->command({"show", id().substr(0, 12), "--json"}).json(), *run_);
  const std::string text = scene_->command({"show", id()}).out;
  for (const char* part : {"set_to_none", "confirmation"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_EQ(scene_->command({"show", "r-20010101-000000"}).code, 2);
}

TEST_F(Commands, ShowTellsATrialWithItsBlocksAndChecks) {
  const Json trial = scene_->command({"show", id() + ".1", "--json"}).json();
  EXPECT_EQ(trial.at("id"), id() + ".1");
  EXPECT_EQ(trial.at("blocks").size(), 2 * trial.at("pairs").get<std::size_t>());
  ASSERT_EQ(trial.at("checks").size(), 1);
  EXPECT_EQ(trial.at("checks")[0].at("risk"), "exact");
  EXPECT_EQ(trial.at("checks")[0].at("passed"), true);
  // What the report says follows from the blocks.
  int candidates = 0;
  for (const Json& block : trial.at("blocks")) {
    if (block.at("is_candidate")) ++candidates;
    EXPECT_GT(block.at("block").at("duration_ns"), 0);
  }
  EXPECT_EQ(candidates, trial.at("pairs"));
  const std::string text = scene_->command({"show", "last.1"}).out;
  Told told(*scene_, "commands");
  told.lines("the change", text, "optimizer.set_to_none");
  told.lines("the check", text, "check     ");
  told.ends(2, "no such trial", scene_->command({"show", id() + ".99"}));
  told.ends(2, "no number", scene_->command({"show", id() + ".x"}));
}

TEST_F(Commands, BestIsARecipe) {
  const Outcome best = ended(0, scene_->command({"best", scene_->recipe().string()}));
  const auto file = scene_->folder().write("best.yaml", best.out);
  EXPECT_EQ(scene_->command({"check", file.string()}).code, 0);
  const Json checked = scene_->command({"check", file.string(), "--json"}).json();
  EXPECT_EQ(checked.at("recipe").at("start").at("memory.malloc"), "keep");
  expect_code(0, scene_->command({"check", (scene_->folder() / "out/best.yaml").string()}));

  const Json known = scene_->command({"best", scene_->recipe().string(), "--json"}).json();
  EXPECT_EQ(known.at("run"), id());
  EXPECT_EQ(known.at("configuration"), run_->at("best").at("configuration"));
  EXPECT_EQ(known.at("speedup_low"), run_->at("best").at("speedup_low"));
}

// The output folder of a model that was trained before.
std::string trained_folder(const Scene& scene) {
  const auto& folder = scene.folder();
  folder.write("seen/best.yaml",
               "autotuned: 1\n"
               "name: small\n"
               "device: cpu\n"
               "model: {type: unet, classes: 2}\n"
               "data: {type: synthetic_masks, samples: 8, shape: [3, 16, 16], classes: 2}\n"
               "loss: {type: dice_ce}\n"
               "optimizer: {type: sgd, lr: 0.1}\n"
               "train: {epochs: 1, batch_size: 8}\n"
               "output: {dir: seen}\n");
  folder.write("seen/model.pt", "weights");
  folder.write("seen/summary.json", "{}");
  return (folder / "seen").string();
}

TEST(Predict, ReplacesNoMaskAndSaysWhatToDo) {
  const Scene scene;
  const auto& folder = scene.folder();
  const std::string model = trained_folder(scene);
  const std::string picture = folder.write("a.png", "picture").string();
  folder.write("masks/a.png", "mine");
  const Outcome refused =
      scene.command({"predict", model, picture, "--masks", (folder / "masks").string()});
  Told(scene, "commands").ends(2, "a mask that is there", refused);
  EXPECT_EQ(folder.read("masks/a.png"), "mine");
  EXPECT_FALSE(std::filesystem::exists(folder / "masks/.autotuned-predicted"))
      << "a folder of the user's may hold data";
}

// So that nobody takes the masks for data.
TEST(Predict, MarksAFolderThatItMakesForMasks) {
  const Scene scene;
  const auto& folder = scene.folder();
  const std::string model = trained_folder(scene);
  const std::string picture = folder.write("a.png", "picture").string();
  expect_code(
      0, scene.command({"predict", model, picture, "--masks", (folder / "predicted").string()}));
  EXPECT_TRUE(std::filesystem::exists(folder / "predicted/.autotuned-predicted"));
}

TEST(Predict, SaysWhatIsNoFile) {
  const Scene scene;
  const std::string model = trained_folder(scene);
  const std::string missing = (scene.folder() / "none.png").string();
  const std::string pipe = (scene.folder() / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {pipe, "is a pipe, and picture files are expected"},
      {"/dev/zero", "is a device, and picture files are expected"},
      {model, "is a folder, and picture files are expected"},
      {missing, "there is no such file"}};
  for (const auto& [picture, said] : cases) {
    const Outcome refused = scene.command({"predict", model, picture});
    EXPECT_EQ(refused.code, 2) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(said));
  }
  const Outcome weights = scene.command({"predict", model, missing, "--weights", pipe});
  EXPECT_EQ(weights.code, 2);
  EXPECT_THAT(weights.err, HasSubstr("is a pipe, and a file of weights is expected"));
}

TEST(Forget, LetsTheNextRunSearchAnew) {
  const Scene scene;
  const std::string recipe = scene.recipe().string();
  expect_code(1, scene.command({"best", recipe}));
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  EXPECT_EQ(scene.command({"forget", recipe, "--json"}).json().at("forgotten"), true);
  EXPECT_EQ(scene.command({"forget", recipe, "--json"}).json().at("forgotten"), false);
  EXPECT_EQ(scene.command({"best", recipe}).code, 1);
  EXPECT_EQ(scene.run({"--tune-only"}).json().at("trials").size(), 3);
}

TEST(Forget, MakesNoHistory) {
  const Scene scene;
  const std::string recipe = scene.recipe().string();
  const std::string elsewhere = (scene.folder() / "elsewhere.db").string();
  Told told(scene, "commands");
  told.prints(0, "the default", scene.command({"forget", recipe}));
  told.ends(1, "a name", scene.command({"forget", recipe, "--history", elsewhere}));
  EXPECT_FALSE(std::filesystem::exists(scene.history()));
  EXPECT_FALSE(std::filesystem::exists(elsewhere));
}

// As many as one list shows, all newer.
TEST(Best, IsFoundBehindTheRunsOfOtherMachines) {
  const Scene scene;
  const std::string recipe = scene.recipe().string();
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  {
    auto history = storage::History::open(scene.history(), storage::Access::read_write);
    ASSERT_TRUE(history) << history.error().message();
    auto row = history->run("last");
    ASSERT_TRUE(row) << row.error().message();
    row->environment_key = "elsewhere";
    ASSERT_TRUE(history->put_environment({row->environment_key, Json::object(), "2.11", ""}));
    const std::string id = row->id.text;
    for (std::int64_t i = 0; i < storage::RunFilter{}.limit; ++i) {
      row->id.text = id + "-" + std::to_string(i);
      ++row->started_unix_ns;
      ASSERT_TRUE(history->put_run(*row));
    }
  }
  EXPECT_EQ(scene.command({"best", recipe}).code, 0);
  EXPECT_EQ(scene.command({"forget", recipe, "--json"}).json().at("forgotten"), true);
}

TEST(CommandsAlone, OptionsThatContradictEachOtherAreUsageErrors) {
  const Scene scene;
  const std::string recipe = scene.recipe().string();
  Told told(scene, "commands");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"run", recipe, "--detach", "--no-daemon"},
        {"run", recipe, "--detach", "--require-gain"},
        {"history", "prune", "--keep-last", "1", "--dry-run", "--vacuum"}})
    told.ends(2, testing::PrintToString(command), scene.command(command));
  EXPECT_TRUE(scene.fake().requests().empty());
}

TEST(CommandsAlone, WorkWithoutAHistory) {
  const Scene scene;
  EXPECT_EQ(scene.command({"history", "--json"}).json(), Json::array());
  EXPECT_EQ(scene.command({"history"}).code, 0);
  EXPECT_EQ(scene.command({"show", "last"}).code, 1);
  // Nor is one that is empty still, or not there where it was looked for, a mistake of whoever typed the command.
  const std::string empty = scene.folder().write("empty.db", "").string();
  const std::string nowhere = (scene.folder() / "nowhere.db").string();
  Told told(scene, "commands");
  for (const std::string& file : {empty, nowhere}) {
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"history"},
          {"history", "prune", "--keep-last", "1"},
          {"history", "backup", (scene.folder() / "copy.db").string()},
          {"show", "last"},
          {"explain", "last"},
          {"compare", "last", "last"},
          {"best", scene.recipe().string()}}) {
      std::vector<std::string> arguments = command;
      arguments.insert(arguments.begin() + 1, {"--history", file});
      told.ends(1, testing::PrintToString(command) + " " + file, scene.command(arguments));
    }
  }
  EXPECT_EQ(scene.command({"doctor", "--json"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(scene.history()));
  for (const char* command : {"schema", "knobs", "plugins"}) {
    EXPECT_TRUE(parse_json(scene.command({command, "--json"}).out, command)) << command;
    EXPECT_NE(scene.command({command}).out, "");
  }
}

TEST(CommandsAlone, SessionProcessIsNotForPeople) {
  const Scene scene;
  EXPECT_EQ(scene.command({"session-process"}).code, 2);
}

}  // namespace
}  // namespace autotuned
