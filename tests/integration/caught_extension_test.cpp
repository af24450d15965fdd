// SPDX-License-Identifier: Apache-2.0
// An extension that is found out in the training: the run goes on without it. The trainer is the fake one, which runs no
// code of the extension and says what a real one would say.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/integration/scene.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kCheat = "cheats.cheat";
constexpr const char* kFound =
    "plugin cheats: on_batch: leaves other labels in step 6: only a knob of risk semantics may "
    "change what is trained";

class CaughtExtension : public testing::Test {
 protected:
  CaughtExtension() {
    scene_.add_trainer_plugins({"cheats"});
    scene_.write_plugin("cheats", std::string(kCheat) + ": honest");
    scene_.write_recipe("  plugins: [cheats]\n  allow: [numerics]\n");
    behave({found_at(5)});
  }

  // Before this step, under the extension.
  static Json found_at(int step) {
    return {{"do", "error"},
            {"kind", "internal"},
            {"what", kFound},
            {"extensions", {"cheats"}},
            {"request", "train_step"},
            {"step", step},
            {"when", {std::string(kCheat) + "=honest"}}};
  }
  // Before step 5, under these settings.
  static Json crash(const std::vector<std::string>& when) {
    Json fault = {{"do", "abort"}, {"request", "train_step"}, {"step", 5}};
    if (!when.empty()) fault["when"] = when;
    return fault;
  }
  void behave(const std::vector<Json>& faults) const {
    scene_.fake().behave({{"factors", {{std::string(kCheat) + "=honest", 1.5}}},
                          {"block_lasts_ms", 5},
                          {"tells_checkpoints", 1},
                          {"faults", faults}});
  }
  Outcome run(std::vector<std::string> options = {}) const {
    options.insert(options.end(), {"--plugin-dir", (scene_.folder() / "plugins").string()});
    return scene_.run(options);
  }
  // The values of the knob with which trainings were begun, in order.
  std::vector<std::string> trained_with() const {
    std::vector<std::string> values;
    for (const Json& request : scene_.fake().requests("train"))
      values.push_back(request.at("configuration").at(kCheat).get<std::string>());
    return values;
  }

  Scene scene_;
};

TEST_F(CaughtExtension, IsLeftOutFromTheLastCheckpointOn) {
  const Outcome outcome = ended(0, run());
  const Json run_once = outcome.json();
  ASSERT_EQ(run_once.at("best").at("configuration").at(kCheat), "honest")
      << run_once.at("trials").dump(1);
  EXPECT_EQ(trained_with(), (std::vector<std::string>{"honest", "none"}));
  EXPECT_EQ(run_once.at("training").at("steps"), 10);
  EXPECT_EQ(run_once.at("training").at("resumed_from_step"), 5);
  const Json fallbacks = run_once.at("training").at("fallbacks");
  ASSERT_EQ(fallbacks.size(), 1);
  EXPECT_EQ(fallbacks[0].at("extensions"), Json::array({"cheats"}));
  EXPECT_EQ(fallbacks[0].at("refused"), Json::object({{kCheat, "honest"}}));
  EXPECT_EQ(fallbacks[0].at("change"), Json::object({{kCheat, "none"}}));
  EXPECT_EQ(fallbacks[0].at("configuration").at(kCheat), "none");
  EXPECT_EQ(fallbacks[0].at("from_step"), 5);
  EXPECT_THAT(outcome.err, HasSubstr("the training goes on from step 5 without plugin cheats "
                                     "(cheats.cheat honest → none): fake: " +
                                     std::string(kFound)));
  // The files and the history tell what was trained with.
  const std::string best = scene_.folder().read("out/best.yaml");
  EXPECT_THAT(best, Not(HasSubstr("cheats.cheat: honest")));
  EXPECT_THAT(best, HasSubstr("Warning: the training went on"));
  EXPECT_EQ(Json::parse(scene_.folder().read("out/summary.json")).at("training").at("fallbacks"),
            fallbacks);
  for (const char* const command : {"show", "explain"}) {
    EXPECT_THAT(scene_.command({command, "last"}).out,
                HasSubstr("the training went on from step 5 without plugin cheats (cheats.cheat "
                          "honest → none), which is not tried again"))
        << command;
  }

  // Neither does the next run take it.
  scene_.fake().forget_requests();
  const Outcome next = ended(0, run());
  EXPECT_NE(next.json().at("run"), run_once.at("run"));
  EXPECT_THAT(next.err, HasSubstr("cheats.cheat=honest is not tried again"));
  EXPECT_THAT(next.json().at("trials").dump(), Not(HasSubstr("honest")));
  EXPECT_EQ(trained_with(), std::vector<std::string>{"none"});
  EXPECT_FALSE(next.json().at("training").contains("fallbacks"));
}

// The model keeps steps that no comparison has seen.
TEST_F(CaughtExtension, ByAComparisonLeavesStepsInDoubtAndSaysWhich) {
  Json found = found_at(5);
  found["extension_fault"] = "trained_otherwise";
  behave({found});
  const Outcome outcome = ended(0, run());
  const std::string doubted =
      "; the steps up to 5 were trained with it and may be wrong, too: --without cheats with "
      "another --output trains them anew";
  EXPECT_THAT(outcome.err, HasSubstr(kFound + doubted));
  const Json training = outcome.json().at("training");
  EXPECT_EQ(training.at("fallbacks").at(0).at("fault"), "trained_otherwise");
  EXPECT_TRUE(training.at("check").at("passed").is_null());
  for (const char* const command : {"show", "explain"}) {
    EXPECT_THAT(scene_.command({command, "last"}).out,
                testing::AllOf(HasSubstr(kFound + doubted),
                               HasSubstr("whether the steps up to 5, with plugin cheats, were "
                                         "right")))
        << command;
  }
  // What it says is a way out, also while the run goes on.
  scene_.fake().forget_requests();
  const Outcome anew =
      ended(0, run({"--without", "cheats", "--output", (scene_.folder() / "anew").string()}));
  EXPECT_NE(anew.json().at("run"), outcome.json().at("run"));
  EXPECT_EQ(anew.json().at("training").at("resumed_from_step"), 0);
  EXPECT_FALSE(anew.json().at("training").contains("fallbacks"));
}

// Between its hooks, where nothing tells whose fault it is.
TEST_F(CaughtExtension, ThatIsOnlySuspectedIsLeftOutToo) {
  Json boo = found_at(5);
  boo["what"] = "boo in step 6, with plugin cheats on, which may be the cause";
  boo["extension_fault"] = "suspected";
  behave({boo});
  const Outcome outcome = ended(0, run());
  EXPECT_EQ(trained_with(), (std::vector<std::string>{"honest", "none"}));
  EXPECT_THAT(outcome.err, HasSubstr("the training goes on from step 5 without plugin cheats "
                                     "(cheats.cheat honest → none): fake: boo in step 6"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("may be wrong, too")));
  EXPECT_EQ(outcome.json().at("training").at("fallbacks").at(0).at("fault"), "suspected");
}

TEST_F(CaughtExtension, IsNotSuspectedAnyMoreWhereTheStepFailsWithoutItAsWell) {
  Json boo = found_at(5);
  boo["extension_fault"] = "suspected";
  Json own = found_at(5);
  own["what"] = "boo";
  own["extensions"] = Json::array();
  own["when"] = Json::array({std::string(kCheat) + "=none"});
  behave({boo, own});
  const Outcome outcome = ended(1, run());
  EXPECT_EQ(trained_with(), (std::vector<std::string>{"honest", "none"}));
  EXPECT_FALSE(outcome.json().at("training").contains("fallbacks"));
  EXPECT_THAT(outcome.err, HasSubstr("fake: boo; the same command continues run "));
  // Once more is enough to see that it would go on so without end.
  const Outcome again = ended(1, run());
  EXPECT_EQ(again.json().at("run"), outcome.json().at("run"));
  EXPECT_THAT(again.err, HasSubstr("fake: boo; run "));
  EXPECT_THAT(again.err, HasSubstr(" ended so the last time as well"));
  EXPECT_THAT(again.err, Not(HasSubstr("the same command continues run ")));
}

TEST_F(CaughtExtension, BeginsAnewWithoutACheckpoint) {
  behave({found_at(0)});
  const Outcome outcome = ended(0, run());
  EXPECT_THAT(outcome.err, HasSubstr("the training goes on from its start without plugin cheats"));
  const Json training = outcome.json().at("training");
  EXPECT_EQ(training.at("resumed_from_step"), 0);
  EXPECT_EQ(training.at("steps"), 10);
  EXPECT_EQ(training.at("fallbacks").at(0).at("from_step"), 0);
}

TEST_F(CaughtExtension, IsNotTakenAgainWhenTheRunIsContinued) {
  const Json full = {
      {"do", "error"}, {"kind", "disk_full"}, {"request", "train_step"}, {"step", 7}};
  behave({found_at(5), full});
  const Outcome outcome = ended(1, run());
  EXPECT_EQ(outcome.json().at("state"), "training");
  EXPECT_THAT(outcome.err, Not(HasSubstr("earlier in this run")));
  behave({found_at(5), found_at(7)});
  const Outcome again = ended(0, run());
  EXPECT_EQ(again.json().at("run"), outcome.json().at("run"));
  EXPECT_EQ(trained_with(), (std::vector<std::string>{"honest", "none", "none"}));
  EXPECT_EQ(again.json().at("training").at("fallbacks").size(), 1);
  EXPECT_EQ(again.json().at("training").at("steps"), 10);
}

// Who continues a run may have seen nothing of what an earlier process of it said.
TEST_F(CaughtExtension, IsToldOnceMoreWhenAnInterruptedRunIsContinued) {
  const Json interrupt = {
      {"do", "interrupt"}, {"request", "train_step"}, {"step", 7}, {"once", true}};
  behave({found_at(5), interrupt});
  const Outcome stopped = ended(130, run());
  EXPECT_EQ(stopped.json().at("training").at("stopped_at").at("steps"), 8);
  const std::string told =
      "the training went on from step 5 without plugin cheats (cheats.cheat honest → none), which "
      "is not tried again: ";
  const Outcome again = ended(0, scene_.command({"run", scene_.recipe().string(), "--plugin-dir",
                                                 (scene_.folder() / "plugins").string()}));
  const std::string warning = "warning: earlier in this run, " + told;
  EXPECT_THAT(again.err, HasSubstr(warning));
  EXPECT_EQ(again.err.find(warning), again.err.rfind(warning)) << again.err;
  EXPECT_THAT(again.out, HasSubstr("\nplugin   " + told));
  EXPECT_THAT(again.out, HasSubstr("measured with plugin cheats, which the training left out"));
}

// Its knob has its starting value: there is nothing to go back to, but a way out.
TEST_F(CaughtExtension, OfTheRecipeItselfEndsTheTrainingWithTheOptionAgainstIt) {
  const Outcome outcome = ended(1, run({"--budget", "0s", "-s", std::string(kCheat) + "=honest"}));
  EXPECT_THAT(outcome.err, HasSubstr(std::string(kFound) + "; leave it out: --without cheats"));
  EXPECT_EQ(trained_with(), std::vector<std::string>{"honest"});
  EXPECT_FALSE(outcome.json().at("training").contains("fallbacks"));
  // What the message says is a way out.
  scene_.fake().forget_requests();
  const Outcome without = ended(
      0, run({"--budget", "0s", "-s", std::string(kCheat) + "=honest", "--without", "cheats"}));
  EXPECT_EQ(without.json().at("run"), outcome.json().at("run"));
  EXPECT_THAT(without.err, HasSubstr("the start has cheats.cheat=honest, whose knob has "
                                     "gone with its plugin: the run goes on without it"));
  EXPECT_EQ(without.json().at("training").at("steps"), 10);
  ASSERT_EQ(scene_.fake().requests("train").size(), 1U);
  EXPECT_FALSE(scene_.fake().requests("train")[0].at("configuration").contains(kCheat));
}

TEST_F(CaughtExtension, OfTheRecipeMayBeLeftOutFromTheBeginning) {
  const Outcome outcome = ended(
      0, run({"--budget", "0s", "-s", std::string(kCheat) + "=honest", "--without", "cheats"}));
  EXPECT_THAT(outcome.err, HasSubstr("the start has cheats.cheat=honest, whose knob"));
  EXPECT_FALSE(outcome.json().at("starting").at("configuration").contains(kCheat));
}

// Nothing tells what ended the trainer; the last attempt is made without the extension.
TEST_F(CaughtExtension, ThatCrashesIsLeftOutBeforeTheLastAttempt) {
  behave({crash({std::string(kCheat) + "=honest"})});
  const Outcome outcome = ended(0, run());
  const Json run_once = outcome.json();
  EXPECT_EQ(trained_with(), (std::vector<std::string>{"honest", "honest", "none"}));
  EXPECT_EQ(run_once.at("training").at("steps"), 10);
  EXPECT_EQ(run_once.at("training").at("resumed_from_step"), 5);
  const Json fallbacks = run_once.at("training").at("fallbacks");
  ASSERT_EQ(fallbacks.size(), 1);
  EXPECT_EQ(fallbacks[0].at("extensions"), Json::array({"cheats"}));
  EXPECT_EQ(fallbacks[0].at("refused"), Json::object({{kCheat, "honest"}}));
  EXPECT_EQ(fallbacks[0].at("from_step"), 5);
  EXPECT_EQ(fallbacks[0].at("ends"), 2);
  EXPECT_THAT(outcome.err, HasSubstr("the training goes on from step 5 without plugin cheats "
                                     "(cheats.cheat honest → none): "));
  EXPECT_THAT(outcome.err, HasSubstr("the trainer ended 2 times in the training with plugin "
                                     "cheats, which may be the cause; the last time by signal 6"));
  for (const char* const command : {"show", "explain"})
    EXPECT_THAT(scene_.command({command, "last"}).out, HasSubstr("ended 2 times")) << command;

  const Outcome next = ended(0, run());
  EXPECT_NE(next.json().at("run"), run_once.at("run"));
  EXPECT_THAT(next.err, HasSubstr("cheats.cheat=honest is not tried again"));
  EXPECT_FALSE(next.json().at("training").contains("fallbacks"));
}

TEST_F(CaughtExtension, IsNotBlamedForACrashThatComesWithoutItAsWell) {
  behave({crash({})});
  const Outcome outcome = ended(1, run());
  EXPECT_EQ(trained_with(), (std::vector<std::string>{"honest", "honest", "none"}));
  EXPECT_FALSE(outcome.json().at("training").contains("fallbacks"));
  EXPECT_THAT(outcome.err, HasSubstr("; the same command continues run "));
  EXPECT_THAT(outcome.err, Not(HasSubstr("--without")));
  behave({});
  scene_.fake().forget_requests();
  const Outcome again = ended(0, run());
  EXPECT_EQ(again.json().at("run"), outcome.json().at("run"));
  EXPECT_EQ(trained_with(), std::vector<std::string>{"honest"});
  EXPECT_FALSE(again.json().at("training").contains("fallbacks"));
}

TEST_F(CaughtExtension, OfTheRecipeThatCrashesIsNamedWithTheOptionAgainstIt) {
  behave({crash({std::string(kCheat) + "=honest"})});
  const Outcome outcome = ended(1, run({"--budget", "0s", "-s", std::string(kCheat) + "=honest"}));
  EXPECT_EQ(trained_with(), (std::vector<std::string>{"honest", "honest", "honest"}));
  EXPECT_THAT(outcome.err, HasSubstr("the trainer ended 3 times in the training with plugin "
                                     "cheats, which may be the cause: "));
  EXPECT_THAT(outcome.err,
              HasSubstr("; leave it out: --without cheats; the same command continues run "));
}

// Before the batches become smaller.
TEST_F(CaughtExtension, ThatLacksMemoryIsLeftOutFirst) {
  Json full = found_at(5);
  full["kind"] = "out_of_memory";
  full["what"] = "plugin cheats: on_batch: no memory left";
  behave({full});
  const Outcome outcome = ended(0, run());
  EXPECT_EQ(trained_with(), (std::vector<std::string>{"honest", "none"}));
  EXPECT_THAT(outcome.err, HasSubstr("the training goes on from step 5 without plugin cheats "
                                     "(cheats.cheat honest → none): fake: plugin cheats: "
                                     "on_batch: no memory left"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("the training ran out of memory")));
}

}  // namespace
}  // namespace autotuned
