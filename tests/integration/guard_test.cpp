// SPDX-License-Identifier: Apache-2.0
// `autotuned guard` as CI uses it: the exit code, the table, the JSON, and which trainers are asked.
#include <gmock/gmock.h>

#include <set>

#include "tests/integration/scene.hpp"

namespace autotuned {
namespace {

using testing::AllOf;
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
  const Outcome outcome =
      guard(scene, {"--against", recipe_with(scene, "optimizer.set_to_none: on").string()});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const Json json = outcome.json();
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
  const Outcome outcome = scene.command({"guard", scene.recipe().string(), "--against", other});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("optimizer.set_to_none"), HasSubstr("this"),
                                 HasSubstr("verdict  not slower: ")));
  EXPECT_FALSE(std::filesystem::exists(scene.history())) << "a guard keeps nothing";
}

TEST(Guard, PassesWhereBothAreEquallyFast) {
  const Scene scene{Json::object()};
  const Outcome outcome =
      guard(scene, {"--against", recipe_with(scene, "optimizer.set_to_none: on").string()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.json().at("verdict"), "not_slower");
  EXPECT_LT(outcome.json().at("ratio_low"), 1.0);
}

// In pairs of fresh processes, of which the waiting one is stopped.
TEST(Guard, ComparesBuildsByTheirTrainers) {
  const Scene scene{Json::object()};
  const Json behaviour = {{"rate", 1200}};
  const FakeScene faster(behaviour);
  const Outcome slower = guard(scene, {"--against-trainer", faster.trainer().string()});
  EXPECT_EQ(slower.code, 1) << slower.err;
  EXPECT_NEAR(slower.json().at("ratio").get<double>(), 1000.0 / 1200, 0.02);
  EXPECT_GT(slower.json().at("process_pairs"), 2);
  EXPECT_EQ(slower.json().at("against").at("trainer"), faster.trainer().string());
  EXPECT_GT(scene.fake().requests("load").size(), 2U);
  EXPECT_EQ(scene.fake().requests("load").size(), faster.requests("load").size());
  std::set<std::string> told;
  for (const Json& request : faster.requests())
    told.insert(request.dump());
  for (const std::string& text : told)
    EXPECT_EQ(text.find("guard.side"), std::string::npos) << text;

  const FakeScene same;
  const Outcome equal = guard(scene, {"--against-trainer", same.trainer().string()});
  EXPECT_EQ(equal.code, 0) << equal.err;
  EXPECT_EQ(equal.json().at("verdict"), "not_slower");
  EXPECT_TRUE(scene.all_ended());
}

TEST(Guard, HoldsARecipeAgainstTheHistory) {
  const Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  for (const char* reference : {"best", "last"}) {
    const Outcome outcome = guard(scene, {"--against", reference});
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_THAT(outcome.json().at("against").at("name").get<std::string>(), HasSubstr("run r-"));
    EXPECT_EQ(outcome.json().at("against").at("configuration").at("optimizer.set_to_none"), true);
  }
}

TEST(Guard, MeasuresNothingWhereNothingDiffers) {
  const Scene scene;
  const Outcome outcome = guard(scene, {"--against", scene.recipe().string()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.json().at("ratio").is_null());
  EXPECT_TRUE(scene.fake().requests().empty());
}

// As of `run`: the first process of a launcher measures, with as many ranks, and the others end as
// it does. Here they come one after the other.
TEST(Guard, OfALauncherOnlyTheFirstProcessMeasures) {
  Scene scene;
  scene.set("WORLD_SIZE=2");
  scene.set("LOCAL_WORLD_SIZE=2");
  scene.set("RANK=0");
  const std::vector<std::string> against = {
      "--against", recipe_with(scene, "optimizer.set_to_none: on").string()};
  const Outcome first = guard(scene, against);
  EXPECT_EQ(first.code, 1) << first.err;
  EXPECT_THAT(first.err, HasSubstr("torchrun has started 2 processes: this measures with 2 ranks"));
  ASSERT_EQ(scene.fake().requests("load").size(), 1U);
  EXPECT_EQ(scene.fake().requests("load").front().at("ranks"), 2);
  scene.fake().forget_requests();
  scene.set("RANK=1");
  const Outcome second = guard(scene, against);
  EXPECT_EQ(second.code, first.code) << second.err;
  EXPECT_THAT(second.out, testing::IsEmpty());
  EXPECT_TRUE(scene.fake().requests().empty()) << "it has only waited";
}

TEST(Profile, OfALauncherOnlyTheFirstProcessRecords) {
  Scene scene;
  scene.set("WORLD_SIZE=2");
  scene.set("LOCAL_WORLD_SIZE=2");
  scene.set("RANK=0");
  const Outcome first = scene.command({"profile", scene.recipe().string()});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("torchrun has started 2 processes: this measures with 2 ranks"));
  ASSERT_EQ(scene.fake().requests("load").size(), 1U) << first.err;
  EXPECT_EQ(scene.fake().requests("load").front().at("ranks"), 2);
  scene.fake().forget_requests();
  scene.set("RANK=1");
  const Outcome second = scene.command({"profile", scene.recipe().string()});
  EXPECT_EQ(second.code, first.code) << second.err;
  EXPECT_THAT(second.out, testing::IsEmpty());
  EXPECT_TRUE(scene.fake().requests().empty()) << "it has only waited";
}

TEST(Profile, RefusesAPageThatWouldReplaceALinkBeforeItRecords) {
  const Scene scene;
  scene.folder().write("precious", "model");
  std::filesystem::create_symlink("precious", scene.folder() / "link");
  const Outcome refused = scene.command(
      {"profile", scene.recipe().string(), "--html", (scene.folder() / "link").string()});
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("symbolic link"));
  EXPECT_EQ(scene.folder().read("precious"), "model");
  EXPECT_TRUE(std::filesystem::is_symlink(scene.folder() / "link"));
  EXPECT_TRUE(scene.fake().requests().empty());
}

TEST(Profile, OfALauncherOfTooManyProcessesIsRefused) {
  Scene scene;
  scene.set("WORLD_SIZE=65");
  scene.set("LOCAL_WORLD_SIZE=65");
  scene.set("RANK=0");
  const Outcome outcome = scene.command({"profile", scene.recipe().string()});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err,
              HasSubstr("torchrun has started 65 processes, and a recipe has 64 ranks"));
  EXPECT_TRUE(scene.fake().requests().empty());
}

TEST(Guard, RefusesRanksOnAGpu) {
  const Scene scene;
  std::string text = scene.folder().read("recipe.yaml");
  const std::string train = "batch_size: 8";
  text.replace(text.find(train), train.size(), train + ", ranks: 2");
  text.replace(text.find("device: cpu"), 11, "device: cuda:0");
  const std::string recipe = scene.folder().write("ranks.yaml", text).string();
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"guard", recipe, "--against", scene.recipe().string()},
        std::vector<std::string>{"profile", recipe}}) {
    const Outcome outcome = scene.command(command);
    EXPECT_EQ(outcome.code, 2) << command.front();
    EXPECT_THAT(outcome.err, HasSubstr("2 ranks train on the CPU only so far")) << command.front();
  }
  EXPECT_TRUE(scene.fake().requests().empty());
}

TEST(Guard, SaysWhatItCannotUse) {
  const Scene scene;
  const std::string recipe = scene.recipe().string();
  EXPECT_EQ(scene.command({"guard", recipe}).code, 2);
  EXPECT_EQ(scene.command({"guard", recipe, "--against", "best", "--tolerance", "0"}).code, 2);
  EXPECT_EQ(scene.command({"guard", recipe, "--against", "best", "--budget", "soon"}).code, 2);
  const Outcome unknown = scene.command({"guard", recipe, "--against", "nowhere.yaml"});
  EXPECT_NE(unknown.code, 0);
  // Whatever it is, none of its words are told.
  const auto diary = scene.folder().write("diary", "secret: hunter2\nother: [1, 2]\n");
  const Outcome foreign = scene.command({"guard", recipe, "--against", diary.string()});
  EXPECT_EQ(foreign.code, 2);
  EXPECT_THAT(foreign.err, testing::AllOf(HasSubstr("diary: this is no recipe of autotuned"),
                                          testing::Not(HasSubstr("secret"))));
  const Outcome gone = scene.command({"guard", recipe, "--against-trainer", "/nowhere/trainer"});
  EXPECT_EQ(gone.code, 1) << gone.err;
  EXPECT_THAT(gone.err, HasSubstr("/nowhere/trainer"));
}

}  // namespace
}  // namespace autotuned
