// SPDX-License-Identifier: Apache-2.0
// What a run reads: nothing of it is replaced by what the run writes, and no other data take its place without a word.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "tests/integration/scene.hpp"

namespace autotuned {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The recipe of the scene with another line; its name.
std::string recipe_with_line(const Scene& scene, const std::string& begin,
                             const std::string& line) {
  std::string text = scene.folder().read("recipe.yaml");
  const std::size_t at = text.find("\n" + begin) + 1;
  text.replace(at, text.find('\n', at) - at, line);
  return scene.folder().write("recipe.yaml", text).string();
}

std::string text_of_folder(const Scene& scene, const std::string& name) {
  return (scene.folder() / name).string();
}

void expect_inputs_refused(const Scene& scene, const std::string& place, const std::string& what) {
  const Outcome run = scene.run();
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr(what));
  EXPECT_TRUE(scene.fake().requests().empty());
  const Outcome checked = scene.command({"check", scene.recipe().string()});
  EXPECT_EQ(checked.code, 2);
  EXPECT_THAT(checked.err, AllOf(HasSubstr("recipe.yaml:" + place), HasSubstr(what)));
  scene.fake().forget_requests();
}

// The initial weights would be lost with the first model, and every later process would begin with other ones.
TEST(InputFiles, WeightsThatTheRunWouldReplaceAreRefused) {
  const Scene scene;
  recipe_with_line(scene,
                   "model:", "model: {type: mlp, hidden: 16, classes: 4, weights: out/model.pt}");
  scene.folder().write("out/model.pt", "mine");
  expect_inputs_refused(scene, "4:",
                        "model.weights: the run itself writes " +
                            text_of_folder(scene, "out/model.pt") + " into its output folder");
  EXPECT_EQ(scene.folder().read("out/model.pt"), "mine");
  EXPECT_FALSE(std::filesystem::exists(scene.folder() / "out/log"));
  // By another name, too.
  std::filesystem::create_directory_symlink(scene.folder() / "out", scene.folder() / "link");
  recipe_with_line(scene,
                   "model:", "model: {type: mlp, hidden: 16, classes: 4, weights: link/model.pt}");
  expect_inputs_refused(scene, "4:", "model.weights: the run itself writes ");
  const Outcome elsewhere = scene.run({"--output", text_of_folder(scene, "elsewhere")});
  EXPECT_EQ(elsewhere.code, 0) << elsewhere.err;
  // Nothing is trained.
  const Outcome tuned = scene.run({"--tune-only"});
  EXPECT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_EQ(scene.folder().read("out/model.pt"), "mine");
}

TEST(InputFiles, APatternThatMatchesWhatTheRunWritesIsRefused) {
  const Scene scene;
  scene.folder().write("photos/a.jpg", "");
  recipe_with_line(scene, "data:", "data: {type: image_files, files: '*/*'}");
  // Before the first run already.
  expect_inputs_refused(scene, "5:",
                        "data.files: the pattern " + text_of_folder(scene, "*/*") +
                            " matches what the run itself writes, such as " +
                            text_of_folder(scene, "out/best.yaml"));
  EXPECT_FALSE(std::filesystem::exists(scene.folder() / "out"));
  recipe_with_line(scene, "data:", "data: {type: image_files, files: '*/*.jpg'}");
  const Outcome run = scene.run();
  EXPECT_EQ(run.code, 0) << run.err;
}

// The recipe says the same, and another size of a file makes it another job.
TEST(InputFiles, ThatChangeWhileATrainingIsInterruptedAreTold) {
  Json behaviour = Scene::fast_job();
  behaviour["faults"] = {
      {{"do", "interrupt"}, {"request", "train_step"}, {"step", 4}, {"once", true}}};
  const Scene scene{behaviour};
  recipe_with_line(scene, "data:", "data: {type: idx, images: images, labels: labels}");
  scene.folder().write("labels", "12");
  scene.folder().write("images", "1234");
  const Outcome first = scene.run();
  ASSERT_EQ(first.code, 130) << first.err;
  const std::string words = "other names or sizes than in run ";
  EXPECT_THAT(first.err, Not(HasSubstr(words)));
  const std::string id = scene.last_run().at("run");

  scene.folder().write("images", "12345");
  const Outcome second = scene.run();
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.err, AllOf(HasSubstr(words + id), HasSubstr("begins at step 0")));
  EXPECT_EQ(second.json().at("training").at("resumed_from_step"), 0);
  const std::string other = second.json().at("run");
  EXPECT_NE(other, id);

  // With the files of before it goes on, and says whose model it replaces.
  scene.folder().write("images", "1234");
  const Outcome third = scene.run();
  ASSERT_EQ(third.code, 0) << third.err;
  EXPECT_EQ(third.json().at("run"), id);
  EXPECT_EQ(third.json().at("training").at("resumed_from_step"), 5);
  EXPECT_THAT(third.err, HasSubstr("has the model of run " + other +
                                   ", another training (of the same recipe, with files of other "
                                   "names or sizes): this one replaces it"));

  scene.folder().write("images", "123456");
  const Outcome fourth = scene.run();
  ASSERT_EQ(fourth.code, 0) << fourth.err;
  EXPECT_THAT(fourth.err, AllOf(HasSubstr(words + other), HasSubstr("without what was measured"),
                                HasSubstr("has the model of run " + id)));
  const Outcome fifth = scene.run();
  ASSERT_EQ(fifth.code, 0) << fifth.err;
  EXPECT_THAT(fifth.err, Not(HasSubstr(words)));
}

}  // namespace
}  // namespace autotuned
