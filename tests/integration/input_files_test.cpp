// SPDX-License-Identifier: Apache-2.0
// What a run reads: nothing of it is replaced by what the run writes, and no other data take its place without a word.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "tests/integration/told.hpp"

namespace autotuned {
namespace {

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

void expect_inputs_refused(Told& told, const std::string& given, const Scene& scene) {
  told.ends(1, given, scene.run());
  EXPECT_TRUE(scene.fake().requests().empty());
  told.ends(2, given + ", to check", scene.command({"check", scene.recipe().string()}));
  scene.fake().forget_requests();
}

// The initial weights would be lost with the first model, and every later process would begin with other ones.
TEST(InputFiles, WeightsThatTheRunWouldReplaceAreRefused) {
  const Scene scene;
  recipe_with_line(scene,
                   "model:", "model: {type: mlp, hidden: 16, classes: 4, weights: out/model.pt}");
  scene.folder().write("out/model.pt", "mine");
  Told told(scene, "input_files");
  expect_inputs_refused(told, "the model of the folder", scene);
  EXPECT_EQ(scene.folder().read("out/model.pt"), "mine");
  EXPECT_FALSE(std::filesystem::exists(scene.folder() / "out/log"));
  // By another name, too.
  std::filesystem::create_directory_symlink(scene.folder() / "out", scene.folder() / "link");
  recipe_with_line(scene,
                   "model:", "model: {type: mlp, hidden: 16, classes: 4, weights: link/model.pt}");
  expect_inputs_refused(told, "by a link", scene);
  expect_code(0, scene.run({"--output", text_of_folder(scene, "elsewhere")}));
  // Nothing is trained.
  expect_code(0, scene.run({"--tune-only"}));
  EXPECT_EQ(scene.folder().read("out/model.pt"), "mine");
}

TEST(InputFiles, APatternThatMatchesWhatTheRunWritesIsRefused) {
  const Scene scene;
  scene.folder().write("photos/a.jpg", "");
  recipe_with_line(scene, "data:", "data: {type: image_files, files: '*/*'}");
  // Before the first run already.
  Told told(scene, "input_files");
  expect_inputs_refused(told, "all files of all folders", scene);
  EXPECT_FALSE(std::filesystem::exists(scene.folder() / "out"));
  recipe_with_line(scene, "data:", "data: {type: image_files, files: '*/*.jpg'}");
  expect_code(0, scene.run());
}

// The recipe says the same, and another size of a file makes it another job.
TEST(InputFiles, ThatChangeWhileATrainingIsInterruptedAreTold) {
  const Scene scene{Scene::fast_job(
      {{"do", "interrupt"}, {"request", "train_step"}, {"step", 4}, {"once", true}})};
  recipe_with_line(scene, "data:", "data: {type: idx, images: images, labels: labels}");
  scene.folder().write("labels", "12");
  scene.folder().write("images", "1234");
  const Outcome first = ended(130, scene.run());
  const std::string words = "other names or sizes than in run ";
  EXPECT_THAT(first.err, Not(HasSubstr(words)));
  const std::string id = scene.last_run().at("run");

  scene.folder().write("images", "12345");
  const Outcome second = ended(0, scene.run());
  Told told(scene, "input_files");
  told.lines("another file", second.err, words + id);
  EXPECT_EQ(second.json().at("training").at("resumed_from_step"), 0);
  const std::string other = second.json().at("run");
  EXPECT_NE(other, id);

  // With the files of before it goes on, and says whose model it replaces.
  scene.folder().write("images", "1234");
  const Outcome third = ended(0, scene.run());
  EXPECT_EQ(third.json().at("run"), id);
  EXPECT_EQ(third.json().at("training").at("resumed_from_step"), 5);
  told.lines("the file of before", third.err, "has the model of run " + other);

  scene.folder().write("images", "123456");
  const Outcome fourth = ended(0, scene.run());
  told.lines("a third one", fourth.err, words + other);
  told.lines("whose model it replaces", fourth.err, "has the model of run " + id);
  const Outcome fifth = ended(0, scene.run());
  EXPECT_THAT(fifth.err, Not(HasSubstr(words)));
}

}  // namespace
}  // namespace autotuned
