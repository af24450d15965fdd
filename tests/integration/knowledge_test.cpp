// SPDX-License-Identifier: Apache-2.0
// What a run that had too little leaves of what is known, and what is said of that before anything starts.
#include <gmock/gmock.h>

#include <cstdint>
#include <filesystem>

#include "storage/history.hpp"
#include "tests/integration/told.hpp"

namespace autotuned {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> trials_of(const Outcome& outcome) {
  std::vector<std::string> told;
  const Json run = outcome.json();
  for (const Json& trial : run.at("trials"))
    told.push_back(trial.at("kind").get<std::string>() + " " +
                   trial.at("plugin").get<std::string>());
  return told;
}

Json best_of(const Scene& scene) {
  return scene.command({"best", scene.recipe().string(), "--json"}).json();
}

// The second run has time for a few pairs, which noise hides.
TEST(Knowledge, StaysWhereTheNextRunHasNoTimeToVerifyIt) {
  Json behaviour = Scene::fast_job();
  const Scene scene(behaviour);
  scene.write_recipe("  plugins: [set_to_none]\n");
  ASSERT_EQ(scene.run().code, 0);
  const Json best = best_of(scene);
  ASSERT_GT(best.at("speedup"), 1.2) << best.dump();

  scene.fake().behave({{"noise", 0.5}});
  const Outcome cut = ended(0, scene.run({"--budget", "1ms"}));
  Told(scene, "knowledge").lines("no time", cut.err, "it stays stored");
  EXPECT_EQ(cut.json().at("best").at("speedup"), 1.0);
  EXPECT_EQ(best_of(scene), best);

  scene.fake().behave(behaviour);
  EXPECT_THAT(trials_of(scene.run()), ElementsAre("verification autotuned"));
}

TEST(Knowledge, OfAPluginThatWasLeftOutIsSearchedForLater) {
  const Scene scene;
  const std::vector<std::string> without = {"--without", "set_to_none"};
  ASSERT_EQ(scene.run(without).code, 0);
  EXPECT_THAT(trials_of(scene.run(without)), ElementsAre("verification autotuned"));
  const Outcome whole = scene.run();
  Told(scene, "knowledge").lines("a plugin is back", whole.err, "had no answer of these plugins");
  EXPECT_THAT(trials_of(whole), ElementsAre("verification autotuned", "proposal set_to_none",
                                            "confirmation autotuned"));
  EXPECT_NEAR(whole.json().at("best").at("speedup").get<double>(), 1.56, 0.03);
  EXPECT_THAT(trials_of(scene.run()), ElementsAre("verification autotuned"));
}

// A job of a model with so many bytes of parameters.
Json job_with_model_of(std::int64_t bytes) {
  Json behaviour = Scene::fast_job();
  behaviour["parameter_bytes"] = bytes;
  return behaviour;
}

TEST(Shortage, AModelThatDoesNotFitIsSaidBeforeTheTuning) {
  const Scene scene(job_with_model_of(std::int64_t{1} << 55));
  const Outcome checked = ended(2, scene.command({"check", scene.recipe().string()}));
  const Outcome run = ended(1, scene.run());
  for (const std::string& text : {checked.err, run.err})
    EXPECT_THAT(text, HasSubstr("the model takes 32.0 PiB: it cannot be written"));
  EXPECT_TRUE(scene.fake().requests("run").empty()) << "nothing was measured";
  EXPECT_EQ(scene.run({"--tune-only"}).code, 0) << "which writes no model";
}

TEST(Shortage, CheckpointsThatMayNotFitAreAWarning) {
  const Scene scene;
  const auto free =
      static_cast<std::int64_t>(std::filesystem::space(scene.folder().path()).available);
  scene.fake().behave(job_with_model_of(free / 2));
  for (const Outcome& outcome : {scene.command({"check", scene.recipe().string()}), scene.run()}) {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, testing::ContainsRegex("of the disk are free, and the training may "
                                                    "need .*two checkpoints of "));
  }
}

TEST(Shortage, ABudgetForNoTrialIsSaidByCheck) {
  const Scene scene;
  scene.write_recipe("  plugins: [set_to_none]\n  budget: 1s\n");
  const Json checked = result_of(scene.command({"check", scene.recipe().string(), "--json"}));
  Told(scene, "knowledge").lines("a note", checked.at("notes").dump(1), "tune.budget");
}

TEST(Shortage, ABudgetForNoTrialIsNotSpentAndLosesNothing) {
  const Scene scene;
  scene.write_recipe("  plugins: [set_to_none]\n  budget: 1s\n");
  const char* const told =
      "tune.budget 1.0 s is too small for one trial here: at least 5.4 s are needed, more where "
      "steps are slow";
  const Outcome cut = ended(0, scene.run());
  Told view(scene, "knowledge");
  view.lines("the run: once", cut.err, told);
  EXPECT_GT(cut.json().at("training").at("steps"), 0);
  for (const char* request : {"run", "profile", "trace", "compare"})
    EXPECT_TRUE(scene.fake().requests(request).empty()) << request;
  view.lines("show", scene.command({"show", "last"}).out, told);
  const std::string explained = scene.command({"explain", "last"}).out;
  view.lines("explain", explained, "too small for");
  EXPECT_THAT(explained, testing::Not(HasSubstr("knows that")));

  const Outcome tuned = ended(0, scene.run({"--budget", "1min"}));
  EXPECT_THAT(trials_of(tuned), ElementsAre("proposal set_to_none", "confirmation autotuned"));
  const Json best = best_of(scene);
  view.ends(0, "another search", scene.run({"--retune", "--tune-only"}), told);
  EXPECT_EQ(best_of(scene), best) << "a search that had no time forgets nothing";
  view.lines("show the other search", scene.command({"show", "last"}).out, told);
}

TEST(Shortage, IsStillKnownWhereAnotherProcessTrains) {
  const Scene scene{Scene::fast_job({{"request", "train"}, {"do", "interrupt"}, {"once", true}})};
  EXPECT_EQ(scene.run({"--budget", "1s"}).code, 130);
  expect_code(0, scene.run({"--budget", "1s"}));
  EXPECT_EQ(scene.runs().size(), 1);
  Told(scene, "knowledge").lines("show", scene.command({"show", "last"}).out, "tuning   ");
}

TEST(Shortage, WhatWasNotTriedIsStillKnownWhereAnotherProcessTrains) {
  Json job = Scene::fast_job(
      {{"do", "interrupt"}, {"request", "train_step"}, {"step", 4}, {"once", true}});
  job["factors"]["optimizer.set_to_none=on"] = 0.5;  // nothing is kept
  const Scene scene{job};
  scene.write_recipe("  plugins: [set_to_none]\n");
  const Json stopped = result_of(scene.run(), 130);
  EXPECT_TRUE(stopped.at("training").contains("budget_ns")) << stopped.at("training");
  EXPECT_TRUE(stopped.at("training").at("untried").is_array());
  // As if its time had ended before another proposal.
  const Json untried = Json::array({Json{{"plugin", "memory_malloc"}, {"change", "keep memory"}}});
  {
    auto history = storage::History::open(scene.history(), storage::Access::read_write).value();
    storage::RunRow run = history.run("last").value();
    run.training["untried"] = untried;
    run.training["tuning_other_work_ratio"] = 0.25;
    ASSERT_TRUE(history.update_run(run));
  }
  const Outcome outcome = ended(0, scene.command({"run", scene.recipe().string()}));
  EXPECT_EQ(scene.runs().size(), 1);
  EXPECT_THAT(outcome.out,
              HasSubstr("\nopen     1 proposal not tried in this run: memory_malloc\n"));
  const Json training = scene.command({"show", "last", "--json"}).json().at("training");
  EXPECT_EQ(training.at("steps"), 10);
  EXPECT_EQ(training.at("untried"), untried);
  EXPECT_EQ(training.at("tuning_other_work_ratio"), 0.25);
  EXPECT_EQ(training.at("budget_ns"), stopped.at("training").at("budget_ns"));
  EXPECT_THAT(scene.command({"explain", "last"}).out, HasSubstr("not tried: keep memory"));
  EXPECT_THAT(scene.folder().read("out/best.yaml"), HasSubstr("within the budget"));
}

}  // namespace
}  // namespace autotuned
