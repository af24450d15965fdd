// SPDX-License-Identifier: Apache-2.0
// The daemon is killed, or talked to by who means no good: the queue stays right.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "base/file.hpp"
#include "base/frame.hpp"
#include "storage/history.hpp"
#include "tests/integration/moments.hpp"
#include "tests/integration/scene.hpp"
#include "tests/integration/serving.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

// Each proposal was decided once, however often somebody was killed.
void expect_decided_once(const Json& run) {
  std::map<std::string, int> decided;
  for (const Json& trial : trials_with(run, "accepted"))
    ++decided[trial.at("kind").get<std::string>() + trial.at("change").dump()];
  for (const auto& [what, count] : decided)
    EXPECT_EQ(count, 1) << what;
  EXPECT_TRUE(trials_with(run, "running").empty());
  EXPECT_NEAR(run.at("best").at("speedup").get<double>(), 1.56, 0.03);
}

TEST(ServeKill, RunGoesOnWithTheNextDaemonAndItsClientWithIt) {
  std::vector<Json> moments =
      moments_of_a_run({{Phase::trial, 1}, {Phase::processes, 2}, {Phase::confirmation, 1}});
  for (const char* request : {"profile", "train", "save"})
    moments.push_back({{"request", request}, {"once", true}});
  moments.push_back({{"request", "train_step"}, {"step", 6}, {"once", true}});
  for (Json moment : moments) {
    SCOPED_TRACE(moment.dump());
    moment["do"] = "kill_program";
    const Scene scene{Scene::fast_job(moment)};
    Running daemon = start_daemon(scene);
    Running client = scene.start_run();
    ASSERT_EQ(daemon.finish().code, 128 + SIGKILL);
    Running next = start_daemon(scene);
    const Json outcome = result_of(client.finish());
    EXPECT_EQ(outcome.at("state"), "finished");
    EXPECT_EQ(outcome.at("training").at("steps"), 10);
    expect_decided_once(outcome);
    EXPECT_EQ(scene.runs().size(), 1);
    const Json job = status(scene).at("jobs").at(0);
    EXPECT_EQ(job.at("state"), "finished");
    EXPECT_EQ(job.at("restarts"), 1);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ServeKill, QueueKeepsItsOrderAtRandomMoments) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  const Scene scene;
  constexpr int kJobs = 3;
  {
    Running daemon = start_daemon(scene);
    for (int i = 0; i < kJobs; ++i)
      (void)detach(scene);
    daemon.signal(SIGKILL);
  }
  for (int kill = 0; kill < 8; ++kill) {
    Running daemon = start_daemon(scene);
    std::this_thread::sleep_for(
        std::chrono::milliseconds(std::uniform_int_distribution(0, 1500)(random)));
    daemon.end_at_once();
  }
  Running daemon = start_daemon(scene);
  EXPECT_EQ(scene.command({"attach", std::to_string(kJobs)}).code, 0);
  const Json jobs = status(scene).at("jobs");
  ASSERT_EQ(jobs.size(), kJobs);
  std::int64_t before = 0;
  for (const Json& job : jobs) {
    EXPECT_EQ(job.at("state"), "finished") << job.dump();
    EXPECT_GE(job.at("ended_unix_ns").get<std::int64_t>(), before);
    before = job.at("ended_unix_ns");
  }
  // Three jobs are three runs: none lost, none twice.
  EXPECT_EQ(scene.runs().size(), kJobs);
  const auto history = storage::History::open(scene.history(), storage::Access::read_only);
  EXPECT_EQ(history->check_integrity().map(&storage::Integrity::text).value_or("?"), "ok");
  EXPECT_EQ(scene.command({"stop"}).code, 0);
  EXPECT_TRUE(scene.all_ended());
}

TEST(ServeKill, FinishedRunIsNotRepeated) {
  const Scene scene;
  {
    Running daemon = start_daemon(scene);
    EXPECT_EQ(scene.run().code, 0);
    EXPECT_EQ(scene.command({"stop"}).code, 0);
  }
  // As if it had been killed before it could write down how the run ended.
  const std::string file = "xdg-state/autotuned/daemon/00000001.job.json";
  Json job = Json::parse(scene.folder().read(file));
  job["state"] = "running";
  scene.folder().write(file, job.dump());
  const Json before = scene.last_run();
  scene.fake().forget_requests();
  Running daemon = start_daemon(scene);
  EXPECT_EQ(scene.command({"attach", "1"}).code, 0);
  EXPECT_EQ(scene.last_run(), before);
  EXPECT_EQ(scene.runs().size(), 1);
  EXPECT_TRUE(scene.fake().requests("train").empty());
}

// The daemon was killed while it tuned; then a command by hand took the run over, and was interrupted while it trained.
TEST(ServeKill, RunThatATrainingTookOverIsNotTakenBack) {
  Json behaviour = Scene::fast_job();
  behaviour["faults"] = {{{"do", "pause"}, {"request", "profile"}, {"once", true}}};
  const Scene scene{behaviour};
  {
    Running daemon = start_daemon(scene);
    const std::string recipe = scene.recipe().string();
    ASSERT_EQ(scene.command({"run", recipe, "--tune-only", "--detach"}).code, 0);
    Running watcher = scene.start({"attach", "1"});
    ASSERT_TRUE(watcher.wait_for("ceiling "));
    daemon.end_at_once();
    watcher.signal(SIGKILL);
  }
  ASSERT_TRUE(scene.all_ended());
  behaviour["faults"] = {
      {{"do", "interrupt"}, {"request", "train_step"}, {"step", 4}, {"once", true}}};
  scene.fake().behave(behaviour);
  const Json interrupted = result_of(scene.run(), 130);
  const std::string run = interrupted.at("run");
  EXPECT_EQ(scene.runs().size(), 1);
  scene.fake().behave(Scene::fast_job());
  {
    Running daemon = start_daemon(scene);
    EXPECT_EQ(scene.command({"attach", "1"}).code, 0);
    EXPECT_EQ(scene.command({"stop"}).code, 0);
    daemon.finish();
  }
  EXPECT_EQ(scene.command({"show", run, "--json"}).json().at("state"), "cancelled");
  const Json outcome = result_of(scene.run());
  EXPECT_EQ(outcome.at("run"), run);
  EXPECT_GT(outcome.at("training").at("resumed_from_step"), 0);
}

// The end of a run was not told before it was on disk, so that a kill takes back nothing that was told.
TEST(ServeKill, EndThatCouldNotBeWrittenDownIsNotTold) {
  const Scene scene{Scene::fast_job({{"do", "pause"}, {"request", "train"}, {"once", true}})};
  const auto file = scene.folder() / "xdg-state/autotuned/daemon/00000001.job.json";
  const auto aside = scene.folder() / "aside";
  std::optional<Running> watcher;
  {
    Running daemon = start_daemon(scene);
    (void)detach(scene);
    watcher.emplace(scene.start({"attach", "1"}));
    ASSERT_TRUE(watcher->wait_for("\ntuned "));
    // A folder in its place keeps the file from being replaced.
    std::filesystem::rename(file, aside);
    std::filesystem::create_directories(file / "full");
    const Descriptor gate = scene.fake().open_gate();
    ASSERT_TRUE(daemon.wait_for("job_not_saved job=1"));
    ASSERT_TRUE(daemon.wait_for("job_ended job=1"));
    EXPECT_TRUE(watcher->wait_for("the end of the run cannot be stored yet"));
    const Json now = status(scene);
    EXPECT_EQ(now.at("jobs").at(0).at("saved"), false);
    EXPECT_EQ(now.at("counters").at("not_saved"), 1);
    daemon.end_at_once();
  }
  std::filesystem::remove_all(file);
  std::filesystem::rename(aside, file);
  Running next = start_daemon(scene);
  const Outcome outcome = ended(0, watcher->finish());
  EXPECT_THAT(outcome.err, HasSubstr("the next one goes on with it"));
  EXPECT_EQ(scene.runs().size(), 1);
  EXPECT_EQ(status(scene).at("jobs").at(0).at("saved"), true);
}

TEST(ServeKill, AcknowledgedCancelHolds) {
  const Scene scene{Scene::fast_job({{"do", "pause"}, {"request", "train"}})};
  {
    auto [daemon, watcher, session] = start_one_run(scene);
    EXPECT_EQ(scene.command({"cancel", "1"}).code, 0);
    daemon.end_at_once();
    watcher.signal(SIGKILL);
  }
  Running daemon = start_daemon(scene);
  EXPECT_EQ(status(scene).at("jobs").at(0).at("state"), "cancelled");
  EXPECT_EQ(scene.last_run().at("state"), "cancelled");
  EXPECT_EQ(scene.command({"attach", "1"}).code, 130);
}

// The daemon died between the acknowledgement and the end of a run that waited.
TEST(ServeKill, AcknowledgedCancelOfAWaitingRunHolds) {
  const Scene scene;
  {
    Running daemon = start_daemon(scene);
    EXPECT_EQ(scene.run().code, 0);
    EXPECT_EQ(scene.command({"stop"}).code, 0);
  }
  const std::string file = "xdg-state/autotuned/daemon/00000001.job.json";
  Json job = Json::parse(scene.folder().read(file));
  job["state"] = "queued";
  job["cancel_requested"] = true;
  scene.folder().write(file, job.dump());
  Running daemon = start_daemon(scene);
  EXPECT_EQ(scene.command({"attach", "1"}).code, 130);
  EXPECT_EQ(status(scene).at("jobs").at(0).at("state"), "cancelled");
}

TEST(ServeKill, SessionThatIsKilledIsStartedAgain) {
  const Scene scene{Scene::fast_job({{"do", "kill_session"}, {"at", 40}})};
  Running daemon = start_daemon(scene);
  const Outcome outcome = ended(0, scene.run());
  EXPECT_THAT(outcome.err, HasSubstr("it is started again"));
  const Json now = status(scene);
  EXPECT_EQ(now.at("jobs").at(0).at("restarts"), 1);
  EXPECT_EQ(now.at("counters").at("sessions").at("restarted"), 1);
}

// What PR_SET_PDEATHSIG does not reach: a process that outlived its daemon.
TEST(ServeKill, OrphansAreEndedBeforeTheDeviceIsUsedAgain) {
  const Scene scene{Scene::fast_job({{"do", "pause"}, {"request", "train"}})};
  std::optional<Running> orphan;
  {
    auto [daemon, watcher, session] = start_one_run(scene);
    const Json job =
        Json::parse(scene.folder().read("xdg-state/autotuned/daemon/00000001.job.json"));
    orphan.emplace(std::vector<std::string>{"/bin/sleep", "1000"},
                   std::vector<std::string>{"AUTOTUNED_JOB=" + job.at("token").get<std::string>()});
    daemon.end_at_once();
    watcher.signal(SIGKILL);
  }
  const Descriptor gate = scene.fake().open_gate();
  Running daemon = start_daemon(scene);
  EXPECT_EQ(orphan->finish().code, 128 + SIGKILL);
  EXPECT_GE(status(scene).at("counters").at("orphans_ended"), 1);
  EXPECT_EQ(scene.command({"attach", "1"}).code, 0);
}

// Until the next daemon has ended it: it has left the group, and has the locks that its trainer inherited.
TEST(ServeKill, DeviceStaysLockedByWhatAKilledDaemonLeftBehind) {
  const Scene scene{
      Scene::fast_job({{{"do", "leave_orphan"}, {"request", "profile"}, {"once", true}},
                       {{"do", "pause"}, {"request", "train"}}})};
  const auto lock = scene.folder() / "run/device-cpu.lock";
  {
    auto [daemon, watcher, session] = start_one_run(scene);
    std::set<pid_t> known = {scene.session_of(daemon.pid())};
    for (const Json& request : scene.fake().requests())
      known.insert(request.at("trainer").get<pid_t>());
    std::vector<Descriptor> ended;
    for (const pid_t process : known)
      ended.emplace_back(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
    daemon.end_at_once();
    watcher.signal(SIGKILL);
    for (const Descriptor& process : ended) {
      if (process.is_open()) {
        ASSERT_TRUE(wait_readable(process.get(), std::chrono::seconds(20)));
      }
    }
  }
  const auto taken = lock_file(lock, "a test", /*wait=*/false);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().kind, ErrorKind::busy);
  const Descriptor gate = scene.fake().open_gate();
  Running daemon = start_daemon(scene);
  EXPECT_GE(status(scene).at("counters").at("orphans_ended"), 1);
  EXPECT_EQ(scene.command({"attach", "1"}).code, 0);
  EXPECT_EQ(scene.command({"stop"}).code, 0);
  EXPECT_TRUE(scene.all_ended());
}

class Wire {
 public:
  explicit Wire(const Scene& scene) : socket_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = (scene.folder() / "run/autotuned/daemon.sock").string();
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    is_connected_ =
        connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  [[nodiscard]] bool is_connected() const { return is_connected_; }
  void send(const std::string& bytes) const {
    static_cast<void>(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  // Until the daemon closes.
  [[nodiscard]] std::string read_all() const {
    std::string text;
    std::array<char, 4096> bytes{};
    for (;;) {
      const ssize_t count = recv(socket_.get(), bytes.data(), bytes.size(), 0);
      if (count <= 0) return text;
      text.append(bytes.data(), static_cast<std::size_t>(count));
    }
  }

 private:
  Descriptor socket_;
  bool is_connected_ = false;
};

std::string frame_of(const std::string& body) {
  std::string frame;
  for (int i = 0; i < 4; ++i)
    frame += static_cast<char>((body.size() >> (8 * i)) & 0xffU);
  return frame + body;
}

TEST(ServeHostile, FramesAreRefusedAndTheDaemonGoesOn) {
  const Scene scene;
  Running daemon = start_daemon(scene);
  for (const std::string& bytes :
       {std::string("\xff\xff\xff\xff"), frame_of("{what"), frame_of("[]"),
        frame_of(std::string(100'000, '[')), std::string("GET / HTTP/1.1\r\n\r\n")}) {
    const Wire wire(scene);
    wire.send(bytes);
    EXPECT_THAT(wire.read_all(), HasSubstr("\"error\"")) << bytes.substr(0, 10);
  }
  const Wire wrong(scene);
  wrong.send(frame_of(R"({"protocol":9,"request":"status"})") + frame_of("!"));
  EXPECT_THAT(wrong.read_all(), HasSubstr("protocol 1, this program speaks 9"));
  const Wire half(scene);
  half.send(std::string("\xff\0\0\0{\"pro", 9));
  const Json now = status(scene);
  EXPECT_EQ(now.at("counters").at("requests_refused"), 1);
  EXPECT_EQ(now.at("counters").at("connections").at("dropped"), 6);
  EXPECT_EQ(scene.run().code, 0);
}

TEST(ServeHostile, ConnectionsAreCounted) {
  const Scene scene;
  Running daemon = start_daemon(scene);
  {
    std::vector<Wire> silent;
    for (int i = 0; i < 64; ++i)
      silent.emplace_back(scene);
    // It is told why, unless its question meets a socket that is closed already.
    EXPECT_EQ(scene.command({"status"}).code, 4);
  }
  // Their end is seen before the next one is taken.
  EXPECT_EQ(status(scene).at("connections"), 1);
}

// A watcher that reads nothing holds nobody up and costs no memory.
TEST(ServeHostile, WatcherThatDoesNotReadHoldsNobodyUp) {
  const Scene scene;
  Running daemon = start_daemon(scene);
  (void)detach(scene);
  std::vector<Wire> deaf;
  for (int i = 0; i < 20; ++i) {
    deaf.emplace_back(scene);
    deaf.back().send(frame_of(R"({"protocol":1,"request":"attach","job":"1","skip":0})"));
  }
  // Answers that nobody reads, for as long as the socket takes the questions.
  const Wire asking(scene);
  for (int i = 0; i < 1000; ++i)
    asking.send(frame_of(R"({"protocol":1,"request":"nothing"})"));
  EXPECT_EQ(scene.command({"attach", "1"}).code, 0);
  EXPECT_EQ(status(scene).at("jobs").at(0).at("state"), "finished");
}

TEST(ServeHostile, AnotherUserIsNotHeard) {
  if (geteuid() != 0) GTEST_SKIP() << "needs to become another user";
  const Scene scene;
  Running daemon = start_daemon(scene);
  for (const char* path : {"", "run", "run/autotuned"})
    chmod((scene.folder() / path).c_str(), 0755);
  chmod((scene.folder() / "run/autotuned/daemon.sock").c_str(), 0666);
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
    const Wire wire(scene);
    if (!wire.is_connected()) _exit(3);
    wire.send(frame_of(R"({"protocol":1,"request":"stop"})"));
    _exit(wire.read_all().empty() ? 0 : 1);
  }
  int end = 0;
  ASSERT_EQ(waitpid(child, &end, 0), child);
  EXPECT_EQ(WEXITSTATUS(end), 0);
  EXPECT_EQ(status(scene).at("counters").at("connections").at("refused"), 1);
}

}  // namespace
}  // namespace autotuned
