// SPDX-License-Identifier: Apache-2.0
// Many trials through one daemon, with the fake trainer: after the first tenth its memory may grow by one
// per cent, its descriptors not at all, and it stays under 30 MB.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "tests/faults/evidence.hpp"
#include "tests/faults/processes.hpp"
#include "tests/integration/scene.hpp"

namespace {

using namespace autotuned;

#if defined(__SANITIZE_ADDRESS__)
constexpr std::int64_t kMaxBytes = 1'000'000'000;  // most of it the sanitizer's
#else
constexpr std::int64_t kMaxBytes = 30'000'000;
#endif
constexpr double kMaxGrowth = 0.01;
constexpr int kRows = 10;

struct Use {
  int runs = 0;
  std::int64_t trials = 0;
  std::int64_t resident_bytes = 0;
  std::int64_t descriptors = 0;
};

std::int64_t descriptors_of(pid_t process) {
  const auto folder = "/proc/" + std::to_string(process) + "/fd";
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

// Whether it gets down to `most`: the end of the last client is seen a moment after that client.
bool has_at_most(pid_t process, std::int64_t most) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (descriptors_of(process) > most) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

Use use_of(const Scene& scene, pid_t daemon) {
  const Json status = scene.command({"status", "--json"}).json();
  Use use;
  for (const auto& [verdict, count] : member(member(status, "counters"), "trials").items())
    use.trials += count.get<std::int64_t>();
  use.resident_bytes = get_integer(member(status, "memory"), "daemon_bytes").value_or(0);
  use.descriptors = descriptors_of(daemon);
  return use;
}

void print(const Use& use) {
  std::printf("| %d | %lld | %.2f MB | %lld |\n", use.runs, static_cast<long long>(use.trials),
              static_cast<double>(use.resident_bytes) / 1e6,
              static_cast<long long>(use.descriptors));
  std::fflush(stdout);
}

// The larger one of each figure: a single look may meet a moment at which it is low.
Use most_of(const Use& one, const Use& other) {
  return {.runs = std::max(one.runs, other.runs),
          .trials = std::max(one.trials, other.trials),
          .resident_bytes = std::max(one.resident_bytes, other.resident_bytes),
          .descriptors = std::max(one.descriptors, other.descriptors)};
}

// The most that it used until a tenth of `trials` was done, and later.
std::pair<Use, Use> drive(const Scene& scene, Running& daemon, std::int64_t trials) {
  std::printf("| runs | trials | resident | descriptors |\n|---|---|---|---|\n");
  Use early;
  Use most;
  bool is_early = true;
  Use now;
  std::int64_t next_row = 0;
  while (now.trials < trials) {
    // The fake reads its whole record at each request.
    scene.fake().forget_requests();
    if (const Outcome run = scene.run({"--retune"}); run.code != 0) {
      faults::report_wrong("a run ended with " + std::to_string(run.code) + ": " + run.err);
      break;
    }
    const int runs = now.runs + 1;
    daemon.take_output();  // its log
    now = use_of(scene, daemon.pid());
    now.runs = runs;
    Use& part = is_early ? early : most;
    part = most_of(part, now);
    is_early = is_early && now.trials < trials / 10;
    if (now.trials < next_row) continue;
    print(now);
    next_row = now.trials + trials / kRows;
  }
  print(now);
  return {early, most};
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t trials = 10'000;
  CLI::App app{"Sends many trials through one daemon and looks at what it uses"};
  app.add_option("--trials", trials)->capture_default_str()->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  testing::InitGoogleTest();

  const Scene scene;
  Running daemon = scene.start({"serve"});
  if (!daemon.wait_for(" serving ")) faults::report_wrong("the daemon does not serve");
  const auto [early, most] = drive(scene, daemon, trials);
  if (most.resident_bytes > kMaxBytes) faults::report_wrong("it takes more than 30 MB");
  if (!has_at_most(daemon.pid(), early.descriptors)) {
    faults::report_wrong("descriptors are left open");
  }
  const double growth =
      static_cast<double>(most.resident_bytes) / static_cast<double>(early.resident_bytes) - 1;
  std::printf("most after the first tenth: %.2f MB, %+.2f %%, and %lld descriptors\n",
              static_cast<double>(most.resident_bytes) / 1e6, 100 * growth,
              static_cast<long long>(most.descriptors));
  // A short form is over before what is allocated once is there.
  if (most.trials >= 10'000 && growth > kMaxGrowth) faults::report_wrong("its memory grows");
  if (scene.command({"stop"}).code != 0) faults::report_wrong("it does not stop");
  if (daemon.finish().code != 0) faults::report_wrong("it does not end well");
  return faults::wrong() == 0 ? 0 : 1;
}
