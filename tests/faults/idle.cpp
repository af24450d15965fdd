// SPDX-License-Identifier: Apache-2.0
// A daemon that nobody asks, before its first run and after it: it must not wake up, and stay small.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "tests/faults/evidence.hpp"
#include "tests/integration/scene.hpp"

namespace {

using namespace autotuned;

#if defined(__SANITIZE_ADDRESS__)
constexpr std::int64_t kMostKilobytes = 1'000'000;  // most of it the sanitizer's
#else
constexpr std::int64_t kMostKilobytes = 15'000;
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
  if (after.resident_kb > kMostKilobytes) faults::report_wrong(std::string(when) + ": too large");
}

}  // namespace

int main(int argc, char** argv) {
  int settling = 35;
  int seconds = 60;
  CLI::App app{"Watches a daemon that nobody asks"};
  // The clock of a connection that was closed rings once, up to 30 s later.
  app.add_option("--settling", settling, "Seconds that are not watched")->capture_default_str();
  app.add_option("--seconds", seconds, "Seconds that are")->capture_default_str();
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
  return faults::wrong() == 0 ? 0 : 1;
}
