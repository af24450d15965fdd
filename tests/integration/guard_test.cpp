// SPDX-License-Identifier: Apache-2.0
// `autotuned guard` as CI uses it: the exit code, the table, the JSON, and which trainers are asked.
#include <gmock/gmock.h>

#include <set>

#include "tests/integration/told.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

// A recipe of the scene's job with another start.
std::filesystem::path recipe_with(const Scene& scene, const std::string& start) {
  std::string text = scene.folder().read("recipe.yaml");
  const std::string own = "start: {optimizer.set_to_none: off}";
  text.replace(text.find(own), own.size(), "start: {" + start + "}");
  return scene.folder().write("other.yaml", text);
}

Outcome guard(const Scene& scene, const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {"guard", scene.recipe().string(), "--json"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return scene.command(arguments);
}

TEST(Guard, FailsWhereOtherSettingsAreFaster) {
  const Scene scene;
  const Json json = result_of(
      guard(scene, {"--against", recipe_with(scene, "optimizer.set_to_none: on").string()}), 1);
  EXPECT_EQ(json.at("verdict"), "slower");
  EXPECT_NEAR(json.at("ratio").get<double>(), 1 / 1.3, 0.02);
  EXPECT_LT(json.at("ratio_high"), 1.0);
  EXPECT_EQ(json.at("process_pairs"), 0) << "both are switched live in one process";
  EXPECT_EQ(scene.fake().requests("load").size(), 1U);
  EXPECT_TRUE(scene.all_ended());
}

TEST(Guard, PassesWhereOtherSettingsAreSlower) {
  const Json behaviour = {{"factors", {{"optimizer.set_to_none=on", 0.8}}}};
  const Scene scene(behaviour);
  const auto other = recipe_with(scene, "optimizer.set_to_none: on");
  const Outcome outcome =
      ended(0, scene.command({"guard", scene.recipe().string(), "--against", other}));
  for (const char* words : {"optimizer.set_to_none", "this", "verdict  not slower: "})
    EXPECT_THAT(outcome.out, HasSubstr(words));
  EXPECT_FALSE(std::filesystem::exists(scene.history())) << "a guard keeps nothing";
}

TEST(Guard, PassesWhereBothAreEquallyFast) {
  const Scene scene{Json::object()};
  const Json outcome = result_of(
      guard(scene, {"--against", recipe_with(scene, "optimizer.set_to_none: on").string()}));
  EXPECT_EQ(outcome.at("verdict"), "not_slower");
  EXPECT_LT(outcome.at("ratio_low"), 1.0);
}

// In pairs of fresh processes, of which the waiting one is stopped.
TEST(Guard, ComparesBuildsByTheirTrainers) {
  const Scene scene{Json::object()};
  const Json behaviour = {{"rate", 1200}};
  const FakeScene faster(behaviour);
  const Json slower = result_of(guard(scene, {"--against-trainer", faster.trainer().string()}), 1);
  EXPECT_NEAR(slower.at("ratio").get<double>(), 1000.0 / 1200, 0.02);
  EXPECT_GT(slower.at("process_pairs"), 2);
  EXPECT_EQ(slower.at("against").at("trainer"), faster.trainer().string());
  EXPECT_GT(scene.fake().requests("load").size(), 2U);
  EXPECT_EQ(scene.fake().requests("load").size(), faster.requests("load").size());
  std::set<std::string> told;
  for (const Json& request : faster.requests())
    told.insert(request.dump());
  for (const std::string& text : told)
    EXPECT_EQ(text.find("guard.side"), std::string::npos) << text;

  const FakeScene same;
  const Json equal = result_of(guard(scene, {"--against-trainer", same.trainer().string()}));
  EXPECT_EQ(equal.at("verdict"), "not_slower");
  EXPECT_TRUE(scene.all_ended());
}

TEST(Guard, HoldsARecipeAgainstTheHistory) {
  const Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  for (const char* reference : {"best", "last"}) {
    const Json outcome = result_of(guard(scene, {"--against", reference}), 1);
    EXPECT_THAT(outcome.at("against").at("name").get<std::string>(), HasSubstr("run r-"));
    EXPECT_EQ(outcome.at("against").at("configuration").at("optimizer.set_to_none"), true);
  }
}

TEST(Guard, MeasuresNothingWhereNothingDiffers) {
  const Scene scene;
  const Json outcome = result_of(guard(scene, {"--against", scene.recipe().string()}));
  EXPECT_TRUE(outcome.at("ratio").is_null());
  EXPECT_TRUE(scene.fake().requests().empty());
}

// As of `run`: the first process of a launcher measures, with as many ranks, and the others end as
// it does. Here they come one after the other.
void expect_first_measures(Scene& scene, const std::vector<std::string>& command, int code) {
  scene.set("WORLD_SIZE=2");
  scene.set("LOCAL_WORLD_SIZE=2");
  scene.set("RANK=0");
  const Outcome first = ended(code, scene.command(command));
  Told(scene, "guard").lines("the first", first.err, "torchrun");
  ASSERT_EQ(scene.fake().requests("load").size(), 1U) << first.err;
  EXPECT_EQ(scene.fake().requests("load").front().at("ranks"), 2);
  scene.fake().forget_requests();
  scene.set("RANK=1");
  const Outcome second = scene.command(command);
  EXPECT_EQ(second.code, first.code) << second.err;
  EXPECT_THAT(second.out, testing::IsEmpty());
  EXPECT_TRUE(scene.fake().requests().empty()) << "it has only waited";
}

TEST(Guard, OfALauncherOnlyTheFirstProcessMeasures) {
  Scene scene;
  const std::string other = recipe_with(scene, "optimizer.set_to_none: on").string();
  expect_first_measures(scene, {"guard", scene.recipe().string(), "--json", "--against", other}, 1);
}

TEST(Profile, OfALauncherOnlyTheFirstProcessRecords) {
  Scene scene;
  expect_first_measures(scene, {"profile", scene.recipe().string()}, 0);
}

TEST(Profile, RefusesAPageThatWouldReplaceALinkBeforeItRecords) {
  const Scene scene;
  scene.folder().write("precious", "model");
  std::filesystem::create_symlink("precious", scene.folder() / "link");
  const std::string link = (scene.folder() / "link").string();
  Told(scene, "guard")
      .ends(2, "a link", scene.command({"profile", scene.recipe().string(), "--html", link}));
  EXPECT_EQ(scene.folder().read("precious"), "model");
  EXPECT_TRUE(std::filesystem::is_symlink(scene.folder() / "link"));
  EXPECT_TRUE(scene.fake().requests().empty());
}

TEST(Profile, RefusesATraceThatWouldReplaceAnotherFileBeforeItRecords) {
  const Scene scene;
  const std::string trace = scene.folder().write("mine.pt.trace.json.gz", "by others").string();
  Told(scene, "guard")
      .ends(2, "a file of others",
            scene.command({"profile", scene.recipe().string(), "--output", trace}));
  EXPECT_EQ(scene.folder().read("mine.pt.trace.json.gz"), "by others");
  EXPECT_TRUE(scene.fake().requests().empty());
}

TEST(Profile, OfALauncherOfTooManyProcessesIsRefused) {
  Scene scene;
  scene.set("WORLD_SIZE=65");
  scene.set("LOCAL_WORLD_SIZE=65");
  scene.set("RANK=0");
  Told(scene, "guard").ends(2, "65 processes", scene.command({"profile", scene.recipe().string()}));
  EXPECT_TRUE(scene.fake().requests().empty());
}

TEST(Guard, RefusesRanksOnAGpu) {
  const Scene scene;
  std::string text = scene.folder().read("recipe.yaml");
  const std::string train = "batch_size: 8";
  text.replace(text.find(train), train.size(), train + ", ranks: 2");
  text.replace(text.find("device: cpu"), 11, "device: cuda:0");
  const std::string recipe = scene.folder().write("ranks.yaml", text).string();
  Told told(scene, "guard");
  told.ends(2, "guard", scene.command({"guard", recipe, "--against", scene.recipe().string()}));
  told.ends(2, "profile", scene.command({"profile", recipe}));
  EXPECT_TRUE(scene.fake().requests().empty());
}

TEST(Guard, SaysWhatItCannotUse) {
  const Scene scene;
  const std::string recipe = scene.recipe().string();
  // Whatever it is, none of its words are told.
  const auto diary = scene.folder().write("diary", "secret: hunter2\nother: [1, 2]\n");
  Told told(scene, "guard");
  const auto refused = [&](std::vector<std::string> options, int code = 2) {
    const std::string given = testing::PrintToString(options);
    options.insert(options.begin(), {"guard", recipe});
    told.ends(code, given, scene.command(options));
  };
  refused({});
  refused({"--against", "best", "--tolerance", "0"});
  refused({"--against", "best", "--budget", "soon"});
  refused({"--against", "nowhere.yaml"});
  refused({"--against", diary.string()});
  refused({"--against-trainer", "/nowhere/trainer"}, 1);
}

}  // namespace
}  // namespace autotuned
