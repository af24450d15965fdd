// SPDX-License-Identifier: Apache-2.0
// Workloads and trainer extensions as a user has them: in a folder, named by a recipe or proposed.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "tests/integration/told.hpp"
#include "tests/places.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr const char* kTuned = "plugins: [tricks], budget: 3min, allow: [numerics]";

class TrainerPlugins : public testing::Test {
 protected:
  TrainerPlugins() : folder_(scene_.use_trainer_plugins({"tiny", "tricks", "usual_loss"})) {}

  void write_recipe(const std::string& model, const std::string& tune) const {
    scene_.write_job("model: " + model +
                     "\ndata: {plugin: tiny, samples: 2048}\ninput: [scale: {by: 1/255}]\n"
                     "optimizer: {type: sgd, lr: 0.1}\ntrain: {epochs: 2, batch_size: 32}\n"
                     "evaluate: {data: {plugin: tiny, samples: 256}, every: end}\ntune: {" +
                     tune + "}\n");
  }
  // A plugin that proposes one trick of the extension.
  void propose(const std::string& trick) const {
    scene_.write_plugin("tricks", "tricks.trick: " + trick);
  }
  // The same, by a policy that takes the session down when it is asked again.
  void add_crashing_policy() const {
    std::filesystem::copy_file(
        tests::build_folder() / "tests/fixture_plugins/tricks_policy/libtricks.so",
        folder_ / "libtricks.so");
  }
  Outcome run(const std::vector<std::string>& options = {}) const {
    std::vector<std::string> all = {"--plugin-dir", folder_.string()};
    all.insert(all.end(), options.begin(), options.end());
    return scene_.run(all);
  }

  Outcome command(std::vector<std::string> words) const {
    words.insert(words.end(), {"--plugin-dir", folder_.string()});
    return scene_.command(words);
  }

  Scene scene_;
  std::filesystem::path folder_;
  Told told_{scene_, "trainer_plugins"};
};

TEST_F(TrainerPlugins, AWorkloadIsTunedTrainedAndEvaluated) {
  write_recipe("{plugin: tiny, hidden: 12}", "plugins: [set_to_none], budget: 8s");
  const Json result = result_of(run());
  EXPECT_EQ(result.at("training").at("steps"), 128);
  EXPECT_GT(result.at("training").at("test_accuracy"), 0.9);
  EXPECT_TRUE(std::filesystem::exists(scene_.folder() / "out/model.pt"));
  EXPECT_THAT(command({"plugins", "--require", "tiny"}).out, HasSubstr("used in 1 run "));
  // What it wrote is a recipe of the same job.
  expect_code(0, command({"check", (scene_.folder() / "out/best.yaml").string()}));
}

TEST_F(TrainerPlugins, ALossGoesWithABuiltInModel) {
  write_recipe("{type: mlp, hidden: 12, classes: 4}\nloss: {plugin: usual_loss}", "budget: 0s");
  const Json outcome = result_of(run());
  EXPECT_EQ(outcome.at("training").at("steps"), 128);
  EXPECT_GT(outcome.at("training").at("test_accuracy"), 0.5);
  told_.lines("best.yaml", scene_.folder().read("out/best.yaml"), "loss: {");
  write_recipe("{type: mlp, hidden: 12, classes: 4}\nloss: {plugin: usual_los}", "budget: 0s");
  told_.ends(2, "an unknown loss", command({"check", scene_.recipe().string()}));
}

TEST_F(TrainerPlugins, AMistakeIsNamedWithItsLine) {
  write_recipe("{plugin: tinny}", "budget: 0s");
  const Outcome unknown = command({"run", scene_.recipe().string()});
  told_.ends(2, "an unknown workload", unknown);
  EXPECT_EQ(unknown.out, "");
  write_recipe("{plugin: tiny}", "budget: 0s");
  told_.ends(2, "a workload that is left out",
             command({"run", scene_.recipe().string(), "--without", "tiny"}));
  write_recipe("{plugin: tiny, hiden: 12}", "budget: 0s");
  const Outcome outcome = ended(1, run());
  EXPECT_THAT(outcome.err,
              testing::ContainsRegex("recipe.yaml:4, plugin tiny: .*no parameter 'hiden'"));
}

// No comparison shows it: what is not trained has no gradient on either side.
TEST_F(TrainerPlugins, AnExtensionThatFreezesALayerFails) {
  write_recipe("{plugin: tiny, wait_ms: 8}", kTuned);
  propose("freezes");
  const Json outcome = result_of(run({"--tune-only"}));
  const Json trials = outcome.at("trials");
  ASSERT_THAT(trials, SizeIs(testing::Ge(1)));
  EXPECT_EQ(trials.at(0).at("plugin"), "tricks");
  EXPECT_EQ(trials.at(0).at("verdict"), "failed") << trials.dump(1);
  EXPECT_THAT(trials.at(0).dump(), HasSubstr("apply: hidden.weight is not trained any more"));
  EXPECT_EQ(outcome.at("best").at("configuration").at("tricks.trick"), "none");
}

// A recipe that starts from a knob of an extension is known only where its folder is named.
TEST_F(TrainerPlugins, TheBestOfARecipeThatStartsFromAnExtensionIsShownAndForgotten) {
  write_recipe("{plugin: tiny}",
               "plugins: [set_to_none], budget: 30s, allow: [tricks.trick]}\n"
               "start: {tricks.trick: counts");
  ASSERT_EQ(run({"--tune-only"}).code, 0);
  const std::string recipe = scene_.recipe().string();
  told_.ends(2, "no folder", scene_.command({"best", recipe}));
  const Outcome best = ended(0, command({"best", recipe}));
  EXPECT_THAT(best.out, HasSubstr("tricks.trick: counts"));
  const Outcome forgotten = ended(0, command({"forget", recipe, "--json"}));
  EXPECT_EQ(forgotten.json().at("forgotten"), true);
}

// What it would do with another value of its knob is not tried.
TEST_F(TrainerPlugins, AnExtensionThatFailsCostsOneTrialOfTheRun) {
  for (const auto& [trick, reason] :
       {std::pair{"throws", "plugin tricks: apply: no tricks today"},
        std::pair{"late", "plugin tricks: forward: the rabbit"},
        std::pair{"hangs", "no answer to 'prepare' within"},
        std::pair{"stalls", "no answer to 'run' within"}, std::pair{"crashes", "signal 6"}}) {
    write_recipe("{plugin: tiny}", "plugins: [tricks], budget: 3min, allow: [numerics]");
    propose("[" + std::string(trick) + ", hurries]");
    const Outcome outcome = run({"--retune", "--verbose", "--block-limit", "8s"});
    ASSERT_EQ(outcome.code, 0) << trick << outcome.err;
    const Json trials = outcome.json().at("trials");
    ASSERT_THAT(trials, SizeIs(1)) << trick;
    EXPECT_EQ(trials.at(0).at("verdict"), "failed") << trick;
    EXPECT_THAT(trials.at(0).dump(), HasSubstr(reason)) << trick;
    EXPECT_EQ(outcome.json().at("training").at("steps"), 128) << trick;
    EXPECT_THAT(outcome.err, HasSubstr("the extension tricks is left out since trial 1 failed"))
        << trick;
  }
  const Outcome listed = command({"plugins"});
  for (const char* words : {"5 trials failed", "tricks failed last: trial", "signal 6"})
    EXPECT_THAT(listed.out, HasSubstr(words));
}

TEST_F(TrainerPlugins, AKnobOfAnExtensionIsSetByHandAndShown) {
  write_recipe("{plugin: tiny}", "plugins: [tricks], budget: 0s, allow: [tricks.trick]");
  expect_code(0, run({"--set", "tricks.trick=counts"}));
  told_.ends(2, "another value", run({"--set", "tricks.trick=juggles"}));
  EXPECT_THAT(command({"knobs"}).out, testing::ContainsRegex("tricks\\.trick.*numerics"));
  // The recipe may name what is left out: the training goes on without it.
  const Outcome outcome = ended(0, run({"--set", "tricks.trick=counts", "--without", "tricks"}));
  told_.lines("without it", outcome.err, "whose knob has gone with its plugin");
  EXPECT_FALSE(outcome.json().at("starting").at("configuration").contains("tricks.trick"));
}

// The policy goes, and with it the library and the knob that the run has kept by then.
TEST_F(TrainerPlugins, AnExtensionWhosePolicyCrashesLeavesTheRunItsOtherTrials) {
  write_recipe("{plugin: tiny, wait_ms: 8}", kTuned);
  add_crashing_policy();
  const Outcome outcome = ended(0, run());
  const Json result = outcome.json();
  ASSERT_GE(result.at("trials").size(), 1) << outcome.err;
  EXPECT_EQ(result.at("trials").at(0).at("plugin"), "tricks");
  EXPECT_EQ(result.at("trials").at(0).at("verdict"), "accepted");
  EXPECT_THAT(outcome.err, HasSubstr("the run goes on without it"));
  told_.lines("what it had kept", outcome.err, "no longer counts");
  EXPECT_FALSE(result.at("starting").at("configuration").contains("tricks.trick"));
  EXPECT_FALSE(result.at("best").at("configuration").contains("tricks.trick"));
  EXPECT_EQ(result.at("training").at("steps"), 128);
}

TEST_F(TrainerPlugins, AStartThatGoesWithItsExtensionIsTold) {
  write_recipe("{plugin: tiny, wait_ms: 8}", kTuned);
  add_crashing_policy();
  const Outcome outcome = ended(0, run({"--set", "tricks.trick=counts"}));
  told_.lines("the start", outcome.err, "whose knob has gone with its plugin");
  EXPECT_EQ(outcome.json().at("training").at("steps"), 128);
  EXPECT_EQ(scene_.runs().size(), 1);
}

TEST_F(TrainerPlugins, ARunIsContinuedWithoutTheExtensionThatItKept) {
  write_recipe("{plugin: tiny, wait_ms: 8}", kTuned);
  propose("hurries");
  Running first = scene_.start_run_until("accepted   tricks", {"--plugin-dir", folder_.string()});
  first.end_at_once();
  const Json outcome = result_of(run({"--without", "tricks"}));
  EXPECT_EQ(scene_.runs().size(), 1) << "it is continued";
  EXPECT_FALSE(outcome.at("best").at("configuration").contains("tricks.trick"));
  EXPECT_EQ(outcome.at("training").at("steps"), 128);
}

TEST_F(TrainerPlugins, AreListedByWhatTheirFilesSay) {
  propose("counts");
  const Json outcome = result_of(command({"plugins", "--json"}));
  std::vector<std::string> kinds;
  for (const Json& plugin : outcome) {
    if (plugin.at("name") == "tiny" || plugin.at("name") == "tricks") {
      EXPECT_EQ(plugin.at("state"), "ready") << plugin;
      kinds.push_back(plugin.at("kind"));
    }
  }
  EXPECT_THAT(kinds, testing::UnorderedElementsAre("workload", "extension", "yaml"));
}

}  // namespace
}  // namespace autotuned
