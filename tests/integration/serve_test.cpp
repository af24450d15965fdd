// SPDX-License-Identifier: Apache-2.0
// The daemon as its user meets it, over a fake trainer.
#include <gmock/gmock.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iterator>
#include <thread>

#include "daemon/common/stop_requests.hpp"
#include "tests/integration/serving.hpp"
#include "tests/integration/told.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr int kUnusable = 4;

Json paused_job() {
  Json behaviour = Scene::fast_job();
  behaviour["faults"] = {{{"do", "pause"}, {"request", "train"}}};
  return behaviour;
}

Outcome stop(const Scene& scene, Running& daemon) {
  EXPECT_EQ(scene.command({"stop"}).code, 0);
  return daemon.finish();
}

std::string state_of(const Json& status, int id) {
  return status.at("jobs").at(static_cast<std::size_t>(id - 1)).at("state");
}

// Without what other programs used meanwhile.
Json own_training(const Outcome& outcome) {
  Json training = outcome.json().at("training");
  training.erase("other_work_ratio");
  training.erase("tuning_other_work_ratio");
  return training;
}

TEST(Serve, RunLooksAsIfThereWereNoDaemon) {
  const Scene alone;
  const Outcome embedded = alone.run();
  const Scene scene;
  Running daemon = start_daemon(scene);
  const Outcome outcome = ended(0, scene.run());
  EXPECT_EQ(own_training(outcome), own_training(embedded));
  EXPECT_NEAR(outcome.json().at("best").at("speedup").get<double>(), 1.56, 0.03);
  for (const char* line : {"\nstart ", "\naccepted ", "\ntuned ", "\ntraining "}) {
    for (const std::string& text : {embedded.err, outcome.err})
      EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(outcome.err,
              StartsWith("loading    small\nrun " + outcome.json().at("run").get<std::string>()));
  EXPECT_EQ(scene.runs().size(), 1);

  // Nothing faster this time: the same exit code as without a daemon.
  EXPECT_EQ(scene
                .run({"--set", "optimizer.set_to_none=on", "--set", "memory.malloc=keep",
                      "--require-gain"})
                .code,
            3);
  const Outcome people = scene.command({"run", scene.recipe().string()});
  EXPECT_THAT(people.out, HasSubstr("\ntrained "));
  EXPECT_EQ(scene.command({"run", (scene.folder() / "none.yaml").string()}).code, 2);

  const Outcome stopped = ended(0, stop(scene, daemon));
  EXPECT_THAT(stopped.err,
              HasSubstr("job_ended job=1 run=" + outcome.json().at("run").get<std::string>()));
  EXPECT_TRUE(scene.all_ended());
}

TEST(Serve, RunsTakeTurnsInTheirOrder) {
  const Scene scene{paused_job()};
  Running daemon = start_daemon(scene);
  EXPECT_EQ(detach(scene), "1");
  EXPECT_EQ(detach(scene), "2");
  EXPECT_EQ(detach(scene), "3");
  Running first = attach(scene, "1");
  const Json now = status(scene);
  EXPECT_EQ(state_of(now, 1), "running");
  EXPECT_EQ(state_of(now, 2), "queued");
  EXPECT_EQ(now.at("queue").at("queued"), 2);
  EXPECT_GT(now.at("memory").at("daemon_bytes"), 0);
  EXPECT_GT(now.at("memory").at("runs").at("1"), 0);
  EXPECT_EQ(now.at("counters").at("trials").at("accepted"), 3);

  Running last = scene.start({"attach", "last"});
  ASSERT_TRUE(last.wait_for("waiting: run 1 of the queue has the device cpu"));
  const Descriptor gate = scene.fake().open_gate();
  EXPECT_EQ(first.finish().code, 0);
  expect_code(0, last.finish());
  const Json jobs = status(scene).at("jobs");
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(jobs[i].at("state"), "finished");
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_LE(jobs[i].at("ended_unix_ns"), jobs[i + 1].at("started_unix_ns"));
  EXPECT_EQ(scene.runs().size(), 3);
}

TEST(Serve, WatchersSeeARunFromItsBeginning) {
  const Scene scene{paused_job()};
  Running daemon = start_daemon(scene);
  detach(scene);
  Running early = attach(scene, "1");
  Running late = attach(scene, "1");
  Running leaving = attach(scene, "1");
  leaving.signal(SIGINT);
  Told(scene, "serve").ends(0, "a watcher that leaves", leaving.finish(), "the run goes on");
  const Descriptor gate = scene.fake().open_gate();
  const Outcome first = early.finish();
  const Outcome second = late.finish();
  EXPECT_EQ(first.code, 0);
  EXPECT_EQ(first.out, second.out);
  EXPECT_EQ(first.err, second.err);
  // By the run's own name too, after it has ended, as objects.
  const std::string run = scene.last_run().at("run");
  const Outcome again = ended(0, scene.command({"attach", run, "--json"}));
  EXPECT_THAT(again.out, StartsWith("{"));
  EXPECT_EQ(again.json().at("event"), "result");
  EXPECT_EQ(scene.command({"attach", "9"}).code, 2);
}

TEST(Serve, QueuedRunIsCancelled) {
  const Scene scene{paused_job()};
  Running daemon = start_daemon(scene);
  detach(scene);
  detach(scene);
  EXPECT_EQ(scene.command({"cancel", "2"}).code, 0);
  const Outcome waited = ended(130, scene.command({"attach", "2"}));
  Told told(scene, "serve");
  told.lines("a watcher", waited.err, "cancelled");
  told.ends(2, "once more", scene.command({"cancel", "2"}));
  const Descriptor gate = scene.fake().open_gate();
  EXPECT_EQ(scene.command({"attach", "1"}).code, 0);
  EXPECT_EQ(scene.runs().size(), 1);
}

TEST(Serve, RunningRunIsCancelledCleanly) {
  const Scene scene{paused_job()};
  auto [daemon, watcher, session] = start_one_run(scene);
  EXPECT_EQ(scene.command({"cancel", "1"}).code, 0);
  const Descriptor gate = scene.fake().open_gate();
  EXPECT_EQ(watcher.finish().code, 130);
  EXPECT_EQ(scene.last_run().at("state"), "cancelled");
  EXPECT_EQ(state_of(status(scene), 1), "cancelled");
  const Outcome last = ended(130, scene.command({"attach", "last"}));
  Told(scene, "serve").lines("a watcher", last.err, "cancelled;");
  // The same command continues it.
  EXPECT_EQ(scene.run().code, 0);
  EXPECT_EQ(scene.runs().size(), 1);
}

TEST(Serve, CtrlCOfRunCancelsAndTheSecondEndsAtOnce) {
  const Scene scene{paused_job()};
  Running daemon = start_daemon(scene);
  Running run = scene.start_run_until("\ntuned ");
  run.signal(SIGINT);
  ASSERT_TRUE(run.wait_for("stopping; once more to end at once"));
  std::this_thread::sleep_for(1.2 * daemon::kOneStop);
  run.signal(SIGINT);
  EXPECT_EQ(run.finish().code, 130);
  EXPECT_EQ(scene.last_run().at("state"), "cancelled");
  EXPECT_EQ(state_of(status(scene), 1), "cancelled");
}

// As of `timeout`, which signals the program and then its group.
TEST(Serve, SignalsOfOneStopCancelOnce) {
  const Scene scene{paused_job()};
  Running server = start_daemon(scene);
  Running run = scene.start_run_until("\ntuned ");
  while (scene.fake().requests("train").empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  run.signal(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  run.signal(SIGTERM);
  ASSERT_TRUE(run.wait_for("stopping; once more to end at once"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_GT(scene.session_of(server.pid()), 0) << "it stops by itself";
  const Descriptor gate = scene.fake().open_gate();
  EXPECT_EQ(run.finish().code, 130);
  EXPECT_EQ(scene.run().code, 0);
}

TEST(Serve, CtrlCIsNotForARunInTheBackground) {
  const Scene scene{paused_job()};
  Running daemon = start_daemon(scene);
  Running run = scene.start_in_background({"run", scene.recipe().string(), "--json"});
  ASSERT_TRUE(run.wait_for("\ntuned "));
  run.signal(SIGINT);
  const Descriptor gate = scene.fake().open_gate();
  expect_code(0, run.finish());
}

TEST(Serve, ClientThatDiesLeavesItsRun) {
  const Scene scene{paused_job()};
  Running daemon = start_daemon(scene);
  Running run = scene.start_run_until("\ntuned ");
  run.signal(SIGKILL);
  EXPECT_EQ(run.finish().code, 128 + SIGKILL);
  const Descriptor gate = scene.fake().open_gate();
  EXPECT_EQ(scene.command({"attach", "1"}).code, 0);
}

TEST(Serve, StopsOnSigtermAndTheNextOneGoesOn) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const Scene scene{paused_job()};
    Running daemon = start_daemon(scene);
    detach(scene);
    detach(scene);
    Running watcher = attach(scene, "1");
    daemon.signal(signal);
    EXPECT_EQ(daemon.finish().code, 0);
    EXPECT_FALSE(std::filesystem::exists(scene.folder() / "run/autotuned/daemon.sock"));

    Running next = start_daemon(scene);
    const Descriptor gate = scene.fake().open_gate();
    // It waited for the next daemon and missed nothing.
    const Outcome watched = ended(0, watcher.finish());
    EXPECT_THAT(watched.err, HasSubstr("the next one goes on with this run"));
    EXPECT_EQ(scene.command({"attach", "2"}).code, 0);
    EXPECT_EQ(scene.runs().size(), 2);
    EXPECT_EQ(status(scene).at("jobs").at(0).at("restarts"), 1);
    stop(scene, next);
    EXPECT_TRUE(scene.all_ended());
  }
}

TEST(Serve, StopsAlthoughASessionIsDeaf) {
  const Scene scene{paused_job()};
  auto [daemon, watcher, session] = start_one_run(scene);
  ASSERT_GT(session, 0);
  kill(session, SIGSTOP);
  daemon.signal(SIGTERM);
  expect_code(0, daemon.finish());

  Running next = start_daemon(scene);
  const Descriptor gate = scene.fake().open_gate();
  EXPECT_EQ(watcher.finish().code, 0);
  EXPECT_EQ(scene.runs().size(), 1);
  stop(scene, next);
  EXPECT_TRUE(scene.all_ended());
}

// A traced process stops on its way out, which stands for one in state D: SIGKILL does not end it.
TEST(Serve, StopsAlthoughASessionCannotBeEnded) {
  const Scene scene{paused_job()};
  auto [daemon, watcher, session] = start_one_run(scene);
  ASSERT_GT(session, 0);
  if (ptrace(PTRACE_SEIZE, session, nullptr, PTRACE_O_TRACEEXIT) != 0) {
    GTEST_SKIP() << "tracing is not permitted here";
  }
  daemon.signal(SIGTERM);
  ASSERT_TRUE(daemon.wait_for("stopping"));
  std::this_thread::sleep_for(1.2 * daemon::kOneStop);
  daemon.signal(SIGTERM);  // at once
  const Outcome stopped = ended(0, daemon.finish());
  EXPECT_THAT(stopped.err, HasSubstr("session_left job=1"));
  // Only one that has stopped can be let go; then it is nobody for us to wait for any more.
  int status = 0;
  while (waitpid(session, &status, __WALL) == session && WIFSTOPPED(status))
    ptrace(PTRACE_DETACH, session, nullptr, nullptr);
  EXPECT_TRUE(scene.all_ended());
}

TEST(Serve, TellsTheServiceManager) {
  Scene scene;
  const Descriptor manager(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = (scene.folder() / "notify").string();
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  std::ranges::copy(path, std::begin(address.sun_path));
  ASSERT_EQ(bind(manager.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const auto told = [&] {
    std::string text(256, '\0');
    const bool is_there = wait_readable(manager.get(), std::chrono::seconds(20));
    const ssize_t size = is_there ? recv(manager.get(), text.data(), text.size(), 0) : 0;
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    return text;
  };
  scene.set("NOTIFY_SOCKET=" + path);
  Running daemon = scene.start({"serve"});
  EXPECT_THAT(told(), StartsWith("READY=1\n"));
  // Whoever was told that may ask.
  EXPECT_EQ(status(scene).at("queue").at("queued"), 0);
  daemon.signal(SIGTERM);
  EXPECT_THAT(told(), StartsWith("STOPPING=1\n"));
  EXPECT_EQ(daemon.finish().code, 0);
}

TEST(Serve, StopSaysWhereRunsAreKept) {
  const Scene scene{paused_job()};
  Running daemon = start_daemon(scene);
  Running run = scene.start_run_until("\ntuned ");
  EXPECT_EQ(stop(scene, daemon).code, 0);
  Told(scene, "serve").ends(1, "the client", run.finish(), "follows it again");
  EXPECT_TRUE(scene.all_ended());
}

TEST(Serve, SecondDaemonIsRefused) {
  const Scene scene;
  Running daemon = start_daemon(scene);
  const Outcome second = ended(kUnusable, scene.command({"serve"}));
  EXPECT_THAT(second.err, HasSubstr("process " + std::to_string(daemon.pid())));
  Told(scene, "serve").measured_lines("the second", second.err, "already");
  EXPECT_EQ(scene.command({"status"}).code, 0);
}

// What a service manager starts again, unlike the refusal above.
TEST(Serve, DiskErrorAtItsStartIsNoRefusal) {
  const Scene scene;
  const auto queue = scene.folder() / "xdg-state/autotuned/daemon";
  std::filesystem::create_directories(queue);
  std::filesystem::create_symlink("/proc/self/mem", queue / "00000001.job.json");  // EIO
  const Outcome outcome = ended(1, scene.command({"serve"}));
  Told(scene, "serve").measured_lines("a job that cannot be read", outcome.err, "job.json");
}

TEST(Serve, DetachedRunSaysHowToFollowIt) {
  const Scene scene;
  Running daemon = start_daemon(scene);
  Told(scene, "serve")
      .prints(0, "the run", scene.command({"run", scene.recipe().string(), "--detach"}));
  EXPECT_EQ(scene.command({"attach", "1"}).code, 0);
}

TEST(Serve, WithoutADaemonRunDoesItItself) {
  const Scene scene;
  EXPECT_EQ(scene.run().code, 0);
  Told told(scene, "serve");
  for (const std::vector<std::string>& command : {std::vector<std::string>{"status"},
                                                  {"stop"},
                                                  {"attach", "1"},
                                                  {"run", scene.recipe().string(), "--detach"}})
    told.ends(kUnusable, command.front(), scene.command(command));
  EXPECT_EQ(scene.runs().size(), 1);
}

TEST(Serve, SocketOfAKilledDaemonStandsInNobodysWay) {
  const Scene scene;
  Running daemon = start_daemon(scene);
  daemon.end_at_once();
  ASSERT_TRUE(std::filesystem::exists(scene.folder() / "run/autotuned/daemon.sock"));
  EXPECT_EQ(scene.command({"status"}).code, kUnusable);
  EXPECT_EQ(scene.run().code, 0);
  Running next = start_daemon(scene);
  EXPECT_EQ(scene.command({"status"}).code, 0);
}

TEST(Serve, RunHereIsPossibleBesideADaemonAndTakesTurnsWithIt) {
  const Scene scene{paused_job()};
  auto [daemon, watcher, session] = start_one_run(scene);
  Running here = scene.start_run_until("waiting: ", {"--no-daemon"});
  const Descriptor gate = scene.fake().open_gate();
  EXPECT_EQ(watcher.finish().code, 0);
  EXPECT_EQ(here.finish().code, 0);
  EXPECT_EQ(status(scene).at("jobs").size(), 1);
}

TEST(Serve, FailedRunSaysWhy) {
  const Scene scene{
      {{"faults", {{{"do", "error"}, {"kind", "out_of_memory"}, {"request", "run"}}}}}};
  Running daemon = start_daemon(scene);
  expect_code(1, scene.run());
  const Json now = status(scene);
  EXPECT_EQ(state_of(now, 1), "failed");
  EXPECT_THAT(now.at("jobs").at(0).at("error").get<std::string>(), HasSubstr("out_of_memory"));
  EXPECT_EQ(now.at("counters").at("runs").at("failed"), 1);
}

TEST(Serve, SubmittersShellDecides) {
  Scene scene;
  Running daemon = start_daemon(scene);
  // The daemon does not know this trainer.
  scene.set("AUTOTUNED_TRAINER=/bin/true");
  const Outcome outcome = ended(1, scene.run());
  EXPECT_THAT(outcome.err, HasSubstr("before it said hello"));
}

}  // namespace
}  // namespace autotuned
