// SPDX-License-Identifier: Apache-2.0
// What `run` promises: the JSON, the exit codes, the options, what a second run does.
#include <gmock/gmock.h>

#include "base/file.hpp"
#include "tests/integration/told.hpp"
#include "tests/places.hpp"

namespace autotuned {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> kinds_of(const Json& run) {
  std::vector<std::string> kinds;
  for (const Json& trial : run.at("trials"))
    kinds.push_back(trial.at("kind"));
  return kinds;
}

TEST(Run, TunesTrainsAndReports) {
  const Scene scene;
  const Json run = result_of(scene.run());

  EXPECT_THAT(run.at("run").get<std::string>(), testing::StartsWith("r-"));
  EXPECT_EQ(run.at("recipe"), "small");
  EXPECT_EQ(run.at("state"), "finished");
  EXPECT_NEAR(run.at("baseline").at("samples_per_second").get<double>(), 1000, 30);
  const Json& best = run.at("best");
  EXPECT_NEAR(best.at("samples_per_second").get<double>(), 1560, 50);
  EXPECT_NEAR(best.at("speedup").get<double>(), 1.56, 0.03);
  EXPECT_LE(best.at("speedup_low"), best.at("speedup"));
  EXPECT_GE(best.at("speedup_high"), best.at("speedup"));
  EXPECT_GT(best.at("speedup_low"), 1.0);
  EXPECT_EQ(best.at("configuration").at("optimizer.set_to_none"), true);
  EXPECT_EQ(best.at("configuration").at("memory.malloc"), "keep");
  EXPECT_EQ(best.at("configuration").at("batch_size"), 8);
  EXPECT_NEAR(run.at("ceiling").at("samples_per_second").get<double>(), 4 * 1560, 300);
  EXPECT_EQ(run.at("ceiling").at("bound_by"), "compute");
  EXPECT_GT(run.at("tuning_seconds"), 0.0);
  EXPECT_EQ(run.at("training").at("steps"), 10);
  EXPECT_EQ(run.at("training").at("final_loss"), 0.5);
  EXPECT_EQ(run.at("training").at("test_accuracy"), 0.75);
  // The check of the trained model passes.
  EXPECT_EQ(run.at("training").at("check").at("passed"), true) << run.at("training").dump();
  EXPECT_THAT(scene.folder().read("out/best.yaml"), Not(HasSubstr("Warning")));

  ASSERT_THAT(kinds_of(run), ElementsAre("proposal", "proposal", "confirmation"));
  int number = 0;
  for (const Json& trial : run.at("trials")) {
    EXPECT_EQ(trial.at("id"), run.at("run").get<std::string>() + "." + std::to_string(++number));
    EXPECT_EQ(trial.at("verdict"), "accepted");
    EXPECT_LE(trial.at("ratio_low"), trial.at("ratio"));
    EXPECT_GE(trial.at("ratio_high"), trial.at("ratio"));
    EXPECT_NE(trial.at("reason"), "");
    EXPECT_FALSE(trial.at("change").empty());
    EXPECT_NE(trial.at("plugin"), "");
  }
  EXPECT_EQ(scene.folder().read("out/model.pt"), "trained for 10 steps\n");
  EXPECT_EQ(Json::parse(scene.folder().read("out/summary.json")), run);
  EXPECT_TRUE(scene.all_ended());
}

TEST(Run, SaysOnStandardErrorWhatHappens) {
  const Scene scene;
  const Outcome outcome = ended(0, scene.command({"run", scene.recipe().string()}));
  for (const char* line :
       {"start      ", "tuned      1.5", "accepted   set_to_none: optimizer.set_to_none off → on"})
    EXPECT_THAT(outcome.err, HasSubstr(line));
  EXPECT_THAT(outcome.out, HasSubstr("trained  10 steps, loss 0.5000, test accuracy 75.00 %"));
}

TEST(Run, WarnsOfATrainingThatIsMuchSlowerThanWhatWasKept) {
  Json behaviour = Scene::fast_job();
  behaviour["training_ns"] = 2e10;
  const Scene scene{behaviour};
  const Outcome outcome = ended(0, scene.run());
  const Json training = outcome.json().at("training");
  const double busier =
      training.value("other_work_ratio", 0.0) - training.value("tuning_other_work_ratio", 1.0);
  if (busier >= 0.05) GTEST_SKIP() << "other work may have made it slow";
  EXPECT_THAT(outcome.err, HasSubstr("warning: the training reached 4 samples/s, 0 % of the "));
  EXPECT_THAT(outcome.err, HasSubstr("optimizer.set_to_none off → on: a change may be slower"));
}

TEST(Run, SecondRunVerifiesWhatIsKnown) {
  const Scene scene;
  ASSERT_EQ(scene.run().code, 0);
  const Json second = result_of(scene.run());
  EXPECT_THAT(kinds_of(second), ElementsAre("verification"));
  EXPECT_NEAR(second.at("best").at("speedup").get<double>(), 1.56, 0.03);
  EXPECT_EQ(second.at("training").at("steps"), 10);

  const Outcome searched = scene.run({"--retune"});
  EXPECT_THAT(kinds_of(searched.json()), ElementsAre("proposal", "proposal", "confirmation"));
  EXPECT_EQ(scene.runs().size(), 3);
}

TEST(Run, RemembersThatNothingIsFaster) {
  const Scene scene{Json::object()};
  const Json first = scene.run().json();
  EXPECT_EQ(first.at("best").at("speedup"), 1.0);
  EXPECT_THAT(kinds_of(first), ElementsAre("proposal", "proposal"));
  EXPECT_EQ(trials_with(first, "rejected").size(), 2);
  const std::string told = "the search of run " + first.at("run").get<std::string>() +
                           " is taken; --retune searches again";
  for (const char* options : {"--tune-only", "--verbose"}) {
    const Outcome later = ended(0, scene.run({options}));
    EXPECT_TRUE(later.json().at("trials").empty());
    EXPECT_THAT(later.err, HasSubstr(told)) << options;
    EXPECT_THAT(scene.command({"show", "last"}).out, HasSubstr("search   " + told)) << options;
    EXPECT_THAT(scene.command({"explain", "last"}).out, HasSubstr("searched: " + told)) << options;
  }
}

TEST(Run, KnownBestThatNoLongerHoldsIsSearchedAnew) {
  const Scene scene;
  ASSERT_EQ(scene.run().code, 0);
  scene.fake().behave(
      {{"factors", {{"memory.malloc=keep", 1.4}, {"optimizer.set_to_none=on", 0.5}}}});
  const Json second = scene.run().json();
  EXPECT_EQ(second.at("trials").at(0).at("kind"), "verification");
  EXPECT_EQ(second.at("trials").at(0).at("verdict"), "rejected");
  EXPECT_NEAR(second.at("best").at("speedup").get<double>(), 1.4, 0.03);
  EXPECT_EQ(second.at("best").at("configuration").at("optimizer.set_to_none"), false);
}

TEST(Run, TuneOnlyDoesNotTrain) {
  const Scene scene;
  const Json outcome = result_of(scene.run({"--tune-only"}));
  EXPECT_FALSE(outcome.at("training").contains("steps"));
  EXPECT_TRUE(outcome.at("training").at("untried").is_array());
  EXPECT_TRUE(scene.fake().requests("train").empty());
  EXPECT_TRUE(std::filesystem::exists(scene.folder() / "out/best.yaml"));
  EXPECT_FALSE(std::filesystem::exists(scene.folder() / "out/model.pt"));
}

TEST(Run, StartsFromSettings) {
  const Scene scene;
  const Json run = scene.run({"-s", "optimizer.set_to_none=on", "--tune-only"}).json();
  EXPECT_EQ(run.at("starting").at("configuration").at("optimizer.set_to_none"), true);
  EXPECT_NEAR(run.at("best").at("speedup").get<double>(), 1.2, 0.03);
}

TEST(Run, LeavesPluginsOut) {
  const Scene scene;
  const Json run = scene.run({"--without", "set_to_none"}).json();
  ASSERT_THAT(kinds_of(run), ElementsAre("proposal", "confirmation"));
  EXPECT_EQ(run.at("trials").at(0).at("plugin"), "memory_malloc");
}

TEST(Run, SwitchesLiveWhereItCan) {
  const Scene scene;
  const Json run = scene.run({"--tune-only", "--without", "memory_malloc"}).json();
  ASSERT_EQ(trials_with(run, "accepted").size(), 2);
  EXPECT_EQ(scene.fake().requests("trace").size(), 2);
  EXPECT_EQ(scene.fake().requests("hello").size(), 3) << "one for trials, and two that recorded";
  // Both switch live, over five pairs at least, once a pair at least.
  EXPECT_GE(scene.fake().requests("prepare").size(), 10);
}

TEST(Run, RestartsWhereItMustAndOnlyThere) {
  const Scene scene;
  const Json run = scene.run({"--tune-only"}).json();
  ASSERT_EQ(trials_with(run, "accepted").size(), 3);
  EXPECT_EQ(scene.fake().requests("trace").size(), 2);
  const auto hellos = scene.fake().requests("hello");
  // The trial of what switches live has one process, and so has the first look at what needs a restart. That trial
  // and its confirmation take seven pairs of fresh processes each, at least. Two more record.
  EXPECT_GE(hellos.size(), 1 + 1 + 2 * 2 * 7 + 2);
  const auto switches = scene.fake().requests("prepare");
  EXPECT_GE(switches.size(), 5);
  for (const Json& live : switches)
    EXPECT_EQ(live.at("trainer"), hellos.at(0).at("trainer"));
}

// A GPU's trace, as a trainer with CUPTI writes it.
TEST(Run, RecordsStepsThatPluginsAndPeopleReadAbout) {
  Json behaviour = Scene::fast_job();
  behaviour["trace"] = tests::source_folder() / "tests/profiler/data/rank0.pt.trace.json.gz";
  const Scene scene{behaviour};
  std::filesystem::create_directory(scene.folder() / "plugins");
  scene.folder().write("plugins/reads_signals.yaml",
                       "plugin: 1\n"
                       "name: reads_signals\n"
                       "version: \"1\"\n"
                       "summary: Goes by a signal of a trace.\n"
                       "when:\n"
                       "  - copies.pageable_ratio > 0%: there are no copies\n"
                       "try:\n"
                       "  - optimizer.set_to_none: on\n"
                       "expect: 1.3\n"
                       "reason: copies take {copies.pageable_ratio} of the step\n");
  scene.write_recipe("  plugins: [reads_signals]\n");
  const Outcome outcome =
      ended(0, scene.run({"--tune-only", "--plugin-dir", (scene.folder() / "plugins").string()}));
  const Json run = outcome.json();
  ASSERT_THAT(kinds_of(run), ElementsAre("proposal", "confirmation"));
  EXPECT_THAT(run.at("trials").at(0).at("proposal_reason").get<std::string>(),
              testing::MatchesRegex("copies take [0-9.]+ % of the step"));
  const auto ids = [](const Json& findings) {
    std::vector<std::string> found;
    for (const Json& finding : findings)
      found.push_back(finding.at("id"));
    return found;
  };
  EXPECT_THAT(ids(run.at("starting").at("findings")), testing::Contains("pageable_copies"));
  EXPECT_THAT(ids(run.at("best").at("findings")), testing::Contains("pageable_copies"));
  EXPECT_EQ(scene.last_run(), run);
  EXPECT_THAT(outcome.err, HasSubstr("\nfound      "));
  const Json story = scene.command({"explain", "last", "--json"}).json();
  for (const char* when : {"start", "best"}) {
    const Json& profile = story.at(when).at("profile");
    EXPECT_THAT(ids(profile.at("findings")), testing::Contains("pageable_copies")) << when;
    EXPECT_GT(profile.at("metrics").at("copies.pageable_ratio"), 0.0) << when;
  }

  const auto traces = scene.fake().requests("trace");
  ASSERT_EQ(traces.size(), 2U);
  for (const Json& trace : traces) {
    for (const char* timed : {"run", "steps", "profile", "train"}) {
      for (const Json& request : scene.fake().requests(timed))
        EXPECT_NE(request.at("trainer"), trace.at("trainer")) << timed;
    }
  }
  EXPECT_TRUE(scene.all_ended());
}

TEST(Run, TraceThatFailsIsAWarning) {
  const Scene scene{Scene::fast_job({{"do", "abort"}, {"request", "trace"}})};
  const Outcome outcome = ended(0, scene.run());
  EXPECT_NEAR(outcome.json().at("best").at("speedup").get<double>(), 1.56, 0.03);
  EXPECT_TRUE(outcome.json().at("starting").at("findings").empty());
  Told(scene, "run").lines("the run", outcome.err, "warning: no steps could be recorded");
}

TEST(Run, ChangedModelIsRejectedHoweverFast) {
  Json behaviour = Scene::fast_job();
  behaviour["not_equal"] = {"optimizer.set_to_none=on"};
  const Scene scene{behaviour};
  const Json run = scene.run({"--tune-only"}).json();
  const auto rejected = trials_with(run, "rejected");
  ASSERT_EQ(rejected.size(), 1);
  EXPECT_EQ(rejected[0].at("plugin"), "set_to_none");
  EXPECT_THAT(rejected[0].at("reason").get<std::string>(), HasSubstr("not train the same model"));
  EXPECT_NEAR(run.at("best").at("speedup").get<double>(), 1.2, 0.03);
}

TEST(Run, RequireGainTellsByExitCode) {
  const Scene fast;
  EXPECT_EQ(fast.run({"--require-gain"}).code, 0);
  const Scene even{Json::object()};
  EXPECT_EQ(even.run({"--require-gain"}).code, 3);
}

TEST(Run, NoCommandSaysWhatToTypeNext) {
  const Scene scene;
  const Outcome outcome = ended(0, scene.command({}));
  EXPECT_THAT(outcome.out, HasSubstr("\nnext     autotuned "));
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(scene.fake().requests().empty());
}

// It trains what the recipe says, and leaves what is known of the job alone.
TEST(Run, WithoutABudgetItOnlyTrains) {
  const Scene scene;
  ASSERT_EQ(scene.run({"--tune-only"}).code, 0);
  const Json best = scene.command({"best", scene.recipe().string(), "--json"}).json();
  scene.fake().forget_requests();
  const Outcome outcome = ended(0, scene.run({"--budget", "0s"}));
  Told told(scene, "run");
  told.lines("the run", outcome.err, "tuned      ");
  told.lines("the run", outcome.err, "found a faster configuration");
  EXPECT_THAT(outcome.err, Not(HasSubstr("1.00 x")));
  EXPECT_THAT(outcome.err, Not(HasSubstr("during the measurement"))) << "nothing was measured";
  const Json run = outcome.json();
  EXPECT_FALSE(run.at("training").contains("tuning_other_work_ratio"));
  EXPECT_TRUE(run.at("trials").empty());
  EXPECT_EQ(run.at("tuning_seconds"), 0.0);
  EXPECT_EQ(run.at("best").at("configuration"), run.at("starting").at("configuration"));
  EXPECT_GT(run.at("training").at("steps"), 0);
  for (const char* request : {"run", "profile", "trace", "compare"})
    EXPECT_TRUE(scene.fake().requests(request).empty()) << request;
  EXPECT_EQ(scene.command({"best", scene.recipe().string(), "--json"}).json(), best);
  EXPECT_EQ(scene.run({"--budget", "0s", "--retune", "--require-gain"}).code, 3);
}

TEST(Run, WhatTheBudgetDidNotSufficeForIsToldAfterwards) {
  const Scene scene;
  ASSERT_EQ(scene.run({"--budget", "1ms"}).code, 0);
  Told told(scene, "run");
  told.lines("explain", scene.command({"explain", "last"}).out, "nothing new was tried");
  told.lines("best.yaml", scene.folder().read("out/best.yaml"), "within the budget");
  // The option was for that run: the recipe's own budget stays.
  const auto budget_in = [&scene](const std::string& file) {
    const std::string path = scene.folder() / file;
    return scene.command({"check", path, "--json"}).json().at("recipe").at("tune").at("budget_ns");
  };
  EXPECT_EQ(budget_in("out/best.yaml"), budget_in("recipe.yaml"));
}

TEST(Run, UsageErrorsExitWith2) {
  const Scene scene;
  Told told(scene, "run");
  told.ends(2, "no recipe", scene.command({"run"}));
  told.ends(2, "no such command", scene.command({"rnu"}));
  told.ends(2, "a budget of no time", scene.run({"--budget", "soon"}));
  told.ends(2, "a limit of no time", scene.run({"--block-limit", "0s"}));
  told.ends(2, "no such knob", scene.run({"-s", "loader.wrokers=2"}));
  told.ends(2, "no such value", scene.run({"-s", "loader.prefetch_batches=many"}));
  EXPECT_TRUE(scene.fake().requests().empty());
}

TEST(Run, EveryMistakeOfARecipeIsReportedAtOnce) {
  const Scene scene;
  scene.folder().write("recipe.yaml",
                       "autotuned: 1\n"
                       "name: small\n"
                       "model: {type: mpl, classes: 4}\n"
                       "data: {type: synthetic, samples: -1, shape: [1, 8, 8], classes: 4}\n"
                       "optimizer: {type: sgd, lr: fast}\n"
                       "train: {epochs: 1, batch_size: 8}\n"
                       "tuen: {}\n");
  const Outcome outcome = scene.command({"run", scene.recipe().string()});
  Told(scene, "run").ends(2, "the recipe", outcome);
  EXPECT_EQ(outcome.out, "");
  const Json listed = scene.run().json();
  EXPECT_EQ(listed.at("ok"), false);
  EXPECT_EQ(listed.at("diagnostics").size(), 4);
}

TEST(Run, TrainerThatIsMissingIsNamed) {
  Scene scene;
  scene.set("AUTOTUNED_TRAINER=/nowhere/trainer");
  const Outcome outcome = scene.run();
  Told told(scene, "run");
  told.ends(1, "the run", outcome);
  told.add("its JSON", outcome.json().at("error"));
}

TEST(Run, OutputFolderThatCannotBeMadeIsNamed) {
  const Scene scene;
  scene.folder().write("out", "a file");
  expect_output_folder_refused(scene, "run");
}

TEST(Run, SecondRunOnTheSameDeviceWaits) {
  RunsOnOneDevice runs;
  EXPECT_TRUE(runs.second.fake().requests().empty());
  const Descriptor gate = runs.first.fake().open_gate();
  EXPECT_EQ(runs.holder->finish().code, 0);
  const Json outcome = result_of(runs.waiter->finish());
  EXPECT_NEAR(outcome.at("best").at("speedup").get<double>(), 1.56, 0.03);
}

// A part of a GPU, which is in no list of GPUs: the first start tells, and the run goes on with the right lock.
TEST(Run, LocksTheDeviceOnWhichItsTrainerIs) {
  const std::string uuid = "5eed5eed-0000-4000-8000-000000000001";
  const std::string name = "device-MIG-" + uuid + ".lock";
  Json behaviour = Scene::fast_job();
  behaviour["device"] = "cuda:0";
  behaviour["uuids"] = Json::array({uuid});
  const Scene scene{behaviour};
  const std::filesystem::path locks = scene.folder() / "run";
  std::filesystem::create_directories(locks);
  std::filesystem::permissions(locks, std::filesystem::perms::owner_all);
  auto held = lock_file(locks / name, "somebody else", /*wait=*/false);
  ASSERT_TRUE(held);
  Running run =
      scene.start_run_until("waiting: the device MIG-" + uuid + ", held by somebody else");
  held->reset();
  const Json outcome = result_of(run.finish());
  // What set_to_none gives: memory_malloc, which gives 1.2 more, is for jobs on the CPU.
  EXPECT_NEAR(outcome.at("best").at("speedup").get<double>(), 1.3, 0.03);
  EXPECT_TRUE(scene.all_ended());
  std::filesystem::remove("/tmp/autotuned-" + name);  // that among users
}

// A change that trains the same until the end of the training, and not from there.
TEST(Run, AConfigurationThatFailsTheCheckAfterItsTrainingIsNotOfferedAgain) {
  Json behaviour = Scene::fast_job();
  behaviour["late_not_equal"] = Json::array({"optimizer.set_to_none=on"});
  const Scene scene(behaviour);
  scene.write_recipe("  plugins: [set_to_none]\n");
  const Outcome first = ended(0, scene.run());
  const Json check = first.json().at("training").at("check");
  EXPECT_EQ(check.at("passed"), false);
  EXPECT_EQ(check.at("risk"), "exact");
  EXPECT_EQ(check.at("refused"), Json::object({{"optimizer.set_to_none", true}}));
  EXPECT_EQ(first.json().at("state"), "finished");
  Told told(scene, "run");
  told.lines("the run", first.err, "warning: model.pt was trained");
  EXPECT_EQ(Json::parse(scene.folder().read("out/summary.json")), first.json());
  EXPECT_EQ(scene.folder().read("out/model.pt"), "trained for 10 steps\n");
  for (const char* command : {"show", "explain"})
    told.lines(command, scene.command({command, "last"}).out, "model.pt was trained");
  EXPECT_NE(scene.command({"best", scene.recipe().string()}).code, 0);

  const Outcome second = ended(0, scene.run());
  EXPECT_TRUE(kinds_of(second.json()).empty());
  told.lines("the next run", second.err, "is not tried again");
  EXPECT_EQ(second.json().at("best").at("configuration").at("optimizer.set_to_none"), false);
  EXPECT_FALSE(second.json().at("training").contains("check"));
  // Who wants it all the same searches anew.
  EXPECT_THAT(kinds_of(scene.run({"--retune"}).json()), ElementsAre("proposal", "confirmation"));
}

// The model is there, whatever becomes of the check. No trial of a knob that is switched live exports anything.
TEST(Run, AnInterruptedCheckAfterTheTrainingIsOnlyANote) {
  const Scene scene{Scene::fast_job({{"do", "interrupt"}, {"request", "export"}})};
  scene.write_recipe("  plugins: [set_to_none]\n");
  const Json run = result_of(scene.run());
  EXPECT_EQ(run.at("state"), "finished");
  EXPECT_TRUE(run.at("training").at("check").at("passed").is_null()) << run.at("training").dump();
  EXPECT_EQ(scene.folder().read("out/model.pt"), "trained for 10 steps\n");
  Told(scene, "run").lines("show", scene.command({"show", "last"}).out, "note     ");
  // It is not held against what was kept.
  EXPECT_EQ(scene.command({"best", scene.recipe().string()}).code, 0);
}

}  // namespace
}  // namespace autotuned
