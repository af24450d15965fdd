// SPDX-License-Identifier: Apache-2.0
// A daemon that nobody asks, before its first run and after it: it must not wake up, and stay small. Then, as figures
// only: how long one takes from its start to its first answer, and from SIGTERM to its end.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/frame.hpp"
#include "daemon/queue/protocol.hpp"
#include "daemon/queue/socket.hpp"
#include "tests/faults/evidence.hpp"
#include "tests/integration/scene.hpp"

namespace {

using namespace autotuned;

#if defined(__SANITIZE_ADDRESS__)
constexpr std::int64_t kMaxKilobytes = 1'000'000;  // most of it the sanitizer's
#else
constexpr std::int64_t kMaxKilobytes = 15'000;
#endif

struct Use {
  std::int64_t resident_kb = 0;
  std::int64_t own_kb = 0;    // what is not a file's
  std::int64_t wake_ups = 0;  // since it began
};

Use use_of(pid_t process) {
  Use use;
  std::ifstream input("/proc/" + std::to_string(process) + "/status");
  std::string name;
  while (input >> name) {
    if (name == "VmRSS:") input >> use.resident_kb;
    if (name == "RssAnon:") input >> use.own_kb;
    if (name == "voluntary_ctxt_switches:") input >> use.wake_ups;
  }
  return use;
}

void watch(const char* when, pid_t daemon, std::chrono::seconds settling,
           std::chrono::seconds time) {
  std::this_thread::sleep_for(settling);
  const Use before = use_of(daemon);
  std::this_thread::sleep_for(time);
  const Use after = use_of(daemon);
  const std::int64_t wake_ups = after.wake_ups - before.wake_ups;
  std::printf("| %s | %lld kB | %lld kB | %lld in %lld s |\n", when,
              static_cast<long long>(after.resident_kb), static_cast<long long>(after.own_kb),
              static_cast<long long>(wake_ups), static_cast<long long>(time.count()));
  std::fflush(stdout);
  if (before.wake_ups == 0) faults::report_wrong("the kernel does not tell of wake-ups");
  if (wake_ups != 0) faults::report_wrong(std::string(when) + ": it wakes up without a reason");
  if (after.resident_kb > kMaxKilobytes) faults::report_wrong(std::string(when) + ": too large");
}

using Moment = std::chrono::steady_clock::time_point;

Moment now() {
  return std::chrono::steady_clock::now();
}

double ms_since(Moment begin) {
  return std::chrono::duration<double, std::milli>(now() - begin).count();
}

// On the socket itself: a command would take its own time to start.
bool is_answered(const Scene& scene) {
  auto socket = autotuned::daemon::connect_to_daemon(scene.folder() / "run/autotuned/daemon.sock");
  if (!socket || !*socket) return false;
  FrameChannel channel(*std::move(*socket));
  if (!channel.send({{"protocol", autotuned::daemon::kDaemonProtocol}, {"request", "status"}})) {
    return false;
  }
  const auto answer = channel.receive(std::chrono::seconds(10));
  return answer && member(*answer, "ok").is_object();
}

enum class Busy {
  with_nothing,
  with_a_run,
  with_a_deaf_session,  // of a run: it is killed in the end
};

struct Times {
  double answered_ms = 0;
  double ended_ms = 0;
};

Times start_and_stop(Busy busy) {
  Json behaviour = Scene::fast_job();
  behaviour["faults"] = {{{"do", "await_cancel"}, {"request", "train_step"}, {"step", 1}}};
  const Scene scene{behaviour};
  Times times;
  const Moment start = now();
  Running serving = scene.start({"serve"});
  if (!serving.wait_for(" serving ") || !is_answered(scene)) {
    faults::report_wrong("the daemon does not answer");
  }
  times.answered_ms = ms_since(start);

  std::optional<Running> watcher;
  if (busy != Busy::with_nothing) {
    if (scene.command({"run", scene.recipe().string(), "--detach"}).code != 0) {
      faults::report_wrong("the daemon takes no run");
    }
    watcher.emplace(scene.start({"attach", "last"}));
    if (!watcher->wait_for("\ntraining ")) faults::report_wrong("the run does not train");
  }
  if (busy == Busy::with_a_deaf_session) {
    const pid_t session = scene.session_of(serving.pid());
    if (session <= 0 || kill(session, SIGSTOP) != 0) faults::report_wrong("there is no session");
  }
  const Moment asked = now();
  serving.signal(SIGTERM);
  if (serving.finish().code != 0) faults::report_wrong("the daemon does not end well");
  times.ended_ms = ms_since(asked);
  if (watcher) {
    watcher->signal(SIGKILL);  // it waits for the next daemon
    static_cast<void>(watcher->finish());
  }
  if (!scene.all_ended()) faults::report_wrong("a process is left");
  return times;
}

void print_times(const char* busy, const char* event, std::vector<double> times_ms) {
  std::ranges::sort(times_ms);
  std::printf("| %s | %s | %.1f ms | %.1f ms |\n", busy, event, times_ms[times_ms.size() / 2],
              times_ms.back());
  std::fflush(stdout);
}

void time_starts_and_stops(int starts) {
  std::printf("\n| daemon | time | median of %d | longest |\n|---|---|---|---|\n", starts);
  for (const auto& [busy, name] : {std::pair(Busy::with_nothing, "nothing to do"),
                                   std::pair(Busy::with_a_run, "a run that trains"),
                                   std::pair(Busy::with_a_deaf_session, "a session that hangs")}) {
    std::vector<double> answered_ms;
    std::vector<double> ended_ms;
    for (int i = 0; i < starts; ++i) {
      const Times times = start_and_stop(busy);
      answered_ms.push_back(times.answered_ms);
      ended_ms.push_back(times.ended_ms);
    }
    if (busy == Busy::with_nothing) {
      print_times(name, "start to first answer", std::move(answered_ms));
    }
    print_times(name, "SIGTERM to end", std::move(ended_ms));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int settling = 35;
  int seconds = 60;
  int starts = 10;
  CLI::App app{"Watches a daemon that nobody asks"};
  // The clock of a connection that was closed rings once, up to 30 s later.
  app.add_option("--settling", settling, "Seconds that are not watched")->capture_default_str();
  app.add_option("--seconds", seconds, "Seconds that are")->capture_default_str();
  app.add_option("--starts", starts, "Daemons of each kind that are started and stopped")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  testing::InitGoogleTest();

  const Scene scene;
  Running daemon = scene.start({"serve"});
  if (!daemon.wait_for(" serving ")) faults::report_wrong("the daemon does not serve");
  std::printf("| | resident | its own | wake-ups |\n|---|---|---|---|\n");
  const std::chrono::seconds not_watched(settling);
  const std::chrono::seconds watched(seconds);
  watch("before a run", daemon.pid(), not_watched, watched);
  faults::check_right(scene.run(), "the run");
  watch("after a run", daemon.pid(), not_watched, watched);
  if (scene.command({"stop"}).code != 0) faults::report_wrong("it does not stop");
  if (daemon.finish().code != 0) faults::report_wrong("it does not end well");
  time_starts_and_stops(starts);
  return faults::wrong() == 0 ? 0 : 1;
}
