// SPDX-License-Identifier: Apache-2.0
#include "daemon/guide/next_step.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>

#include "tests/daemon/guide/data_samples.hpp"
#include "tests/daemon/small_run.hpp"

namespace autotuned::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> commands_in(const TemporaryFolder& folder,
                                     const std::optional<storage::RunRow>& last = {}) {
  std::vector<std::string> commands;
  for (const NextStep& step : next_steps(examine_folder(folder.path()), last))
    commands.push_back(step.command);
  return commands;
}

storage::RunRow finished_run() {
  storage::RunRow run;
  run.id = {"r-20261121-7f3a9c"};
  run.recipe_name = "small";
  run.state = storage::RunState::finished;
  return run;
}

// A run that begins then has seen what a test writes now.
std::int64_t in_a_minute_unix_ns() {
  const auto then = std::chrono::system_clock::now() + std::chrono::minutes(1);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(then.time_since_epoch()).count();
}

TEST(NextSteps, InAnEmptyFolderABeginnerWritesARecipe) {
  const TemporaryFolder folder;
  EXPECT_THAT(commands_in(folder), ElementsAre("autotuned init DIR", "autotuned init"));
}

TEST(NextSteps, FollowWhatLiesThere) {
  const TemporaryFolder folder;
  tests::write_data(folder, "", "classes");
  EXPECT_THAT(commands_in(folder), ElementsAre("autotuned init"));
  folder.write("train.py", "import torch\nloss.backward()\n");
  folder.write("model.py", "import torch\n# loss.backward() is in train.py\n");
  folder.write("trees.py", "import sklearn\ntree.fit(x, y)\n");
  folder.write("plot.py", "import csv\n");
  EXPECT_THAT(commands_in(folder), ElementsAre("autotuned run train.py", "autotuned init"));
  folder.write("my job.yaml", "# mine\nautotuned: 1\n");
  folder.write("compose.yaml", "services: {}\n");
  EXPECT_THAT(commands_in(folder),
              ElementsAre("autotuned check 'my job.yaml'", "autotuned run 'my job.yaml'",
                          "autotuned run train.py"));
  folder.write("recipe.yaml", "autotuned: 1\n");
  EXPECT_EQ(commands_in(folder).front(), "autotuned check recipe.yaml");
  EXPECT_EQ(folder_state_text(examine_folder(folder.path())),
            "my job.yaml, recipe.yaml; train.py; 60 pictures in 3 classes");
}

// Where nothing but its answers lies, and where someone stands in that folder.
TEST(NextSteps, TakeNoMasksOfPredictForData) {
  const TemporaryFolder folder;
  folder.write("predicted/a.png", tests::small_mask());
  EXPECT_EQ(folder_state_text(examine_folder(folder.path())), "1 picture without classes");
  folder.write("predicted/.autotuned-predicted", "");
  for (const auto& here : {folder.path(), folder / "predicted"}) {
    EXPECT_EQ(folder_state_text(examine_folder(here)), "nothing to train on");
    EXPECT_EQ(next_steps(examine_folder(here), {}).front().command, "autotuned init DIR");
  }
}

TEST(NextSteps, KnowAScriptWithATrainerOfHuggingFace) {
  const TemporaryFolder folder;
  folder.write("base.py", "import torch\nclass MyTrainer(Base):\n  pass\nmodel.train()\n");
  folder.write("embed.py", "from transformers import pipeline\ntree.fit(x, y)\n");
  folder.write("tune.py",
               "from transformers import Trainer\ntrainer = Trainer(model=m)\ntrainer.train()\n");
  EXPECT_EQ(commands_in(folder).front(), "autotuned run tune.py");
}

TEST(NextSteps, RecommendNoRecipeWithMistakes) {
  const TemporaryFolder folder;
  folder.write("a.yaml", "autotuned: 1\n");
  folder.write("b.yaml", "autotuned: 1\n");
  const auto around = [&folder](const std::string& sound) {
    return examine_folder(folder.path(), [&sound](const std::filesystem::path& recipe) {
      return recipe.filename() == sound;
    });
  };
  EXPECT_EQ(next_steps(around("b.yaml"), {}).back().command, "autotuned run b.yaml");
  EXPECT_EQ(folder_state_text(around("b.yaml")), "b.yaml; a.yaml (with mistakes)");
  const auto steps = next_steps(around(""), {});
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps.front().command, "autotuned check a.yaml");
  EXPECT_THAT(steps.front().why, HasSubstr("mistakes"));
}

TEST(NextSteps, FollowTheHistory) {
  const TemporaryFolder folder;
  folder.write("recipe.yaml", "autotuned: 1\n");
  EXPECT_THAT(commands_in(folder, finished_run()),
              ElementsAre("autotuned run recipe.yaml", "autotuned explain last", "autotuned best"));
  storage::RunRow stopped = finished_run();
  stopped.state = storage::RunState::cancelled;
  EXPECT_THAT(commands_in(folder, stopped),
              ElementsAre("autotuned show last", "autotuned run recipe.yaml"));
  stopped.state = storage::RunState::training;
  stopped.is_interrupted = true;
  EXPECT_EQ(commands_in(folder, stopped).front(), "autotuned show last");
  stopped.recipe = {{"file", (folder / "recipe.yaml").string()}};
  EXPECT_THAT(commands_in(folder, stopped),
              ElementsAre("autotuned run recipe.yaml", "autotuned show last"));
  EXPECT_THAT(next_steps(examine_folder(folder.path()), stopped).front().why,
              HasSubstr("goes on with run r-20261121-7f3a9c of small, which was stopped"));
  stopped.recipe = {{"file", "/elsewhere/my job.yaml"}};
  stopped.is_tune_only = true;
  EXPECT_THAT(commands_in(folder, stopped),
              ElementsAre("autotuned run '/elsewhere/my job.yaml' --tune-only",
                          "autotuned show last", "autotuned run recipe.yaml"));
  stopped.recipe = {{"kind", "script"}, {"name", "train.py"}};
  EXPECT_THAT(commands_in(folder, stopped),
              ElementsAre("autotuned run recipe.yaml", "autotuned explain last", "autotuned best"))
      << "no command goes on with a script";
}

TEST(NextSteps, GoOnWithARunBeforeTheLastAndRepeatNoneThatHasFinished) {
  const TemporaryFolder folder;
  folder.write("recipe.yaml", "autotuned: 1\n");
  storage::RunRow last = finished_run();
  last.recipe = {{"file", (folder / "recipe.yaml").string()}};
  last.started_unix_ns = in_a_minute_unix_ns();
  EXPECT_THAT(commands_in(folder, last), ElementsAre("autotuned explain last", "autotuned best"));
  storage::RunRow elsewhere = finished_run();
  elsewhere.id = {"r-20261120-000001"};
  elsewhere.state = storage::RunState::cancelled;
  elsewhere.recipe = {{"file", "/elsewhere/recipe.yaml"}};
  storage::RunRow stopped = elsewhere;
  stopped.id = {"r-20261120-000002"};
  stopped.recipe = {{"file", (folder / "out/best.yaml").string()}};
  std::vector<std::string> commands;
  for (const NextStep& step :
       next_steps(examine_folder(folder.path()), last, {elsewhere, stopped})) {
    commands.push_back(step.command);
  }
  EXPECT_THAT(commands, ElementsAre("autotuned run " + (folder / "out/best.yaml").string(),
                                    "autotuned show r-20261120-000002", "autotuned explain last",
                                    "autotuned best"));
}

// Edited while it trained, or afterwards.
TEST(NextSteps, OfferTheRecipeOfTheLastRunOnceItWasChanged) {
  const TemporaryFolder folder;
  folder.write("other.yaml", "autotuned: 1\n");
  folder.write("small.yaml", "autotuned: 1\n");
  storage::RunRow last = finished_run();
  last.recipe = {{"file", (folder / "small.yaml").string()}};
  last.started_unix_ns = in_a_minute_unix_ns();
  EXPECT_EQ(commands_in(folder, last).front(), "autotuned run other.yaml");
  last.started_unix_ns -= 120'000'000'000;
  const NextStep step = next_steps(examine_folder(folder.path()), last).front();
  EXPECT_EQ(step.command, "autotuned run small.yaml");
  EXPECT_EQ(step.why, "small.yaml was changed since run r-20261121-7f3a9c began");
  last.recipe = {{"file", "/elsewhere/small.yaml"}};
  EXPECT_EQ(commands_in(folder, last).front(), "autotuned run other.yaml");
}

TEST(NextSteps, AreLinesThatLineUp) {
  EXPECT_EQ(next_steps_text({{"autotuned init", "writes"}, {"autotuned run a", "runs"}}),
            "next     autotuned init    writes\n"
            "         autotuned run a   runs\n");
}

TEST(KnownRuns, AreCountedAndTheLastIsNamed) {
  const TemporaryFolder folder;
  const auto file = folder / "history.db";
  EXPECT_EQ(known_runs(file).text, "no runs yet");
  {
    auto history = storage::History::open(file, storage::Access::read_write);
    ASSERT_TRUE(history);
    (void)put_small_run(*history);
  }
  const KnownRuns known = known_runs(file);
  EXPECT_THAT(known.text, HasSubstr("1 run, the last r-20261121-7f3a9c of small: tuning"));
  ASSERT_TRUE(known.last);
  const auto damaged = folder.write("none.db", "this is a diary and not a database at all");
  EXPECT_THAT(known_runs(damaged).text, HasSubstr("cannot be read: "));
  EXPECT_FALSE(known_runs(damaged).last);
}

// A training that was finished in its output folder by another command is over.
TEST(KnownRuns, StoppedAreThoseThatNoNewerRunHasFinished) {
  const TemporaryFolder folder;
  const auto file = folder / "history.db";
  auto history = storage::History::open(file, storage::Access::read_write);
  ASSERT_TRUE(history);
  storage::RunRow run = put_small_run(*history);
  const auto put = [&](const std::string& id, storage::RunState state, const std::string& output) {
    run.id = {id};
    run.state = state;
    run.output_dir = output;
    run.started_unix_ns += 1'000'000'000;
    EXPECT_TRUE(history->put_run(run));
  };
  put("r-20261122-000001", storage::RunState::cancelled, "/srv/a");
  put("r-20261122-000002", storage::RunState::cancelled, "/srv/b");
  put("r-20261122-000003", storage::RunState::finished, "/srv/a");
  std::vector<std::string> stopped;
  for (const storage::RunRow& one : known_runs(file).stopped)
    stopped.push_back(one.id.text);
  EXPECT_THAT(stopped, testing::Contains("r-20261122-000002"));
  EXPECT_THAT(stopped, testing::Not(testing::Contains("r-20261122-000001")));
}

TEST(FolderState, OfAFolderThatIsGoneAreEmpty) {
  const FolderState here = examine_folder("/nowhere");
  EXPECT_THAT(here.recipes, IsEmpty());
  EXPECT_EQ(folder_state_text(here), "nothing to train on");
}

}  // namespace
}  // namespace autotuned::daemon
