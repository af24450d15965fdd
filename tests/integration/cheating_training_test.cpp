// SPDX-License-Identifier: Apache-2.0
// Extensions that are several times as fast because they train something else: each is tried, none is kept, and the reason
// names what was found. One that behaves until it is trained with is found out there, or after it.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "tests/integration/scene.hpp"

namespace autotuned {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kStandsStill = "the update of [a-z.]+ is 0\\.[0-9]+ times as long";

// What a step says that was compared with what the model computes by itself (trainer/extensions/own_pass.hpp). It comes
// before the checks, or not: such steps are drawn at random. What is done to buffers is seen in each step.
constexpr const char* kNotTheModels =
    "plugin cheats: forward: (the gradients are not those of the model's own forward|leaves other "
    "numbers in buffer|changes buffer seen)";

struct Cheat {
  std::string name;
  std::string reason;  // an expression for a part of that of a check; empty: it is kept
};

void PrintTo(const Cheat& cheat, std::ostream* out) {
  *out << cheat.name;
}

// By a check, or in a step of a block.
void expect_seen(const Json& trial, const std::string& reason) {
  if (trial.at("verdict") == "failed") {
    EXPECT_THAT(trial.dump(), ContainsRegex(kNotTheModels));
    return;
  }
  EXPECT_EQ(trial.at("verdict"), "rejected") << trial.dump(1);
  EXPECT_THAT(trial.at("reason").get<std::string>(), ContainsRegex(reason));
}

class CheatingTraining : public testing::TestWithParam<Cheat> {
 protected:
  explicit CheatingTraining(const std::string& evaluated_every = "end",
                            const std::string& more_of_training = "",
                            const std::string& optimizer = "{type: sgd, lr: 0.1}",
                            const std::string& allow = "numerics") {
    scene_.use_trainer_plugins({"tiny", "cheats"});
    scene_.write_plugin("cheats", "cheats.cheat: " + GetParam().name);
    scene_.write_job(
        "model: {plugin: tiny, wait_ms: 8}\ndata: {plugin: tiny, samples: 2048}\n"
        "input: [scale: {by: 1/255}]\noptimizer: " +
        optimizer +
        "\n"
        "train: {epochs: 2, batch_size: 32" +
        more_of_training +
        "}\n"
        "evaluate: {data: {plugin: tiny, samples: 256}, every: " +
        evaluated_every + "}\ntune: {plugins: [cheats], budget: 3min, allow: [" + allow + "]}\n");
  }

  Outcome run(std::vector<std::string> options = {}) const {
    options.insert(options.end(), {"--plugin-dir", (scene_.folder() / "plugins").string()});
    return scene_.run(options);
  }

  Scene scene_;
};

TEST_P(CheatingTraining, IsSeen) {
  const Json run = result_of(this->run({"--tune-only"}));
  const Json trials = run.at("trials");
  ASSERT_FALSE(trials.empty());
  const Json& trial = trials.at(0);
  expect_seen(trial, "it does not train the same model: .*" + GetParam().reason);
  EXPECT_EQ(run.at("best").at("configuration").at("cheats.cheat"), "none");
}

INSTANTIATE_TEST_SUITE_P(
    , CheatingTraining,
    testing::Values(
        Cheat{"frozen_buffers", "buffers: the update of seen is 0\\.000 times as long"},
        Cheat{"repeats_images", "the samples of step [0-9]+ differ from the reference's"},
        Cheat{"skips_updates", "the update of hidden\\.weight is 0\\.[0-9]+ times as long"},
        // It may be any parameter: now and then it moves them all at once.
        Cheat{"stale_weights", "the update of [a-z.]+ is [0-9.]+ times as long"},
        Cheat{"evaluates_wrongly",
              "in evaluation mode the outputs for a few batches differ from the reference's by "
              "[0-9.]+ of the change that the steps made"},
        Cheat{"stands_still_at_low_loss",
              std::string(kStandsStill) + ".*from the weights at the end of the blocks"}),
    [](const auto& test) { return test.param.name; });

class CheatingAtAnotherBatchSize : public CheatingTraining {
 protected:
  CheatingAtAnotherBatchSize()
      : CheatingTraining("end", "", "{type: sgd, lr: 0.1}", "numerics, semantics") {
    scene_.write_plugin("cheats", "{cheats.cheat: " + GetParam().name + ", batch_size: 64}");
  }
};

// At the recipe's own batch size it pays nothing.
TEST_P(CheatingAtAnotherBatchSize, IsSeen) {
  const Json run = result_of(this->run({"--tune-only"}));
  expect_seen(run.at("trials").at(0), GetParam().reason);
  EXPECT_EQ(run.at("best").at("configuration").at("cheats.cheat"), "none");
}

INSTANTIATE_TEST_SUITE_P(, CheatingAtAnotherBatchSize,
                         testing::Values(Cheat{"trains_32_of_a_batch",
                                               "the update of [a-z.]+ (is [0-9.]+ times as long|"
                                               "has a cosine)"}),
                         [](const auto& test) { return test.param.name; });

class CheatingAverages : public CheatingTraining {
 protected:
  CheatingAverages() : CheatingTraining("end", ", ema_decay: 0.99") {}
};

// The model that is evaluated is that of the averages, and no parameter says anything about them.
TEST_P(CheatingAverages, IsSeen) {
  const Json run = result_of(this->run({"--tune-only"}));
  const Json& trial = run.at("trials").at(0);
  EXPECT_EQ(trial.at("verdict"), "rejected") << trial.dump(1);
  EXPECT_THAT(trial.at("reason").get<std::string>(), ContainsRegex(GetParam().reason));
  EXPECT_EQ(run.at("best").at("configuration").at("cheats.cheat"), "none");
}

INSTANTIATE_TEST_SUITE_P(
    , CheatingAverages,
    testing::Values(Cheat{
        "standing_averages",
        "buffers: .*running average of [a-z.]+ (is 0\\.000 times as long|does not "
        "move).*from the weights at the end of the blocks"}),
    [](const auto& test) { return test.param.name; });

class CheatingMoments : public CheatingTraining {
 protected:
  CheatingMoments() : CheatingTraining("end", "", "{type: adam, lr: 0.01}") {}
};

// From the moments that it has made, no configuration moves; and it leaves the initial weights alone.
TEST_P(CheatingMoments, AreSeen) {
  const Json run = result_of(this->run({"--tune-only"}));
  const Json& trial = run.at("trials").at(0);
  EXPECT_EQ(trial.at("verdict"), "rejected") << trial.dump(1);
  EXPECT_THAT(trial.at("reason").get<std::string>(), ContainsRegex(GetParam().reason));
  EXPECT_EQ(run.at("best").at("configuration").at("cheats.cheat"), "none");
}

INSTANTIATE_TEST_SUITE_P(, CheatingMoments,
                         testing::Values(Cheat{
                             "huge_moments", std::string("with the optimizer's initial moments: ") +
                                                 kStandsStill +
                                                 ".*from the weights at the end of the blocks"}),
                         [](const auto& test) { return test.param.name; });

class HonestAveragesAndMoments : public CheatingTraining {
 protected:
  HonestAveragesAndMoments()
      : CheatingTraining("end", ", ema_decay: 0.99", "{type: adam, lr: 0.01}") {}
};

// A check that refused each extension beside averages or moments would pass the two tests above.
TEST_P(HonestAveragesAndMoments, AreKept) {
  const Json run = result_of(this->run({"--tune-only"}));
  const Json& trial = run.at("trials").at(0);
  EXPECT_EQ(trial.at("verdict"), "accepted") << trial.dump(1);
  EXPECT_EQ(run.at("best").at("configuration").at("cheats.cheat"), GetParam().name);
}

INSTANTIATE_TEST_SUITE_P(, HonestAveragesAndMoments, testing::Values(Cheat{"honest", ""}),
                         [](const auto& test) { return test.param.name; });

// What each step looks at: no check need come at the right time.
class CheatingInSteps : public CheatingTraining {};

TEST_P(CheatingInSteps, IsSeenInTheStep) {
  const Json run = result_of(this->run({"--tune-only"}));
  const Json trials = run.at("trials");
  ASSERT_FALSE(trials.empty());
  EXPECT_EQ(trials.at(0).at("verdict"), "failed") << trials.at(0).dump(1);
  EXPECT_THAT(trials.at(0).dump(), HasSubstr("plugin cheats: " + GetParam().reason));
  EXPECT_EQ(run.at("best").at("configuration").at("cheats.cheat"), "none");
}

INSTANTIATE_TEST_SUITE_P(
    , CheatingInSteps,
    testing::Values(Cheat{"repeats_batch", "on_batch: leaves other labels"},
                    // Honest as long as it may be at a check.
                    Cheat{"skips_samples_between_checks",
                          "on_batch: leaves 16 samples instead of 32"},
                    Cheat{"shows_half", "forward: shows the model 16 samples instead of 32"},
                    Cheat{"freezes_later", "on_batch: freezes parameter hidden.weight in step "}),
    [](const auto& test) { return test.param.name; });

// Called by LibTorch, where nothing names the plugin.
class FailingBetweenHooks : public CheatingTraining {};

TEST_P(FailingBetweenHooks, FailsTheTrialWithTheNameOfThePlugin) {
  const Json run = result_of(this->run({"--tune-only"}));
  const Json trials = run.at("trials");
  ASSERT_FALSE(trials.empty());
  EXPECT_EQ(trials.at(0).at("verdict"), "failed") << trials.at(0).dump(1);
  EXPECT_THAT(trials.at(0).dump(), HasSubstr(GetParam().reason));
  EXPECT_EQ(run.at("best").at("configuration").at("cheats.cheat"), "none");
}

INSTANTIATE_TEST_SUITE_P(, FailingBetweenHooks,
                         testing::Values(Cheat{"throws_in_backward",
                                               ", with plugin cheats on, which may be the cause"}),
                         [](const auto& test) { return test.param.name; });

// Trained to the end. The honest one is for all tests that find a cheat in a trial, too: it is faster in the same way, and
// the checks of its trial let it pass.
class CheatingInTraining : public CheatingTraining {};

TEST_P(CheatingInTraining, IsSeenAfterTheTraining) {
  const Outcome outcome = ended(0, run());
  const Json run_once = outcome.json();
  const Json& cheat = run_once.at("best").at("configuration").at("cheats.cheat");
  ASSERT_EQ(cheat, GetParam().name) << run_once.at("trials").dump(1);
  EXPECT_EQ(run_once.at("trials").at(0).at("verdict"), "accepted");
  const Json& check = run_once.at("training").at("check");
  if (GetParam().reason.empty()) {
    EXPECT_EQ(check.at("passed"), true) << check.dump();
    EXPECT_FALSE(check.contains("refused"));
    EXPECT_THAT(scene_.folder().read("out/best.yaml"), Not(HasSubstr("Warning")));
    return;
  }
  EXPECT_EQ(check.at("passed"), false);
  EXPECT_THAT(check.at("detail").get<std::string>(), ContainsRegex(GetParam().reason));
  EXPECT_THAT(check.at("detail").get<std::string>(), HasSubstr("from the trained weights"));
  EXPECT_EQ(check.at("refused"), Json::object({{"cheats.cheat", GetParam().name}}));
  EXPECT_THAT(outcome.err, HasSubstr("warning: model.pt was trained by a configuration that does "
                                     "not train as the starting one does"));
  EXPECT_TRUE(std::filesystem::exists(scene_.folder() / "out/model.pt"));
  EXPECT_THAT(scene_.folder().read("out/best.yaml"), HasSubstr("Warning: model.pt was trained"));
  EXPECT_EQ(Json::parse(scene_.folder().read("out/summary.json")).at("training").at("check"),
            check);

  // The same command trains without it.
  const Outcome again = ended(0, run());
  EXPECT_THAT(again.err, HasSubstr("is not tried again"));
  EXPECT_TRUE(again.json().at("trials").empty()) << again.json().at("trials").dump(1);
  EXPECT_EQ(again.json().at("best").at("configuration").at("cheats.cheat"), "none");
  EXPECT_FALSE(again.json().at("training").contains("check"));
}

INSTANTIATE_TEST_SUITE_P(, CheatingInTraining,
                         testing::Values(Cheat{"honest", ""},
                                         Cheat{"stands_still_once_tested", kStandsStill}),
                         [](const auto& test) { return test.param.name; });

class CheatingFromTheSecondEpoch : public CheatingTraining {
 protected:
  CheatingFromTheSecondEpoch() : CheatingTraining("epoch") {}
};

TEST_P(CheatingFromTheSecondEpoch, IsLeftOutAndTheTrainingGoesOn) {
  const Outcome outcome = ended(0, run());
  EXPECT_THAT(outcome.err,
              HasSubstr("without plugin cheats (cheats.cheat " + GetParam().name +
                        " → none): training step: plugin cheats: " + GetParam().reason));
  const Json training = outcome.json().at("training");
  EXPECT_EQ(training.at("steps"), 128);
  ASSERT_EQ(training.at("fallbacks").size(), 1);
  EXPECT_EQ(training.at("fallbacks")[0].at("extensions"), Json::array({"cheats"}));
  EXPECT_EQ(training.at("fallbacks")[0].at("configuration").at("cheats.cheat"), "none");
  EXPECT_TRUE(std::filesystem::exists(scene_.folder() / "out/model.pt"));
}

INSTANTIATE_TEST_SUITE_P(, CheatingFromTheSecondEpoch,
                         testing::Values(Cheat{"skips_samples_once_tested",
                                               "on_batch: leaves 16 samples instead of 32"}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace autotuned
