// SPDX-License-Identifier: Apache-2.0
// The first commands of somebody who has never used the program, and the questions that follow a few runs.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/daemon/guide/data_samples.hpp"
#include "tests/golden.hpp"
#include "tests/integration/scene.hpp"
#include "tests/places.hpp"

namespace autotuned {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// In a folder of the scene, without its recipe.
Outcome in_folder(const Scene& scene, const std::string& folder,
                  const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {
      "/bin/sh", "-c", "mkdir -p \"$0\" && cd \"$0\" && exec \"$@\"", scene.folder() / folder,
      tests::build_folder() / "bin/autotuned"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const std::string here = scene.folder().path().string();
  return Running(command, {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + here,
                           "XDG_DATA_HOME=" + here + "/data", "XDG_RUNTIME_DIR=" + here + "/run",
                           "AUTOTUNED_LOCKS=" + here + "/run",
                           "AUTOTUNED_HISTORY=" + scene.history().string(),
                           "AUTOTUNED_TRAINER=" + scene.fake().trainer().string()})
      .finish();
}

long lines_in(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

TEST(FirstSteps, AreToldInAFewLines) {
  const Scene scene;
  tests::Cases cases(scene.folder().path());
  const auto tell = [&](const std::string& folder, const std::vector<std::string>& arguments) {
    const Outcome outcome = in_folder(scene, folder, arguments);
    EXPECT_LE(lines_in(outcome.out), 15) << outcome.out;
    std::string given = "autotuned";
    for (const std::string& argument : arguments)
      given += " " + argument;
    // Another one on each machine.
    const std::string told =
        std::regex_replace(outcome.out + outcome.err, std::regex("machine  .*"), "machine  …");
    cases.add(given + ": " + std::to_string(outcome.code), "\n" + told);
  };
  tell("empty", {});
  for (const std::string& kind : tests::kinds_of_data()) {
    tests::write_data(scene.folder(), "here/" + kind + "/", kind);
    tell("here", {"init", kind});
    const Outcome checked = in_folder(scene, "here", {"check", kind + ".yaml"});
    EXPECT_EQ(checked.code, 0) << kind << checked.err;
  }
  tell("here/classes", {});
  scene.folder().write("here/books/my book.txt", std::string(20'000, 'a'));
  tell("here", {"init", "books/my book.txt"});
  EXPECT_EQ(in_folder(scene, "here", {"check", "my-book.yaml"}).code, 0);
  tell("here", {"init", "books/none.txt"});
  scene.folder().write("script/train.py", "import torch\nloss.backward()\n");
  tell("script", {"init"});
  tell("here", {"best"});
  tell("here", {"plugins", "--gains"});
  tell("here", {"history", "--trend"});
  tests::expect_golden("daemon/cli/golden/first_steps.txt", cases.text());
}

// How that is told is in golden/mistakes.txt.
TEST(Init, OverwritesNothing) {
  const Scene scene;
  const auto file = scene.folder().write("here/recipe.yaml", "mine\n");
  EXPECT_EQ(in_folder(scene, "here", {"init"}).code, 2);
  EXPECT_EQ(scene.folder().read("here/recipe.yaml"), "mine\n");
  // Nor what a link leads to.
  std::filesystem::create_symlink(scene.folder() / "here/gone", scene.folder() / "here/link.yaml");
  EXPECT_EQ(in_folder(scene, "here", {"init", "--output", "link.yaml"}).code, 2);
  EXPECT_FALSE(std::filesystem::exists(scene.folder() / "here/gone"));
  const Outcome other = in_folder(scene, "here", {"init", "--output", "other.yaml", "--json"});
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(other.json().at("recipe"), "other.yaml");
  EXPECT_TRUE(other.json().at("samples").is_null());
}

// No pattern of files in a recipe can hold them.
TEST(Init, RefusesAFolderWhoseNameNoRecipeCanHold) {
  const Scene scene;
  for (const std::string name : {"new\nline", "esc\x1b[31mred", "bad\xff"}) {
    scene.folder().write("here/" + name + "/cat/1.png", "");
    const Outcome refused = in_folder(scene, "here", {"init", name});
    EXPECT_EQ(refused.code, 2) << refused.out;
    EXPECT_THAT(refused.err, HasSubstr("a recipe cannot name a folder with such characters"));
    EXPECT_EQ(refused.err.find('\x1b'), std::string::npos);
  }
  EXPECT_EQ(in_folder(scene, "here", {"init", "new\nline/cat", "--output", "x.yaml"}).code, 2);
  EXPECT_FALSE(std::filesystem::exists(scene.folder() / "here/x.yaml"));
}

TEST(Bare, LeadsOnFromTheLastRun) {
  const Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  const Outcome after = scene.command({});
  EXPECT_THAT(after.out, AllOf(HasSubstr("\nhistory  1 run, the last r-"),
                               HasSubstr("autotuned explain last")));
  EXPECT_LE(lines_in(after.out), 15);
  EXPECT_THAT(after.err, IsEmpty());
}

TEST(Doctor, LeadsOnInAtMostFifteenLines) {
  const Scene scene;
  scene.folder().write("here/recipe.yaml", "autotuned: 1\n");
  const Outcome outcome = in_folder(scene, "here", {"doctor"});
  EXPECT_LE(lines_in(outcome.out), 15) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("next     autotuned check recipe.yaml"));
}

// Questions about two runs of one job.
class Questions : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    scene_ = new Scene;
    ASSERT_EQ(scene_->run({"--tune-only"}).code, 0);
    ASSERT_EQ(scene_->run({"--tune-only", "--retune"}).code, 0);
  }
  static void TearDownTestSuite() { delete scene_; }
  static Scene* scene_;
};
Scene* Questions::scene_ = nullptr;

TEST_F(Questions, WhatIsBestHere) {
  const Outcome best = scene_->command({"best"});
  ASSERT_EQ(best.code, 0) << best.err;
  EXPECT_THAT(best.out, HasSubstr("optimizer.set_to_none off → on"));
  const Json list = scene_->command({"best", "--json"}).json();
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list.at(0).at("recipe"), "small");
  EXPECT_EQ(list.at(0).at("configuration").at("optimizer.set_to_none"), true);
}

TEST_F(Questions, WhatChangedBetweenTwo) {
  const Outcome few = scene_->command({"compare", "last.1", "last.2"});
  ASSERT_EQ(few.code, 0) << few.err;
  EXPECT_EQ(lines_in(few.out), 5) << few.out;
  EXPECT_THAT(few.out, StartsWith("A        r-"));
  EXPECT_GT(lines_in(scene_->command({"compare", "last.1", "last.2", "--all"}).out), 5);
}

TEST_F(Questions, WhichPluginPaysOffWhere) {
  const Outcome gains = scene_->command({"plugins", "--gains"});
  ASSERT_EQ(gains.code, 0) << gains.err;
  EXPECT_THAT(gains.out, HasSubstr("won: kept at the end of the run"));
  std::set<std::string> plugins;
  for (const Json& gain : scene_->command({"plugins", "--gains", "--json"}).json()) {
    if (gain.at("plugin").is_string()) plugins.insert(gain.at("plugin").get<std::string>());
    EXPECT_EQ(gain.at("recipe"), "small");
    EXPECT_GE(gain.at("won"), 1) << gain;
    EXPECT_GT(gain.at("median_ratio"), 1.1) << gain;
  }
  EXPECT_TRUE(plugins.contains("set_to_none"));
  EXPECT_TRUE(plugins.contains("memory_malloc"));
}

TEST_F(Questions, DidItGetSlowerSince) {
  const Outcome trend = scene_->command({"history", "--trend"});
  ASSERT_EQ(trend.code, 0) << trend.err;
  EXPECT_THAT(trend.out, HasSubstr("fastest before"));
  const Json list = scene_->command({"history", "--trend", "--json"}).json();
  ASSERT_EQ(list.size(), 1U);
  EXPECT_NEAR(list.at(0).at("ratio").get<double>(), 1.0, 0.2);
  EXPECT_NE(list.at(0).at("newest").at("run"), list.at(0).at("fastest_before").at("run"));
  EXPECT_THAT(scene_->command({"history", "--trend", "--recipe", "other"}).out,
              Not(HasSubstr("fastest before")));
}

TEST_F(Questions, WhenIsItRepaid) {
  const Outcome cost = scene_->command({"explain", "last", "--break-even"});
  ASSERT_EQ(cost.code, 0) << cost.err;
  EXPECT_THAT(cost.out, StartsWith("Tuning took "));
  EXPECT_LE(lines_in(cost.out), 6);
  const Json json = scene_->command({"explain", "last", "--break-even", "--json"}).json();
  EXPECT_GT(json.at("tuning_seconds"), 0.0);
  EXPECT_GT(json.at("break_even").at("samples"), 0.0);
}

TEST(Help, FitsIntoEightyColumns) {
  const Scene scene;
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {}, {"explain"}, {"history"}, {"best"}, {"show"}, {"run"}, {"guard"}, {"plugins"}}) {
    std::vector<std::string> words = command;
    words.emplace_back("--help");
    const Outcome help = scene.command(words);
    EXPECT_EQ(help.code, 0) << help.err;
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(line.size(), 80U) << line;
  }
  // What does not fit goes on below the description.
  EXPECT_THAT(scene.command({"history", "--help"}).out,
              HasSubstr(" else\n                              below $XDG_STATE_HOME)\n"));
}

// The parser's own line would know of a recipe alone.
TEST(Help, OfRunShowsWhereTheWordsOfAScriptBegin) {
  EXPECT_THAT(Scene().command({"run", "--help"}).out,
              HasSubstr("Usage: autotuned run [OPTIONS] RECIPE\n"
                        "       autotuned run [OPTIONS] SCRIPT.py ARGS...\n"
                        "       autotuned run [OPTIONS] -- COMMAND...\n"));
}

TEST(Completions, KnowWhatMayBeTyped) {
  const Scene scene;
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome outcome = scene.command({"completions", shell});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    for (const char* word : {"explain", "completions", "budget", "prune", "operators", "dry-run"})
      EXPECT_THAT(outcome.out, HasSubstr(word)) << shell;
  }
  const Outcome page = scene.command({"man"});
  EXPECT_THAT(page.out,
              AllOf(StartsWith(".TH AUTOTUNED 1"), HasSubstr("130 cancelled"),
                    HasSubstr("autotuned run\\fR [OPTIONS] \\fISCRIPT.py\\fR \\fIARGS...\\fR\n"),
                    HasSubstr("autotuned run\\fR [OPTIONS] \\-\\- \\fICOMMAND...\\fR\n")));
}

}  // namespace
}  // namespace autotuned
