// SPDX-License-Identifier: Apache-2.0
// Ctrl-C. The fake sends the signal in the middle of a request and waits for the cancel to arrive.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "daemon/common/stop_requests.hpp"
#include "tests/integration/scene.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

TEST(Interrupt, WhileTuningKeepsWhatIsFinished) {
  const Scene scene{Scene::fast_job(
      {{"do", "interrupt"}, {"request", "run"}, {"when", {"memory.malloc=keep"}}, {"once", true}})};
  const Outcome outcome = ended(130, scene.run());
  EXPECT_THAT(outcome.err, HasSubstr("stopping; once more to end at once"));
  const Json stopped = outcome.json();
  EXPECT_EQ(stopped.at("state"), "cancelled");
  EXPECT_EQ(stopped.at("error"), "");
  const auto interrupted = trials_with(stopped, "interrupted");
  ASSERT_EQ(interrupted.size(), 1);
  EXPECT_EQ(interrupted[0].at("plugin"), "memory_malloc");
  // With the time before and between the trials.
  double trials_s = 0.0;
  for (const Json& trial : stopped.at("trials"))
    trials_s += trial.at("duration_ns").get<double>() / 1e9;
  EXPECT_GT(trials_s, 0.0);
  EXPECT_GT(stopped.at("tuning_seconds").get<double>(), trials_s);
  EXPECT_TRUE(scene.all_ended());

  const Outcome again = ended(0, scene.run());
  EXPECT_THAT(again.err, HasSubstr("continuing " + stopped.at("run").get<std::string>()));
  EXPECT_EQ(again.json().at("run"), stopped.at("run"));
  EXPECT_EQ(again.json().at("trials").size(),
            stopped.at("trials").size() + 3 - trials_with(stopped, "accepted").size());
  for (std::size_t i = 0; i < stopped.at("trials").size(); ++i) {
    EXPECT_EQ(again.json().at("trials").at(i), stopped.at("trials").at(i));
  }
  EXPECT_NEAR(again.json().at("best").at("speedup").get<double>(), 1.56, 0.03);
  EXPECT_GT(again.json().at("tuning_seconds"), stopped.at("tuning_seconds"));
}

TEST(Interrupt, WhileTrainingResumesFromTheCheckpoint) {
  const Scene scene{Scene::fast_job(
      {{"do", "interrupt"}, {"request", "train_step"}, {"step", 4}, {"once", true}})};
  const Json outcome = result_of(scene.run(), 130);
  EXPECT_EQ(outcome.at("state"), "cancelled");
  EXPECT_FALSE(std::filesystem::exists(scene.folder() / "out/model.pt"));
  EXPECT_TRUE(scene.all_ended());
  EXPECT_EQ(outcome.at("training").at("stopped_at"),
            Json::object({{"steps", 5}, {"steps_total", 10}, {"epochs", 1}, {"epochs_total", 1}}));
  EXPECT_THAT(scene.command({"show", "last"}).out, HasSubstr("\nstopped  at step 5 of 10\n"));
  EXPECT_THAT(scene.command({"explain", "last"}).out,
              HasSubstr("Its training was stopped at step 5 of 10.\n"));

  scene.fake().forget_requests();
  const Json again = result_of(scene.run());
  EXPECT_FALSE(again.at("training").contains("stopped_at"));
  EXPECT_EQ(again.at("run"), outcome.at("run"));
  EXPECT_EQ(again.at("training").at("resumed_from_step"), 5);
  EXPECT_EQ(again.at("training").at("steps"), 10);
  // Nothing is measured a second time.
  EXPECT_TRUE(scene.fake().requests("run").empty());
}

// The kernel and the shell both say that the terminal is closed: that is no second wish.
TEST(Interrupt, ClosedTerminalKeepsTheCheckpoint) {
  const Scene scene{Scene::fast_job({{"do", "interrupt"},
                                     {"signal", SIGHUP},
                                     {"request", "train_step"},
                                     {"step", 4},
                                     {"once", true}})};
  const Json outcome = result_of(scene.run(), 130);
  EXPECT_EQ(outcome.at("state"), "cancelled");
  EXPECT_TRUE(scene.all_ended());

  const Json again = result_of(scene.run());
  EXPECT_EQ(again.at("run"), outcome.at("run"));
  EXPECT_EQ(again.at("training").at("resumed_from_step"), 5);
}

// `timeout` signals the program and then its group, of which it is a part: that is no second wish either.
TEST(Interrupt, OfTimeoutKeepsTheCheckpoint) {
  const Scene scene{Scene::fast_job({{"do", "interrupt"},
                                     {"signal", SIGTERM},
                                     {"from_timeout", true},
                                     {"request", "train_step"},
                                     {"step", 4},
                                     {"once", true}})};
  const Json outcome = result_of(scene.run(), 130);
  EXPECT_EQ(outcome.at("state"), "cancelled");
  EXPECT_TRUE(scene.all_ended());

  const Json again = result_of(scene.run());
  EXPECT_EQ(again.at("run"), outcome.at("run"));
  EXPECT_EQ(again.at("training").at("resumed_from_step"), 5);
}

TEST(Interrupt, ClosedTerminalStopsNothingUnderNohup) {
  const Scene scene{
      Scene::fast_job({{"do", "pause"}, {"request", "train_step"}, {"step", 4}, {"once", true}})};
  Running running = scene.start_with_nohup({"run", scene.recipe().string(), "--json"});
  ASSERT_TRUE(running.wait_for("\ntuned "));
  running.signal(SIGHUP);
  const Descriptor gate = scene.fake().open_gate();
  expect_code(0, running.finish());
}

// Ctrl-C is for the program in the foreground, so SIGTERM stops a job in the background.
TEST(Interrupt, OfAShellStopsNoJobInTheBackground) {
  const Scene scene{
      Scene::fast_job({{"do", "pause"}, {"request", "train_step"}, {"step", 4}, {"once", true}})};
  Running running = scene.start_in_background({"run", scene.recipe().string(), "--json"});
  ASSERT_TRUE(running.wait_for("\ntuned "));
  running.signal(SIGINT);
  running.signal(SIGTERM);
  ASSERT_TRUE(running.wait_for("stopping; once more to end at once")) << "the first that counts";
  const Descriptor gate = scene.fake().open_gate();
  expect_code(130, running.finish());
  EXPECT_TRUE(scene.all_ended());
  expect_code(0, scene.run());
}

TEST(Interrupt, WhileATrainerStarts) {
  const Scene scene{Scene::fast_job({{"do", "interrupt"}, {"request", "hello"}, {"once", true}})};
  // It waits for a cancel that never comes: a trainer that has not said hello is ended.
  expect_code(130, scene.run());
  EXPECT_EQ(scene.runs().size(), 0);
  EXPECT_TRUE(scene.all_ended());
  EXPECT_EQ(scene.run().code, 0);
}

// What has left the group of its trainer ends with the run, and not with the next one.
TEST(Interrupt, LeavesNoProcessBehind) {
  const Scene scene{Scene::fast_job(
      {{{"do", "leave_orphan"}, {"request", "profile"}, {"once", true}},
       {{"do", "interrupt"}, {"request", "train_step"}, {"step", 4}, {"once", true}}})};
  ASSERT_EQ(scene.run().code, 130);
  EXPECT_TRUE(scene.all_ended());
  expect_code(0, scene.run());
}

TEST(Interrupt, SecondOneEndsAtOnce) {
  for (const char* request : {"run", "train_step"}) {
    SCOPED_TRACE(request);
    const Scene scene{
        Scene::fast_job({{"do", "interrupt_twice"}, {"request", request}, {"once", true}})};
    const Json outcome = result_of(scene.run(), 130);
    EXPECT_TRUE(scene.all_ended());
    EXPECT_TRUE(outcome.is_object());
    expect_code(0, scene.run());
    EXPECT_EQ(scene.runs().size(), 1);
  }
}

// It ends those who write there in the middle of a file.
TEST(Interrupt, SecondOneLeavesNoUnfinishedFile) {
  const Scene scene{
      Scene::fast_job({{"do", "pause"}, {"request", "train_step"}, {"step", 4}, {"once", true}})};
  Running running = scene.start_run_until("\ntuned ");
  scene.folder().write("out/.autotuned-0123456789abcdef.tmp", "half a check");
  scene.folder().write("out/log/.autotuned-0123456789abcdef.tmp", "half a log");
  running.signal(SIGINT);
  ASSERT_TRUE(running.wait_for("stopping; once more"));
  std::this_thread::sleep_for(1.2 * daemon::kOneStop);
  running.signal(SIGINT);
  EXPECT_EQ(running.finish().code, 130);
  EXPECT_TRUE(scene.all_ended());
  for (const char* folder : {"out", "out/log"}) {
    EXPECT_FALSE(
        std::filesystem::exists(scene.folder() / folder / ".autotuned-0123456789abcdef.tmp"))
        << folder;
  }
}

TEST(Interrupt, WhileWaitingForTheDevice) {
  RunsOnOneDevice runs;
  runs.waiter->signal(SIGTERM);
  EXPECT_EQ(runs.waiter->finish().code, 130);
  const Descriptor gate = runs.first.fake().open_gate();
  EXPECT_EQ(runs.holder->finish().code, 0);
}

}  // namespace
}  // namespace autotuned
