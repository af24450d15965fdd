// SPDX-License-Identifier: Apache-2.0
// What a run that had too little leaves of what is known, and what is said of that before anything starts.
#include <gmock/gmock.h>

#include <cstdint>
#include <filesystem>

#include "tests/integration/scene.hpp"

namespace autotuned {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

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
  const Outcome cut = scene.run({"--budget", "1ms"});
  ASSERT_EQ(cut.code, 0) << cut.err;
  EXPECT_THAT(cut.err, HasSubstr(" found is still faster here: it stays known"));
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
  EXPECT_THAT(whole.err, HasSubstr("had no answer of these plugins as they are now: set_to_none"));
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
  const auto told = AllOf(HasSubstr("the model takes 32.0 PiB: it cannot be written"),
                          HasSubstr((scene.folder() / "out").string()), HasSubstr("--output"));
  const Outcome checked = scene.command({"check", scene.recipe().string()});
  EXPECT_EQ(checked.code, 2);
  EXPECT_THAT(checked.err, AllOf(told, HasSubstr("recipe.yaml:"), HasSubstr(" output.dir: ")));
  const Outcome run = scene.run();
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, told);
  EXPECT_TRUE(scene.fake().requests("run").empty()) << "nothing was measured";
  EXPECT_EQ(scene.run({"--tune-only"}).code, 0) << "which writes no model";
}

TEST(Shortage, CheckpointsThatMayNotFitAreAWarning) {
  const Scene scene;
  const auto free =
      static_cast<std::int64_t>(std::filesystem::space(scene.folder().path()).available);
  scene.fake().behave(job_with_model_of(free / 2));
  const auto told = AllOf(HasSubstr("of the disk are free, and the training may need "),
                          HasSubstr("two checkpoints of "), Not(HasSubstr("cannot be written")));
  const Outcome checked = scene.command({"check", scene.recipe().string()});
  EXPECT_EQ(checked.code, 0);
  EXPECT_THAT(checked.err, told);
  const Outcome run = scene.run();
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.err, told);
}

TEST(Shortage, ABudgetForNoTrialIsSaidByCheck) {
  const Scene scene;
  scene.write_recipe("  plugins: [set_to_none]\n  budget: 1s\n");
  const Outcome checked = scene.command({"check", scene.recipe().string(), "--json"});
  EXPECT_EQ(checked.code, 0);
  EXPECT_THAT(checked.json().at("notes").dump(),
              HasSubstr("tune.budget 1.0 s is too small for one trial here: at least 5.4 s"));
}

TEST(Shortage, ABudgetForNoTrialIsNotSpentAndLosesNothing) {
  const Scene scene;
  scene.write_recipe("  plugins: [set_to_none]\n  budget: 1s\n");
  const char* const told =
      "tune.budget 1.0 s is too small for one trial here: at least 5.4 s are needed, more where "
      "steps are slow";
  const Outcome cut = scene.run();
  ASSERT_EQ(cut.code, 0) << cut.err;
  EXPECT_THAT(cut.err, HasSubstr(std::string("tuned      nothing: ") + told));
  EXPECT_EQ(cut.err.find(told), cut.err.rfind(told)) << "it is told once";
  EXPECT_GT(cut.json().at("training").at("steps"), 0);
  for (const char* request : {"run", "profile", "trace", "compare"})
    EXPECT_TRUE(scene.fake().requests(request).empty()) << request;
  EXPECT_THAT(scene.command({"show", "last"}).out,
              HasSubstr(std::string("tuning   none, since ") + told));
  EXPECT_THAT(
      scene.command({"explain", "last"}).out,
      AllOf(HasSubstr(std::string("nothing new was tried: ") + told),
            HasSubstr("its budget was too small for a trial"), Not(HasSubstr("knows that"))));

  const Outcome tuned = scene.run({"--budget", "1min"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_THAT(trials_of(tuned), ElementsAre("proposal set_to_none", "confirmation autotuned"));
  const Json best = best_of(scene);
  const Outcome again = scene.run({"--retune", "--tune-only"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr(told));
  EXPECT_EQ(best_of(scene), best) << "a search that had no time forgets nothing";
  EXPECT_THAT(scene.command({"show", "last"}).out, HasSubstr(told));
}

TEST(Shortage, IsStillKnownWhereAnotherProcessTrains) {
  Json behaviour = Scene::fast_job();
  behaviour["faults"] = {{{"request", "train"}, {"do", "interrupt"}, {"once", true}}};
  const Scene scene(behaviour);
  EXPECT_EQ(scene.run({"--budget", "1s"}).code, 130);
  const Outcome again = scene.run({"--budget", "1s"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(scene.runs().size(), 1);
  EXPECT_THAT(scene.command({"show", "last"}).out,
              HasSubstr("tuning   none, since --budget 1.0 s is too small for one trial"));
}

}  // namespace
}  // namespace autotuned
