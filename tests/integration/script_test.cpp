// SPDX-License-Identifier: Apache-2.0
// `autotuned run` of a script: what the script gets, what is on record, and what is left of it all after a fault.
#include <gmock/gmock.h>

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <set>
#include <sstream>
#include <string>

#include "tests/integration/told.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;
using testing::Not;

// Not releasing gradients is slow here, and exact to change.
Json slow_gradients(const Json& more = Json::object()) {
  Json behaviour = {{"factors", {{"optimizer.set_to_none=on", 1.4}}}};
  behaviour.update(more);
  return behaviour;
}

class Script : public testing::Test {
 protected:
  Script() {
    std::filesystem::create_directory(scene_.folder() / "startup");
    scene_.set("AUTOTUNED_STARTUP=" + (scene_.folder() / "startup").string());
  }

  [[nodiscard]] Running start(const Json& behaviour, std::vector<std::string> options = {}) const {
    const auto file = scene_.folder().write("behaviour.json", behaviour.dump());
    options.insert(options.begin(), "run");
    options.insert(options.end(), {"--", tests::build_folder() / "tests/fake_script", file});
    return scene_.start(options);
  }
  [[nodiscard]] Outcome run(const Json& behaviour, std::vector<std::string> options = {}) const {
    return start(behaviour, std::move(options)).finish();
  }
  // What the script saw and did.
  [[nodiscard]] Json script() const {
    return Json::parse(scene_.folder().read("script.json"), nullptr, false);
  }

  Scene scene_;
  Told told_{scene_, "script"};
};

// A script is the user's own process.
void expect_own_process(const Json& seen) {
  EXPECT_EQ(seen.at("dies_with_parent"), 0);
  EXPECT_EQ(seen.at("blocks_sigterm"), false);
  EXPECT_EQ(seen.at("is_marked"), false) << "nobody may end it as what a dead run has left";
  EXPECT_EQ(seen.at("group"), true);
  EXPECT_NE(seen.at("umask"), 077) << "ours";
}

// One run, of which all is looked at.
TEST_F(Script, IsTunedWhileItTrains) {
  const Outcome outcome = ended(0, run(slow_gradients()));
  EXPECT_EQ(outcome.out, "the script reads: \nthe script trains on\n") << "it is the script's";
  told_.lines("standard error is the script's", outcome.err, "the script complains");
  told_.lines("the time that there is", outcome.err, " at most: ");
  told_.lines("what was kept", outcome.err, "kept     ");
  EXPECT_THAT(outcome.err, HasSubstr("autotuned: tuning   "));

  const Json stored = scene_.last_run();
  EXPECT_EQ(stored.at("state"), "finished");
  EXPECT_NEAR(stored.at("best").at("speedup").get<double>(), 1.4, 0.05);
  EXPECT_EQ(stored.at("training").at("exit_code"), 0);
  const Json seen = script();
  EXPECT_EQ(seen.at("configuration").at("optimizer.set_to_none"), true);
  EXPECT_EQ(seen.at("python_path"), (scene_.folder() / "startup").string());
  expect_own_process(seen);
  // Its loggers are told what was kept.
  const Json kept = seen.at("requests").back().at("kept");
  EXPECT_EQ(kept.at("run"), stored.at("run"));
  EXPECT_EQ(kept.at("change"), "optimizer.set_to_none off → on");
  EXPECT_EQ(kept.at("speedup"), stored.at("best").at("speedup"));
  const Json& parts = stored.at("training").at("steps_under");
  ASSERT_EQ(parts.size(), 2);
  EXPECT_EQ(parts[0].at("change"), "");
  EXPECT_EQ(parts[1].at("change"), "optimizer.set_to_none off → on");
  const std::string show = scene_.command({"show", "last", "--verbose"}).out;
  told_.lines("show", show, "script   fake_script");
  const std::string history = scene_.command({"history"}).out;
  EXPECT_THAT(history, Not(HasSubstr("recipe")));
  EXPECT_THAT(history, HasSubstr("  script "));
  const std::string explain = scene_.command({"explain", "last", "--verbose"}).out;
  EXPECT_THAT(explain, HasSubstr("It is the script fake_script:"));
  for (const char* word : {"tune.allow", "tune.budget", "the recipe", "the trainer has no knob"})
    EXPECT_THAT(explain + show, Not(HasSubstr(word)));

  // What plugins said is told once, though all are asked again after each change that is kept.
  const std::string folded = scene_.command({"show", "last"}).out;
  const Json counts = scene_.command({"explain", "last", "--json"}).json().at("plugins");
  ASSERT_GT(counts.at("tried"), 0);
  EXPECT_THAT(folded, HasSubstr("\n" + counts.at("inapplicable").dump() +
                                " plugins had nothing to try; --verbose says why"));
  EXPECT_THAT(show, Not(HasSubstr("had nothing to try")));
  std::istringstream table(show.substr(show.find("\nplugin ") + 1));
  std::set<std::string> plugins;
  for (std::string line; std::getline(table, line) && !line.empty();)
    EXPECT_TRUE(plugins.insert(line.substr(0, line.find(' '))).second) << line;
  EXPECT_GT(plugins.size(), 2U);
  for (const Json& trial : stored.at("trials"))
    EXPECT_FALSE(plugins.contains(trial.at("plugin").get<std::string>())) << trial;
}

TEST_F(Script, ItsStepsAreCountedToItsEnd) {
  ASSERT_EQ(run(slow_gradients({{"steps_after", 1000}})).code, 0);
  const Json stored = scene_.last_run().at("training");
  EXPECT_EQ(stored.at("is_counted_to_end"), true);
  EXPECT_EQ(stored.at("steps"), stored.at("tuned_steps").get<std::int64_t>() + 8 + 1000);
  EXPECT_GE(stored.at("tuning_cost_ns").get<std::int64_t>(), 0);
}

TEST_F(Script, WithoutSamplesItsStepsAreCounted) {
  ASSERT_EQ(run(slow_gradients({{"samples_per_step", 0}})).code, 0);
  const std::string show = scene_.command({"show", "last"}).out;
  EXPECT_THAT(show + scene_.command({"show", "last.1"}).out, Not(HasSubstr("samples/s")));
  EXPECT_THAT(show, HasSubstr(" steps/s, beside the best one"));
}

// 400,000 samples at about 2,000 a second: a fifth of that time.
TEST_F(Script, TheBudgetIsAPartOfTheTrainingThatIsLeft) {
  const Json behaviour = slow_gradients({{"most_samples_left", 400'000}});
  const Outcome outcome = ended(0, run(behaviour));
  told_.measured_lines("400,000 samples", outcome.err, "of training are left");
  EXPECT_NEAR(scene_.last_run().at("training").at("budget_ns").get<double>(), 40e9, 4e9);
  const Outcome told = run(behaviour, {"--budget", "5min"});
  EXPECT_THAT(told.err, Not(HasSubstr("of training are left")));
}

TEST_F(Script, WhatThereWasNoTimeForIsTold) {
  const Outcome outcome = ended(0, run(slow_gradients(), {"--budget", "1ms"}));
  told_.lines("the time that there is", outcome.err, " at most: ");
  told_.lines("the run", outcome.err, "nothing new was tried");
  told_.lines("explain", scene_.command({"explain", "last"}).out, "nothing new was tried");
  told_.lines("show", scene_.command({"show", "last"}).out, "tuning   ");
}

TEST_F(Script, WhatIsKnownIsVerifiedAndUsed) {
  ASSERT_EQ(run(slow_gradients()).code, 0);
  const Json first = scene_.last_run();
  const Outcome again = ended(0, run(slow_gradients()));
  EXPECT_THAT(again.err, HasSubstr("for 20.0 s at most: the least, for the "));
  const Json second = scene_.last_run();
  EXPECT_EQ(second.at("recipe_hash"), first.at("recipe_hash"));
  ASSERT_EQ(second.at("trials").size(), 1);
  EXPECT_EQ(second.at("trials")[0].at("kind"), "verification");
  EXPECT_EQ(second.at("trials")[0].at("verdict"), "accepted");
  // A search that was complete with less permitted is not complete now.
  ASSERT_EQ(run(slow_gradients(), {"--allow", "numerics"}).code, 0);
  EXPECT_NE(scene_.last_run().at("recipe_hash"), first.at("recipe_hash"));
  EXPECT_EQ(script().at("configuration").at("optimizer.set_to_none"), true);
}

TEST_F(Script, ItsExitCodeIsTheCommands) {
  EXPECT_EQ(run(slow_gradients({{"exit", 3}})).code, 3);
  const Json stored = scene_.last_run();
  EXPECT_EQ(stored.at("state"), "finished") << "an exit code is the script's own word";
  EXPECT_EQ(stored.at("error"), "");
  EXPECT_EQ(stored.at("training").at("exit_code"), 3);
  EXPECT_THAT(scene_.command({"history"}).out, HasSubstr("finished (exit status 3 of the script)"));
  EXPECT_EQ(stored.at("best").at("configuration").at("optimizer.set_to_none"), true)
      << "what was tuned by then stays";
}

TEST_F(Script, TheSignalThatEndsItEndsTheCommand) {
  Json behaviour = slow_gradients();
  behaviour["signal"] = SIGTERM;
  EXPECT_EQ(run(behaviour).code, 128 + SIGTERM);
  EXPECT_EQ(scene_.last_run().at("state"), "cancelled");
  told_.lines("SIGTERM", scene_.command({"show", "last"}).out, "state    ");
  // Whoever crashes has failed.
  behaviour["signal"] = SIGABRT;
  EXPECT_EQ(run(behaviour).code, 128 + SIGABRT);
  EXPECT_EQ(scene_.last_run().at("state"), "failed");
  told_.add("SIGABRT", scene_.last_run().at("error"));
}

TEST_F(Script, ThatMakesItsOptimizerAnewIsTunedAllTheSame) {
  expect_code(0, run(slow_gradients({{"renewals", 3}})));
  EXPECT_EQ(script().at("configuration").at("optimizer.set_to_none"), true);
  EXPECT_EQ(trials_with(scene_.last_run(), "failed").size(), 0);
}

TEST_F(Script, ThatIsLetGoInATrialSaysWhy) {
  told_.ends(0, "the agent let go", run(slow_gradients({{"detaches_at", 30}})),
             "is no longer tuned");
}

TEST_F(Script, ASignalToTheCommandReachesTheScript) {
  EXPECT_EQ(run(slow_gradients({{"interrupts_at", 4}})).code, 128 + SIGTERM);
}

TEST_F(Script, ThatEndsInATrialIsNoFaultOfTheCandidate) {
  for (const char* how : {"ends_at", "closes_at"}) {
    const Outcome outcome = ended(5, run(slow_gradients({{how, 30}, {"exit", 5}})));
    const auto interrupted = trials_with(scene_.last_run(), "interrupted");
    EXPECT_EQ(interrupted.size(), 1) << how;
    EXPECT_THAT(outcome.err, HasSubstr("what was tried is on record"));
  }
}

TEST_F(Script, WithoutAStepRunsUntouched) {
  told_.ends(4, "no step", run({{"no_step", "no backward pass was seen"}, {"exit", 4}}),
             " is not tuned: ");
  EXPECT_EQ(scene_.last_run().at("state"), "finished");
  // Its agent has no time to say a word.
  told_.lines("ended by a signal", run({{"closes_at", 1}, {"signal", SIGTERM}}).err,
              " is not tuned: ");
  EXPECT_EQ(scene_.last_run().at("state"), "cancelled");
}

TEST_F(Script, WithoutPyTorchRunsUntouched) {
  const Outcome outcome = scene_.command({"run", "--", "sh", "-c", "echo untouched; exit 6"});
  EXPECT_EQ(outcome.code, 6);
  EXPECT_EQ(outcome.out, "untouched\n");
  EXPECT_THAT(outcome.err, HasSubstr("sh is not tuned: "));
  EXPECT_TRUE(scene_.runs().empty()) << "there was nothing to put on record";
}

TEST_F(Script, GoesOnWithoutItsSession) {
  Running running = start(slow_gradients({{"waits_at", 30}}));
  ASSERT_TRUE(running.wait_for("is tuned on its own steps"));
  ASSERT_TRUE(scene_.kill_session(running.pid()));
  const Outcome outcome = ended(0, running.finish());
  EXPECT_TRUE(outcome.out.ends_with("the script trains on\n")) << outcome.out;
  // Whether the terminal is told depends on which of the two is seen to end first; the history is told in any case.
  EXPECT_TRUE(scene_.all_ended());
  // The next one does not go on with a run that nobody can go on with.
  ASSERT_EQ(run(slow_gradients()).code, 0);
  const Json runs = scene_.runs();
  ASSERT_EQ(runs.size(), 2);
  EXPECT_EQ(runs[1].at("state"), "failed");
  told_.add("the run", runs[1].at("error"));
}

TEST_F(Script, APluginThatMisbehavesLeavesItAlone) {
  for (const char* name : {"crashes", "is_killed", "throws", "nonsense", "crashes_at_loading"}) {
    const Outcome outcome = run(slow_gradients(), {"--plugin-dir", Scene::fixture(name)});
    EXPECT_EQ(outcome.code, 0) << name << ": " << outcome.err;
    EXPECT_EQ(outcome.out, "the script reads: \nthe script trains on\n") << name;
  }
  EXPECT_TRUE(scene_.all_ended());
}

TEST_F(Script, AHistoryThatCannotBeUsedLeavesItAlone) {
  const std::string damaged(5000, 'x');
  scene_.folder().write("state/history.db", damaged);
  const Outcome outcome = ended(0, run(slow_gradients()));
  EXPECT_EQ(outcome.out, "the script reads: \nthe script trains on\n");
  told_.lines("a damaged history", outcome.err, " is not tuned: ");
  EXPECT_EQ(scene_.folder().read("state/history.db"), damaged);
}

TEST_F(Script, WhatFollowsTheFileIsTheScripts) {
  const auto python = scene_.folder().write("python3", "#!/bin/sh\nprintf '<%s>' \"$@\"\n");
  ::chmod(python.c_str(), 0755);
  scene_.set("PATH=" + scene_.folder().path().string() + ":/usr/bin:/bin");
  const auto file = scene_.folder().write("train.py", "");
  const Outcome outcome = ended(0, scene_.command({"run", "--budget", "1min", file, "--budget", "2",
                                                   "--json", "--", "-s", "x y"}));
  EXPECT_EQ(outcome.out, "<" + file.string() + "><--budget><2><--json><--><-s><x y>");
}

TEST_F(Script, WhatWasKeptIsPrintedAsAPatch) {
  if (::access("/usr/bin/python3", X_OK) != 0) GTEST_SKIP() << "no python3 here";
  const std::string text = "optimizer.zero_grad(set_to_none=False)\n";
  const auto file = scene_.folder().write("train.py", text);
  const auto behaviour = scene_.folder().write("behaviour.json", slow_gradients().dump());
  const std::string script = tests::build_folder() / "tests/fake_script";
  ASSERT_EQ(scene_.command({"run", "--", script, behaviour, file}).code, 0);
  const auto stranger = scene_.folder().write("other.py", "pass\n");
  told_.ends(2, "another script", scene_.command({"patch", stranger}));

  scene_.set("AUTOTUNED_STARTUP=" + (tests::source_folder() / "python/autotuned/startup").string());
  const Outcome outcome = ended(0, scene_.command({"patch", file}));
  EXPECT_THAT(outcome.out, HasSubstr("@@ optimizer.set_to_none off -> on, 1."));
  told_.lines("the script", outcome.out, "optimizer.zero_grad(");
  EXPECT_EQ(scene_.folder().read("train.py"), text) << "nothing is written";
  const Json answer = scene_.command({"patch", "--json", file}).json();
  EXPECT_THAT(outcome.out, HasSubstr(answer.at("diff").get<std::string>()));
  EXPECT_EQ(answer.at("words"), Json::array());
  EXPECT_EQ(answer.at("newer_unconfirmed_run"), "");

  // A later run of the same text that ended in the middle of its tuning has no result: of which run this is must be said.
  Json stopped = slow_gradients();
  stopped["ends_at"] = 12;
  const auto ends_early = scene_.folder().write("stopped.json", stopped.dump());
  ASSERT_EQ(scene_.command({"run", "--", script, ends_early, file}).code, 0);
  const std::string later = scene_.last_run().at("run");
  const Outcome again = scene_.command({"patch", file});
  EXPECT_EQ(again.out, outcome.out) << again.err;
  told_.lines("a newer run", again.err, later);
  EXPECT_EQ(scene_.command({"patch", "--json", file}).json().at("newer_unconfirmed_run"), later);
  told_.measured_lines("best", scene_.command({"best"}).out, "its newest run");
  EXPECT_THAT(scene_.command({"show", "last"}).out, HasSubstr("kept     nothing: "));

  scene_.folder().write("train.py", "pass\n");
  told_.ends(2, "another text", scene_.command({"patch", file}));
}

TEST_F(Script, OptionsOfRecipesAreRefused) {
  const auto file = scene_.folder().write("train.py", "");
  for (const char* option : {"--json", "--tune-only", "--detach"})
    told_.ends(2, option, scene_.command({"run", option, file}));
  told_.ends(2, "no script", scene_.command({"run", (scene_.folder() / "no.py").string()}));
  told_.ends(2, "an unknown permission", scene_.command({"run", "--allow", "everything", file}));
  told_.ends(2, "a recipe", scene_.command({"run", "--allow", "numerics", scene_.recipe()}));
  told_.ends(2, "no program", scene_.command({"run", "--", "no-such-program"}));
}

}  // namespace
}  // namespace autotuned
