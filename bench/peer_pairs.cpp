// SPDX-License-Identifier: Apache-2.0
// Two jobs written in Python (bench/peers/) side by side, in blocks that alternate in an order decided by a coin: the
// first with its fastest settings against each of the fastest settings of the second.
//
//   bench/peers/setup && scripts/setup --photos
//   build/release/bin/peer_pairs bench/peers/photo_masking_loader.py bench/peers/photo_masking.py
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/machine/machine.hpp"
#include "base/statistics.hpp"
#include "bench/peer.hpp"
#include "tuner/comparison.hpp"

namespace {

using namespace autotuned;
using std::chrono::nanoseconds;

// By rough times, best of three: only to leave out what is far from the best.
std::vector<Json> fastest_first(bench::Peer& peer) {
  constexpr nanoseconds kRough = std::chrono::milliseconds(300);
  std::vector<std::pair<double, Json>> tried;
  for (const Json& settings : peer.settings()) {
    double best = 0.0;
    for (int i = 0; i < 3; ++i)
      best = std::max(best, peer.samples_per_second(settings, kRough));
    tried.emplace_back(best, settings);
  }
  std::ranges::sort(tried, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Json> sorted;
  for (auto& [rate, settings] : tried)
    sorted.push_back(std::move(settings));
  return sorted;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Two jobs in Python, side by side."};
  std::filesystem::path first_script;
  std::filesystem::path second_script;
  std::filesystem::path python = ".deps/peers/bin/python";
  int pairs = 12;
  int finalists = 100;
  double block_seconds = 0.7;
  app.add_option("FIRST", first_script, "A peer, such as bench/peers/photo_masking_loader.py")
      ->required();
  app.add_option("SECOND", second_script, "Another, such as bench/peers/photo_masking.py")
      ->required();
  app.add_option("--python", python, "Python with the peers")->capture_default_str();
  app.add_option("--pairs", pairs, "Pairs of blocks for each finalist")->capture_default_str();
  app.add_option("--finalists", finalists, "The fastest settings of SECOND to compare with")
      ->capture_default_str();
  app.add_option("--block", block_seconds, "Seconds of a block")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  const auto log_of = [](const char* which) {
    return std::filesystem::temp_directory_path() /
           fmt::format("autotuned-bench-{}-{}.log", which, ::getpid());
  };
  bench::Peer first(python, first_script, log_of("first"));
  bench::Peer second(python, second_script, log_of("second"));
  const Json ours = fastest_first(first).at(0);
  const std::vector<Json> others = fastest_first(second);

  const Machine machine = detect_machine();
  fmt::print("Machine: {}, {} CPUs. First: {} {}.\n\n", machine.cpu_model, machine.cpus_allowed,
             first_script.string(), ours.dump());
  fmt::print(
      "| second | samples/s | first, samples/s | first / second | interval | pairs |\n"
      "|---|---|---|---|---|---|\n");
  const nanoseconds block(static_cast<std::int64_t>(block_seconds * 1e9));
  std::mt19937_64 coin(std::random_device{}());
  for (int i = 0; i < std::min<int>(finalists, static_cast<int>(others.size())); ++i) {
    const Json& theirs = others[static_cast<std::size_t>(i)];
    tuner::Comparison comparison(tuner::ComparisonRules{0.025, 0.025, 0.0});
    std::vector<double> first_rates;
    std::vector<double> second_rates;
    (void)second.samples_per_second(theirs, block);
    (void)first.samples_per_second(ours, block);
    for (int pair = 0; pair < pairs; ++pair) {
      double first_rate = 0.0;
      double second_rate = 0.0;
      const bool is_first_before = (coin() & 1U) != 0;
      for (const bool is_first : {is_first_before, !is_first_before}) {
        if (is_first) {
          first_rate = first.samples_per_second(ours, block);
        } else {
          second_rate = second.samples_per_second(theirs, block);
        }
      }
      comparison.add(std::log(first_rate / second_rate), std::log(first_rate * second_rate) / 2.0);
      first_rates.push_back(first_rate);
      second_rates.push_back(second_rate);
    }
    const Estimate& estimate = comparison.estimate();
    fmt::print("| {} | {:.0f} | {:.0f} | {:.2f} | {:.2f} to {:.2f} | {} |\n", theirs.dump(),
               median(second_rates), median(first_rates), estimate.ratio, estimate.low,
               estimate.high, estimate.pairs);
  }
  for (const char* const which : {"first", "second"}) {
    std::error_code ignored;
    std::filesystem::remove(log_of(which), ignored);
  }
  return 0;
}
