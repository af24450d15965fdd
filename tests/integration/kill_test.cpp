// SPDX-License-Identifier: Apache-2.0
// Trainer, session or program are killed at one moment after another; the same command must end with the
// right result, and what had been acknowledged must be there, once and unchanged.
//
// Most moments are requests to the trainer and steps of training, which the fake counts; it does the
// killing itself. The last test kills whenever it likes.
#include <gmock/gmock.h>

#include <chrono>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "storage/history.hpp"
#include "tests/integration/moments.hpp"
#include "tests/integration/scene.hpp"

namespace autotuned {
namespace {

constexpr int kKilled = 128 + 9;

// Finished trials of all runs by id.
std::map<std::string, Json> finished_trials(const Scene& scene) {
  std::map<std::string, Json> trials;
  auto history = storage::History::open(scene.history(), storage::Access::read_only);
  if (!history) return trials;
  const auto runs = history->runs({});
  EXPECT_TRUE(runs);
  for (const auto& run : *runs) {
    const auto records = history->trials(run.id);
    EXPECT_TRUE(records);
    for (const TrialRecord& trial : *records) {
      if (trial.verdict == Verdict::running || trial.verdict == Verdict::interrupted) continue;
      const Json json = trial.to_json(run.id.text);
      trials[json.at("id")] = json;
    }
  }
  return trials;
}

// What was acknowledged before is there, once and unchanged.
void expect_kept(const std::map<std::string, Json>& before,
                 const std::map<std::string, Json>& after) {
  for (const auto& [number, trial] : before) {
    ASSERT_TRUE(after.contains(number));
    EXPECT_EQ(after.at(number), trial);
  }
}

void expect_right_result(const Scene& scene, const Outcome& outcome) {
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json run = outcome.json();
  EXPECT_EQ(run.at("state"), "finished");
  EXPECT_NEAR(run.at("best").at("speedup").get<double>(), 1.56, 0.03);
  EXPECT_EQ(run.at("best").at("configuration").at("optimizer.set_to_none"), true);
  EXPECT_EQ(run.at("best").at("configuration").at("memory.malloc"), "keep");
  EXPECT_EQ(run.at("training").at("steps"), 10);
  EXPECT_EQ(scene.folder().read("out/model.pt"), "trained for 10 steps\n");
  // Each proposal is decided once, whatever was interrupted; the last word is a confirmation.
  std::map<std::string, int> decided;
  for (const Json& trial : trials_with(run, "accepted")) {
    ++decided[trial.at("kind").get<std::string>() + trial.at("change").dump()];
  }
  for (const auto& [what, count] : decided)
    EXPECT_EQ(count, 1) << what;
  EXPECT_TRUE(trials_with(run, "running").empty());
  // What was killed after its end was stored is only verified.
  const bool is_verified = trials_with(run, "accepted").at(0).at("kind") == "verification";
  EXPECT_EQ(decided.size(), is_verified ? 1 : 3);
  EXPECT_TRUE(scene.all_ended());
  const auto history = storage::History::open(scene.history(), storage::Access::read_only);
  ASSERT_TRUE(history);
  EXPECT_EQ(history->check_integrity().map(&storage::Integrity::text).value_or("?"), "ok");
}

// In every phase of the tuning, and at each turn of training.
std::vector<Json> moments() {
  std::vector<Json> moments =
      moments_of_a_run({{Phase::trial, 1}, {Phase::processes, 4}, {Phase::confirmation, 3}});
  for (const char* request : {"profile", "compare", "train", "save"})
    moments.push_back({{"request", request}, {"once", true}});
  for (const int step : {0, 9})
    moments.push_back({{"request", "train_step"}, {"step", step}, {"once", true}});
  return moments;
}

// The number of the last request, as faults count them.
std::int64_t requests_of(const Scene& scene) {
  const std::vector<Json> requests = scene.fake().requests();
  return requests.empty() ? 0 : requests.back().at("line").get<std::int64_t>();
}

class Kill : public testing::TestWithParam<std::string> {};

TEST_P(Kill, AtAnyMomentCostsNothingThatWasAcknowledged) {
  std::set<Phase> reached;
  int never_came = 0;
  for (Json moment : moments()) {
    SCOPED_TRACE(GetParam() + " at " + moment.dump());
    moment["do"] = GetParam();
    const Scene scene{Scene::fast_job(moment)};
    Outcome outcome = scene.run();
    // How often a run asks depends on the time that the machine leaves it: the moment can lie behind its end.
    if (moment.contains("at") && requests_of(scene) < moment.at("at").get<std::int64_t>()) {
      ++never_came;
      expect_right_result(scene, outcome);
      if (testing::Test::HasFailure()) return;
      continue;
    }
    if (GetParam() == "kill_program") {
      ASSERT_EQ(outcome.code, kKilled) << outcome.err;
      ASSERT_TRUE(scene.all_ended());
      if (const auto phase = phase_of_last_run(scene)) reached.insert(*phase);
      const auto before = finished_trials(scene);
      outcome = scene.run();
      expect_kept(before, finished_trials(scene));
      EXPECT_EQ(scene.runs().size(), 1);
    }
    if (GetParam() == "kill_self" && outcome.code != 0) {
      // A trainer that dies before or in the baseline fails that run.
      ASSERT_THAT(outcome.err, testing::HasSubstr("signal 9"));
      outcome = scene.run();
    }
    if (GetParam() == "kill_self" && !trials_with(outcome.json(), "failed").empty()) {
      // The candidate is to blame as far as anybody can tell: the trial is lost, the run is not.
      EXPECT_EQ(outcome.code, 0);
      EXPECT_EQ(outcome.json().at("training").at("steps"), 10);
      EXPECT_TRUE(scene.all_ended());
      continue;
    }
    expect_right_result(scene, outcome);
    if (testing::Test::HasFailure()) return;
  }
  // The moments of the other victims are chosen alike; their runs go on at once, and nothing tells where they were.
  EXPECT_LE(never_came, 2) << "most moments must lie within the run";
  if (GetParam() == "kill_program") {
    EXPECT_THAT(reached,
                testing::UnorderedElementsAre(Phase::baseline, Phase::trial, Phase::processes,
                                              Phase::confirmation, Phase::training));
  }
}

INSTANTIATE_TEST_SUITE_P(Processes, Kill,
                         testing::Values("kill_program", "kill_session", "kill_self"),
                         [](const auto& instance) { return instance.param; });

TEST(Kill, TrainingGoesOnFromItsCheckpoint) {
  for (const std::string victim : {"kill_program", "kill_session", "kill_self"}) {
    SCOPED_TRACE(victim);
    const Scene scene{
        Scene::fast_job({{"do", victim}, {"request", "train_step"}, {"step", 6}, {"once", true}})};
    Outcome outcome = scene.run();
    if (victim == "kill_program") {
      EXPECT_EQ(outcome.code, kKilled);
      outcome = scene.run();
    }
    expect_right_result(scene, outcome);
    EXPECT_EQ(outcome.json().at("training").at("resumed_from_step"), 6);
  }
}

// It records steps in a trainer of its own, which dies with the process that is killed.
TEST(Kill, TraceThatIsBegunCostsNothingAndLeavesNothing) {
  for (const std::string victim : {"kill_program", "kill_session", "kill_self"}) {
    SCOPED_TRACE(victim);
    const Scene scene{Scene::fast_job({{"do", victim}, {"request", "trace"}, {"once", true}})};
    Outcome outcome = scene.run();
    if (victim == "kill_program") {
      EXPECT_EQ(outcome.code, kKilled);
      EXPECT_TRUE(scene.all_ended());
      outcome = scene.run();
    }
    expect_right_result(scene, outcome);
    std::vector<std::string> traces;
    for (const auto& file : std::filesystem::directory_iterator(scene.folder() / "out/log")) {
      const std::string name = file.path().filename();
      if (name.find(".pt.trace.") != std::string::npos) traces.push_back(name);
    }
    std::vector<std::string> expected = {"best.pt.trace.json.gz"};
    // A trainer that dies costs its trace; whoever asked for it is still there, and goes on.
    if (victim != "kill_self") expected.emplace_back("start.pt.trace.json.gz");
    EXPECT_THAT(traces, testing::UnorderedElementsAreArray(expected));
  }
}

// --retune, once more after a kill: the search that it began is gone on with, and no best configuration
// that was known before takes its place.
TEST(Kill, SearchThatWasBegunAnewIsGoneOnWith) {
  // Before the first trial has ended, and after: only the second one has processes that exchange anything.
  for (const Json& moment : {Json{{"at", 3}}, Json{{"request", "export"}}}) {
    for (const std::vector<std::string>& options :
         {std::vector<std::string>{"--retune"}, std::vector<std::string>{}}) {
      SCOPED_TRACE(moment.dump() + (options.empty() ? "" : " --retune"));
      const Scene scene;
      ASSERT_EQ(scene.run().code, 0);
      scene.fake().forget_requests();
      Json behaviour = Scene::fast_job();
      Json fault = moment;
      fault["do"] = "kill_program";
      behaviour["faults"] = Json::array({fault});
      scene.fake().behave(behaviour);
      ASSERT_EQ(scene.run({"--retune"}).code, kKilled);
      ASSERT_TRUE(scene.all_ended());
      const auto before = finished_trials(scene);
      EXPECT_GE(before.size(), moment.contains("at") ? 3 : 4);
      scene.fake().behave(Scene::fast_job());

      expect_code(0, scene.run(options));
      const auto after = finished_trials(scene);
      expect_kept(before, after);
      EXPECT_EQ(scene.runs().size(), 2);
      EXPECT_EQ(after.size(), 6);
      for (const auto& [number, trial] : after)
        EXPECT_NE(trial.at("kind"), "verification");
      // It has come to its end: the next one begins anew.
      EXPECT_EQ(scene.run({"--retune"}).code, 0);
      EXPECT_EQ(scene.runs().size(), 3);
    }
  }
}

TEST(Kill, SearchAnewDoesNotGoOnWithARunThatWasBegunOtherwise) {
  const Scene scene{
      Scene::fast_job({{"do", "kill_program"}, {"request", "train"}, {"once", true}})};
  ASSERT_EQ(scene.run().code, kKilled);
  ASSERT_TRUE(scene.all_ended());
  EXPECT_EQ(scene.run({"--retune"}).code, 0);
  EXPECT_EQ(scene.runs().size(), 2);
}

// A recipe of another job, which is like that of the scene.
std::string other_recipe(const Scene& scene) {
  std::string recipe = scene.folder().read("recipe.yaml");
  recipe.replace(recipe.find("hidden: 16"), 10, "hidden: 32");
  return scene.folder().write("other.yaml", recipe).string();
}

// Nobody may ever give the command of the run that was killed again: what is said of it must be true even so.
TEST(Kill, RunOfAnotherJobIsSeenAsInterrupted) {
  const Scene scene{
      Scene::fast_job({{"do", "kill_program"}, {"request", "compare"}, {"once", true}})};
  ASSERT_EQ(scene.run().code, kKilled);
  ASSERT_TRUE(scene.all_ended());
  const std::string killed = scene.last_run().at("run");
  const auto verdicts = [&] {
    std::vector<Verdict> found;
    const auto history = storage::History::open(scene.history(), storage::Access::read_only);
    const auto trials = history->trials({killed}).value();
    for (const TrialRecord& trial : trials)
      found.push_back(trial.verdict);
    return found;
  };
  ASSERT_THAT(verdicts(), testing::Contains(Verdict::running));
  // Reading changes nothing, and tells the truth.
  const Json shown = scene.command({"show", killed, "--json"}).json();
  EXPECT_EQ(shown.at("is_interrupted"), true);
  EXPECT_EQ(trials_with(shown, "interrupted").size(), 1);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"history"}, {"show", killed}})
    EXPECT_THAT(scene.command(command).out, testing::HasSubstr("tuning, interrupted"));

  ASSERT_EQ(scene.command({"run", other_recipe(scene), "--tune-only"}).code, 0);
  EXPECT_THAT(verdicts(), testing::Not(testing::Contains(Verdict::running)));
  EXPECT_THAT(verdicts(), testing::Contains(Verdict::interrupted));
  // The same command goes on with it; while it is at work it is not interrupted.
  const Outcome outcome = scene.run();
  expect_right_result(scene, outcome);
  EXPECT_EQ(outcome.json().at("run"), killed);
  EXPECT_EQ(outcome.json().at("is_interrupted"), false);
}

// What the end of its parent does not end: it has left the group, and keeps the device locked.
TEST(Kill, OrphanThatHoldsTheDeviceIsEnded) {
  const Scene scene{
      Scene::fast_job({{{"do", "leave_orphan"}, {"request", "profile"}, {"once", true}},
                       {{"do", "kill_program"}, {"request", "train"}, {"once", true}}})};
  ASSERT_EQ(scene.run().code, kKilled);
  const Outcome outcome = scene.run();
  // Told of by whichever run came first: those of other tests look for orphans, too.
  expect_right_result(scene, outcome);
  EXPECT_TRUE(scene.all_ended());
}

// The session that is started again needs the device that the orphan of the first one holds.
TEST(Kill, OrphanOfASessionThatDiedIsEndedBeforeTheNextOne) {
  const Scene scene{
      Scene::fast_job({{{"do", "leave_orphan"}, {"request", "profile"}, {"once", true}},
                       {{"do", "kill_session"}, {"request", "train"}, {"once", true}}})};
  const Outcome outcome = scene.run();
  expect_right_result(scene, outcome);
  EXPECT_TRUE(scene.all_ended());
}

TEST(Kill, OrphanIsEndedByARunThatWaitsForTheDevice) {
  const Scene scene{
      Scene::fast_job({{{"do", "leave_orphan"}, {"request", "profile"}, {"once", true}},
                       {{"do", "pause"}, {"request", "train"}}})};
  Running first = scene.start_run_until("\ntuned ");
  Running second = scene.start({"run", other_recipe(scene), "--tune-only", "--json"});
  ASSERT_TRUE(second.wait_for("waiting: "));
  first.end_at_once();
  expect_code(0, second.finish());
  EXPECT_TRUE(scene.all_ended());
}

TEST(Kill, RunAtWorkIsNotInterrupted) {
  const Scene scene{Scene::fast_job({{"do", "pause"}, {"request", "profile"}})};
  Running running = scene.start_run_until("ceiling ");
  const Json shown = scene.last_run();
  EXPECT_EQ(shown.at("state"), "tuning");
  EXPECT_EQ(shown.at("is_interrupted"), false);
  running.end_at_once();
  ASSERT_TRUE(scene.all_ended());
  EXPECT_EQ(scene.last_run().at("is_interrupted"), true);
}

TEST(Kill, AtRandomMomentsEndsInTheRightResult) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  {
    const Scene whole;
    ASSERT_EQ(whole.run().code, 0);
  }
  const auto length = Clock::now() - start;
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  const std::vector<std::string> victims = {"program", "session", "trainer"};
  for (int i = 0; i < 9; ++i) {
    const std::string& victim = victims[static_cast<std::size_t>(i) % victims.size()];
    const auto moment = length * std::uniform_real_distribution(0.0, 1.0)(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", kill " + std::to_string(i) + ": " + victim +
                 " after " + std::to_string(moment / std::chrono::milliseconds(1)) + " ms");
    const Scene scene;
    Running running = scene.start_run();
    std::this_thread::sleep_for(moment);
    bool has_killed = false;
    if (victim == "program") {
      has_killed = kill(running.pid(), SIGKILL) == 0;
    } else if (victim == "session") {
      has_killed = scene.kill_session(running.pid());
    } else {
      has_killed = scene.kill_trainer();
    }
    Outcome outcome = running.finish();
    ASSERT_TRUE(scene.all_ended());
    const auto before = finished_trials(scene);
    if (outcome.code != 0) {
      EXPECT_TRUE(has_killed) << outcome.err;
      outcome = scene.run();
      expect_kept(before, finished_trials(scene));
    }
    if (victim == "trainer" && !trials_with(outcome.json(), "failed").empty()) {
      EXPECT_EQ(outcome.code, 0);
      EXPECT_EQ(outcome.json().at("training").at("steps"), 10);
      continue;
    }
    expect_right_result(scene, outcome);
    if (testing::Test::HasFailure()) return;
  }
}

// As a plugin does whose code kills the parent of the trainer.
TEST(Kill, TrialThatEndsTheSessionTwiceIsLeftOut) {
  const Scene scene{Scene::fast_job(
      {{"do", "kill_session"}, {"request", "run"}, {"when", {"optimizer.set_to_none=on"}}})};
  const Outcome outcome = ended(0, scene.run());
  EXPECT_THAT(outcome.err, testing::HasSubstr("ended twice in the trial of the same change"));
  const auto failed = trials_with(outcome.json(), "failed");
  ASSERT_FALSE(failed.empty());
  EXPECT_EQ(failed.front().at("reason"), "the session ended twice in this trial");
  EXPECT_EQ(failed.front().at("change").at("optimizer.set_to_none"), true);
  const Json best = outcome.json().at("best").at("configuration");
  EXPECT_EQ(best.at("optimizer.set_to_none"), false);
  EXPECT_EQ(best.at("memory.malloc"), "keep") << "what comes after it is tried";
  EXPECT_TRUE(scene.all_ended());
}

TEST(Kill, SessionThatDiesAgainAndAgainGivesUp) {
  const Scene scene{{{"faults", {{{"do", "kill_session"}, {"request", "profile"}}}}}};
  const Outcome outcome = ended(1, scene.run());
  EXPECT_THAT(outcome.err, testing::HasSubstr("ended again and again"));
  EXPECT_THAT(outcome.json().at("error").get<std::string>(), testing::HasSubstr("signal 9"));
  EXPECT_TRUE(scene.all_ended());

  scene.fake().behave(Scene::fast_job());
  expect_right_result(scene, scene.run());
  EXPECT_EQ(scene.runs().size(), 1);
}

}  // namespace
}  // namespace autotuned
