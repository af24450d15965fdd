// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/trainer_client.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/file.hpp"
#include "base/process/resident_memory.hpp"
#include "tests/daemon/trainers/fake_scene.hpp"
#include "tests/daemon/trainers/fake_session.hpp"

namespace autotuned::daemon {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

class TrainerClientTest : public testing::Test {
 protected:
  Result<TrainerClient> start(const Json& faults, const Json& more = Json::object()) {
    Json behaviour = more;
    behaviour["faults"] = faults;
    scene_.behave(behaviour);
    TrainerSpec spec;
    spec.program = scene_.trainer();
    spec.environment = {"PATH=/usr/bin:/bin"};
    spec.log = scene_.folder() / "trainer.log";
    spec.inherited_locks = locks_;
    spec.on_end = [this](TrainerEnd end) { ends_.push_back(std::move(end)); };
    spec.system_root = system_root_;
    spec.stopped_limit = stopped_limit_;
    return TrainerClient::start(spec, cancel_);
  }
  static Json prepared() { return {{"configuration", Json::object()}}; }

  FakeScene scene_;
  CancelSwitch cancel_;
  std::vector<int> locks_;
  std::vector<TrainerEnd> ends_;
  std::string system_root_;
  std::chrono::nanoseconds stopped_limit_{0};
};

TEST_F(TrainerClientTest, AsksAndStops) {
  auto client = start(Json::array());
  ASSERT_TRUE(client) << client.error().message();
  EXPECT_EQ(client->hello().at("trainer"), "fake 1");
  EXPECT_TRUE(client->request("load", prepared(), seconds(20)));
  auto block = client->request("run", {{"minimum_ns", 1000}}, seconds(20));
  ASSERT_TRUE(block);
  EXPECT_GT(block->at("samples"), 0);
  client->stop();
  EXPECT_FALSE(client->is_alive());
  EXPECT_EQ(client->request("run", {}, seconds(20)).error().kind, ErrorKind::crashed);
  EXPECT_EQ(scene_.requests("stop").size(), 1);
}

// A cold disk takes minutes to deliver LibTorch for CUDA: longer than any other answer may take.
TEST_F(TrainerClientTest, ATrainerThatDoesNotSayHelloIsEnded) {
  EXPECT_GE(TrainerSpec{}.hello_limit, std::chrono::minutes(5));
  scene_.behave({{"faults", {{{"do", "hang"}, {"request", "hello"}}}}});
  TrainerSpec spec;
  spec.program = scene_.trainer();
  spec.environment = {"PATH=/usr/bin:/bin"};
  spec.log = scene_.folder() / "trainer.log";
  spec.hello_limit = std::chrono::milliseconds(20);
  const auto client = TrainerClient::start(spec, cancel_);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().kind, ErrorKind::timeout);
}

TEST_F(TrainerClientTest, ASuspendedTrainerGoesOnWhenItIsAskedAndWhenItIsStopped) {
  auto client = start(Json::array());
  ASSERT_TRUE(client);
  ASSERT_TRUE(client->request("load", prepared(), seconds(20)));
  client->suspend();
  EXPECT_TRUE(client->is_suspended());
  ASSERT_TRUE(client->request("run", {{"minimum_ns", 1000}}, seconds(20)));
  EXPECT_FALSE(client->is_suspended());
  client->suspend();
  client->stop();
  EXPECT_EQ(scene_.requests("stop").size(), 1);
  EXPECT_TRUE(ends_.empty());
}

// Its connection does not tell. What the session has stopped itself does not count.
TEST_F(TrainerClientTest, ATrainerThatOthersStopIsEnded) {
  stopped_limit_ = std::chrono::milliseconds(300);
  auto client = start(Json::array());
  ASSERT_TRUE(client) << client.error().message();
  client->suspend();
  std::this_thread::sleep_for(2 * stopped_limit_);
  EXPECT_TRUE(client->request("load", prepared(), seconds(20)));
  kill(client->pid(), SIGSTOP);
  const auto answer = client->request("run", {{"minimum_ns", 1000}}, seconds(20));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::crashed);
  EXPECT_THAT(answer.error().what, HasSubstr("was stopped (SIGSTOP) for 300 ms during 'run'"));
  EXPECT_FALSE(client->is_alive());
}

// A stopped process gets SIGKILL all the same when its parent goes.
TEST_F(TrainerClientTest, ASuspendedTrainerDiesWithItsSession) {
  scene_.behave(Json::object());
  SocketPair told = socket_pair().value();
  const pid_t session = fork();
  if (session == 0) {
    TrainerSpec spec;
    spec.program = scene_.trainer();
    spec.environment = {"PATH=/usr/bin:/bin", "AUTOTUNED_PARENT_PID=" + std::to_string(getpid())};
    spec.log = scene_.folder() / "trainer.log";
    auto client = TrainerClient::start(spec, cancel_);
    if (!client) _exit(1);
    client->suspend();
    const pid_t trainer = client->pid();
    if (write(told.theirs.get(), &trainer, sizeof trainer) != sizeof trainer) _exit(1);
    raise(SIGKILL);
  }
  told.theirs.reset();
  pid_t trainer = 0;
  ASSERT_EQ(read(told.ours.get(), &trainer, sizeof trainer), sizeof trainer);
  ASSERT_EQ(waitpid(session, nullptr, 0), session);
  const std::string stat = "/proc/" + std::to_string(trainer) + "/stat";
  for (;;) {
    const auto text = read_file(stat, 4096);
    if (!text) break;  // it is gone, or nobody has reaped it yet
    if (text->at(text->rfind(')') + 2) == 'Z') break;
  }
}

TEST_F(TrainerClientTest, TheTimeLimitEndsOneThatWasSuspended) {
  auto client = start({{{"do", "hang"}, {"request", "run"}}});
  ASSERT_TRUE(client);
  client->suspend();
  EXPECT_EQ(client->request("run", {}, std::chrono::milliseconds(50)).error().kind,
            ErrorKind::timeout);
  EXPECT_FALSE(client->is_alive());
}

// More than the socket takes, to one that never reads it.
TEST_F(TrainerClientTest, ATrainerThatDoesNotReadIsEnded) {
  auto client = start(Json::array(), {{"hangs_after_hello", 1}});
  ASSERT_TRUE(client);
  const Json fields = {{"recipe", std::string(std::size_t{8} << 20U, 'x')}};
  const auto answer = client->request("load", fields, std::chrono::milliseconds(50));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::timeout) << answer.error().message();
  EXPECT_FALSE(client->is_alive());
}

TEST_F(TrainerClientTest, MissingProgramIsNamed) {
  TrainerSpec spec;
  spec.program = "/nowhere/trainer";
  const auto client = TrainerClient::start(spec, cancel_);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().kind, ErrorKind::not_found);
}

TEST_F(TrainerClientTest, HelloThatIsNone) {
  struct Case {
    Json fault;
    ErrorKind kind;
    const char* text;
  };
  const std::vector<Case> cases = {
      {{{"do", "exit"}, {"code", 9}, {"request", "hello"}}, ErrorKind::crashed, "exit code 9"},
      {{{"do", "half_frame_and_exit"}, {"request", "hello"}}, ErrorKind::crashed, "said hello"},
      {{{"do", "garbage"}, {"request", "hello"}}, ErrorKind::unsupported, "instead of hello"}};
  for (const Case& one : cases) {
    const auto client = start(Json::array({one.fault}));
    ASSERT_FALSE(client);
    EXPECT_EQ(client.error().kind, one.kind) << client.error().message();
    EXPECT_THAT(client.error().message(), HasSubstr(one.text));
    EXPECT_THAT(client.error().message(), HasSubstr("fake: "));  // the log's last lines
  }
  const auto other = start(Json::array(), {{"protocol", 2}});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, ErrorKind::unsupported);
}

TEST_F(TrainerClientTest, EachFaultHasItsKind) {
  struct Case {
    Json fault;
    ErrorKind kind;
    bool lives;
  };
  const std::vector<Case> cases = {
      {{{"do", "exit"}}, ErrorKind::crashed, false},
      {{{"do", "abort"}}, ErrorKind::crashed, false},
      {{{"do", "half_frame_and_exit"}}, ErrorKind::crashed, false},
      {{{"do", "hang"}}, ErrorKind::timeout, false},
      {{{"do", "half_frame"}}, ErrorKind::timeout, false},
      {{{"do", "garbage"}}, ErrorKind::internal, false},
      {{{"do", "other_id"}}, ErrorKind::internal, false},
      {{{"do", "no_answer_in_it"}}, ErrorKind::internal, false},
      {{{"do", "error"}, {"kind", "internal"}}, ErrorKind::internal, false},
      {{{"do", "error"}, {"kind", "cancelled"}}, ErrorKind::internal, false},
      {{{"do", "error"}, {"kind", "out_of_memory"}}, ErrorKind::out_of_memory, true},
      {{{"do", "error"}, {"kind", "unsupported"}}, ErrorKind::unsupported, true}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.fault.dump());
    Json fault = one.fault;
    fault["request"] = "digest";
    auto client = start(Json::array({fault}));
    ASSERT_TRUE(client);
    const auto limit = one.kind == ErrorKind::timeout ? std::chrono::milliseconds(50)
                                                      : std::chrono::milliseconds(20'000);
    const auto answer = client->request("digest", Json::object(), limit);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().kind, one.kind) << answer.error().message();
    EXPECT_EQ(client->is_alive(), one.lives);
    if (one.lives) {
      EXPECT_TRUE(client->request("restore", {{"name", "initial"}}, seconds(20)));
    } else if (one.fault.at("do") != "error") {
      EXPECT_THAT(answer.error().message(), HasSubstr("fake: "));
    }
  }
}

TEST_F(TrainerClientTest, EachEndHasItsOutcomeByEvidence) {
  struct Case {
    Json fault;
    TrainerOutcome outcome;
    std::optional<int> exit_code;
    std::optional<int> signal;
  };
  const std::vector<Case> cases = {
      {{{"do", "exit"}, {"code", 7}}, TrainerOutcome::exited, 7, std::nullopt},
      {{{"do", "half_frame_and_exit"}}, TrainerOutcome::exited, 0, std::nullopt},
      {{{"do", "abort"}}, TrainerOutcome::crashed, std::nullopt, SIGABRT},
      {{{"do", "kill_self"}}, TrainerOutcome::lost, std::nullopt, SIGKILL},
      {{{"do", "hang"}}, TrainerOutcome::hung, std::nullopt, std::nullopt},
      {{{"do", "progress_forever"}}, TrainerOutcome::hung, std::nullopt, std::nullopt},
      {{{"do", "garbage"}}, TrainerOutcome::lost, std::nullopt, std::nullopt},
      {{{"do", "error"}, {"kind", "out_of_memory"}},
       TrainerOutcome::out_of_host_memory,
       std::nullopt,
       std::nullopt}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.fault.dump());
    Json fault = one.fault;
    fault["request"] = "digest";
    auto client = start(Json::array({fault}));
    ASSERT_TRUE(client);
    ends_.clear();
    const auto limit = std::chrono::milliseconds(one.outcome == TrainerOutcome::hung ? 50 : 20'000);
    EXPECT_FALSE(client->request("digest", Json::object(), limit));
    ASSERT_EQ(ends_.size(), 1U);
    EXPECT_EQ(to_string(ends_[0].outcome), to_string(one.outcome));
    EXPECT_EQ(ends_[0].request, "digest");
    EXPECT_EQ(ends_[0].exit_code, one.exit_code);
    EXPECT_EQ(ends_[0].signal, one.signal);
    EXPECT_EQ(ends_[0].has_told, one.fault.at("do") == "error");
  }
  // One that does as it is told has nothing to say of itself.
  ends_.clear();
  auto client = start(Json::array());
  ASSERT_TRUE(client);
  EXPECT_TRUE(client->request("digest", Json::object(), seconds(20)));
  client->stop();
  EXPECT_TRUE(ends_.empty());
}

// A SIGKILL alone says nothing of memory; what the kernel has counted does.
TEST_F(TrainerClientTest, KillOfTheKernelIsKnownByItsCount) {
  const auto counter = scene_.folder().write("sys/fs/cgroup/job/memory.events", "oom_kill 0\n");
  scene_.folder().write("proc/self/cgroup", "0::/job\n");
  scene_.folder().write("proc/self/mountinfo",
                        "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  system_root_ = scene_.folder().path().string();
  auto client = start({{{"do", "oom_kill"}, {"counter", counter.string()}, {"request", "digest"}}});
  ASSERT_TRUE(client) << client.error().message();
  const auto answer = client->request("digest", Json::object(), seconds(20));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::out_of_memory) << answer.error().message();
  ASSERT_EQ(ends_.size(), 1U);
  EXPECT_EQ(ends_[0].signal, SIGKILL);
  EXPECT_EQ(ends_[0].outcome, TrainerOutcome::out_of_host_memory);
  EXPECT_EQ(ends_[0].oom_kills, 1);
}

// The first of several ranks lives on, and says what it has seen.
TEST_F(TrainerClientTest, KillOfAnotherRankIsKnownByItsCount) {
  const auto counter = scene_.folder().write("sys/fs/cgroup/job/memory.events", "oom_kill 0\n");
  scene_.folder().write("proc/self/cgroup", "0::/job\n");
  scene_.folder().write("proc/self/mountinfo",
                        "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  system_root_ = scene_.folder().path().string();
  const Json killed = {{"do", "error"},
                       {"kind", "crashed"},
                       {"what", "rank 1 of 2 ended: signal 9 (Killed)"},
                       {"signal", 9},
                       {"request", "digest"}};
  Json for_memory = killed;
  for_memory["counter"] = counter.string();
  for (const bool is_for_memory : {false, true}) {
    ends_.clear();
    auto client = start(Json::array({is_for_memory ? for_memory : killed}));
    ASSERT_TRUE(client) << client.error().message();
    const auto answer = client->request("digest", Json::object(), seconds(20));
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().kind, is_for_memory ? ErrorKind::out_of_memory : ErrorKind::crashed);
    EXPECT_THAT(answer.error().what, testing::StartsWith("rank 1 of 2 ended: signal 9"));
    EXPECT_EQ(ends_.size(), is_for_memory ? 1U : 0U);
    EXPECT_TRUE(client->is_alive());
  }
}

// Whatever its sentence says.
TEST_F(TrainerClientTest, AnErrorWithoutASignalIsNoKill) {
  const auto counter = scene_.folder().write("sys/fs/cgroup/job/memory.events", "oom_kill 0\n");
  scene_.folder().write("proc/self/cgroup", "0::/job\n");
  scene_.folder().write("proc/self/mountinfo",
                        "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  system_root_ = scene_.folder().path().string();
  auto client = start({{{"do", "error"},
                        {"kind", "crashed"},
                        {"what", "a program of the job ended: signal 9 (Killed)"},
                        {"counter", counter.string()},
                        {"request", "digest"}}});
  ASSERT_TRUE(client) << client.error().message();
  const auto answer = client->request("digest", Json::object(), seconds(20));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::crashed);
  EXPECT_EQ(answer.error().signal, 0);
}

TEST_F(TrainerClientTest, MemoryBeyondTheLimitEndsIt) {
  constexpr std::int64_t kBytes = 200 << 20;
  auto client = start({{{"do", "eat"}, {"bytes", kBytes}, {"request", "digest"}}});
  ASSERT_TRUE(client);
  const std::int64_t before = resident_bytes(client->pid());
  EXPECT_GT(before, 0);
  client->limit_memory(before + kBytes / 2);
  EXPECT_TRUE(client->request("load", prepared(), seconds(20)));
  const auto answer = client->request("digest", Json::object(), seconds(20));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::out_of_memory) << answer.error().message();
  EXPECT_FALSE(client->is_alive());
  ASSERT_EQ(ends_.size(), 1U);
  EXPECT_EQ(ends_[0].outcome, TrainerOutcome::out_of_host_memory);
}

TEST_F(TrainerClientTest, MemoryOfItsChildrenCounts) {
  constexpr std::int64_t kBytes = 120 << 20;
  auto client = start({{{"do", "eat"}, {"bytes", kBytes}, {"children", 2}, {"request", "digest"}}});
  ASSERT_TRUE(client) << client.error().message();
  // Room for one of them.
  client->limit_memory(resident_bytes(client->pid()) + kBytes + kBytes / 2);
  const auto answer = client->request("digest", Json::object(), seconds(60));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::out_of_memory) << answer.error().message();
  ASSERT_EQ(ends_.size(), 1U);
  EXPECT_EQ(ends_[0].outcome, TrainerOutcome::out_of_host_memory);
}

TEST_F(TrainerClientTest, KernelIsToChooseATrainerBeforeOthers) {
  const auto client = start(Json::array());
  ASSERT_TRUE(client) << client.error().message();
  std::ifstream score("/proc/" + std::to_string(client->pid()) + "/oom_score_adj");
  int value = 0;
  EXPECT_TRUE(score >> value);
  EXPECT_EQ(value, 1000);
}

// A limit that each word starts anew would be none.
TEST_F(TrainerClientTest, ProgressForEverIsAHang) {
  for (const bool is_advance : {false, true}) {
    auto client = start({{{"do", "progress_forever"}, {"request", "digest"}}});
    ASSERT_TRUE(client) << client.error().message();
    int told = 0;
    int further = 0;
    const auto answer = client->request(
        "digest", Json::object(), std::chrono::milliseconds(200), [&](const Json&) { ++told; },
        [&](const Json&) { return is_advance && ++further <= 3; });
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().kind, ErrorKind::timeout) << answer.error().message();
    EXPECT_GT(told, 3);
    EXPECT_FALSE(client->is_alive());
  }
}

TEST_F(TrainerClientTest, CancelIsSeenAmongMuchProgress) {
  auto client =
      start({{{"do", "progress_forever"}, {"until_cancel", true}, {"request", "digest"}}});
  ASSERT_TRUE(client) << client.error().message();
  int told = 0;
  const auto answer = client->request("digest", Json::object(), seconds(600), [&](const Json&) {
    if (++told == 10) cancel_.request();
  });
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::cancelled) << answer.error().message();
  EXPECT_TRUE(client->is_alive());
}

// The trainer met it before it heard of the cancel.
TEST_F(TrainerClientTest, DamageIsToldAlsoOnACancel) {
  auto client = start({{{"do", "progress_forever"},
                        {"until_cancel", true},
                        {"request", "digest"},
                        {"kind", "corrupt"}}});
  ASSERT_TRUE(client) << client.error().message();
  int told = 0;
  std::string warning;
  const auto answer =
      client->request("digest", Json::object(), seconds(600), [&](const Json& progress) {
        if (++told == 10) cancel_.request();
        warning = get_string(progress, "warning").value_or("");
      });
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::cancelled) << answer.error().message();
  EXPECT_EQ(warning, "fake: corrupt");
}

// Whoever started it may be gone: its device is in use as long as it lives.
TEST_F(TrainerClientTest, LocksOfItsDeviceLiveAsLongAsItDoes) {
  const auto file = scene_.folder() / "device.lock";
  auto lock = lock_file(file, "a run", /*wait=*/false);
  ASSERT_TRUE(lock);
  locks_ = {lock->get()};
  auto client = start(Json::array());
  ASSERT_TRUE(client) << client.error().message();
  lock->reset();
  EXPECT_EQ(lock_file(file, "another", /*wait=*/false).error().kind, ErrorKind::busy);
  client->stop();
  EXPECT_TRUE(lock_file(file, "another", /*wait=*/false));
}

// Eight times as much as is kept, and the newest stays.
TEST_F(TrainerClientTest, LogOfATrainerThatPrintsMuchStaysSmall) {
  constexpr std::uintmax_t kMaxBytes = std::uintmax_t{1} << 20U;
  constexpr int kKilobytes = 8 * 1024;
  const auto kept = [&] {
    return std::filesystem::file_size(scene_.folder() / "trainer.log") +
           std::filesystem::file_size(scene_.folder() / "trainer.log.1");
  };
  {
    auto client = start({{{"do", "print"}, {"kilobytes", kKilobytes}, {"request", "digest"}}});
    ASSERT_TRUE(client) << client.error().message();
    EXPECT_TRUE(client->request("digest", Json::object(), seconds(60)));
    EXPECT_TRUE(client->request("restore", {{"name", "initial"}}, seconds(20)));
    client->stop();
  }
  EXPECT_LE(kept(), kMaxBytes);
  EXPECT_THAT(scene_.folder().read("trainer.log"), testing::EndsWith("\nfake: printed\n"));

  auto client =
      start({{{"do", "print"}, {"kilobytes", kKilobytes}, {"exits", true}, {"request", "digest"}}});
  ASSERT_TRUE(client) << client.error().message();
  const auto answer = client->request("digest", Json::object(), seconds(60));
  ASSERT_FALSE(answer);
  ASSERT_FALSE(ends_.empty());
  EXPECT_EQ(ends_.back().exit_code, 3);
  EXPECT_THAT(answer.error().message(), HasSubstr("\nfake: printed"));
  EXPECT_LE(kept(), kMaxBytes);
}

TEST_F(TrainerClientTest, LogIsOfOneTrainerAlone) {
  for (const int code : {7, 8}) {
    const auto client = start({{{"do", "exit"}, {"code", code}, {"request", "hello"}}});
    ASSERT_FALSE(client);
    EXPECT_THAT(client.error().message(), HasSubstr("exit code " + std::to_string(code)));
  }
  EXPECT_EQ(scene_.folder().read("trainer.log"), "fake: exit at hello\n");
  EXPECT_EQ(scene_.folder().read("trainer.log.1"), "fake: exit at hello\n");
}

TEST_F(TrainerClientTest, CancelIsPassedOnAndTheAnswerCounts) {
  auto client = start({{{"do", "pause"}, {"request", "train_step"}, {"step", 3}}});
  ASSERT_TRUE(client);
  std::optional<Descriptor> gate;
  const Json request = {{"checkpoint_path", (scene_.folder() / "checkpoint").string()},
                        {"resume", true}};
  // It waits before the fourth step: the cancel is there before it goes on.
  const auto trained = client->request("train", request, seconds(20), [&](const Json& progress) {
    if (get_integer(progress, "step").value_or(0) != 3) return;
    cancel_.request();
    gate.emplace(scene_.open_gate());
  });
  ASSERT_TRUE(trained) << trained.error().message();
  EXPECT_TRUE(client->is_alive());
  // The next request is not even sent.
  EXPECT_EQ(client->request("run", {}, seconds(20)).error().kind, ErrorKind::cancelled);
  EXPECT_TRUE(scene_.requests("run").empty());
}

}  // namespace
}  // namespace autotuned::daemon
