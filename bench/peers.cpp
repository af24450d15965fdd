// SPDX-License-Identifier: Apache-2.0
// Side by side with PyTorch: the job of a recipe in our trainer with its best configuration, and the same
// job written by hand in Python (bench/peers/), in blocks that alternate in an order decided by a coin.
//
//   bench/peers/setup && build/release/bin/peers recipes/fashion_cnn.yaml
//
// The peer says which settings a person would try; all are timed first and the fastest few go into the
// comparison, so that we are compared with its best here and today.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <vector>

#include "base/statistics.hpp"
#include "bench/peer.hpp"
#include "bench/recipe_job.hpp"
#include "tuner/comparison.hpp"

namespace {

using namespace autotuned;
using std::chrono::nanoseconds;

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Our trainer and PyTorch by hand, side by side."};
  std::filesystem::path recipe_file;
  std::filesystem::path python = ".deps/peers/bin/python";
  std::filesystem::path script = "bench/peers/fashion_cnn.py";
  std::vector<std::string> settings;
  int pairs = 40;
  int finalists = 2;
  double block_seconds = 0.5;
  int ranks = 0;
  app.add_option("RECIPE", recipe_file, "Recipe, for example a best.yaml")->required();
  app.add_option("--python", python, "Python with the peers")->capture_default_str();
  app.add_option("--script", script, "The peer")->capture_default_str();
  app.add_option("-s,--set", settings, "Our configuration: KNOB=VALUE over the recipe's start");
  app.add_option("--pairs", pairs, "Pairs of blocks for each finalist")->capture_default_str();
  app.add_option("--finalists", finalists, "Peer settings to compare with")->capture_default_str();
  app.add_option("--block", block_seconds, "Seconds of a block")->capture_default_str();
  app.add_option("--ranks", ranks, "Of ours, instead of the recipe's: fashion_cnn_ddp.py has two");
  CLI11_PARSE(app, argc, argv);

  bench::RecipeJob job(recipe_file, settings, {}, ranks);
  bench::Peer peer(python, script, job.folder() / "peer.log");

  // Rough times, best of three: only to leave out what is far from the best.
  const nanoseconds rough = std::chrono::milliseconds(300);
  std::vector<std::pair<double, Json>> tried;
  for (const Json& candidate : peer.settings()) {
    double best = 0.0;
    for (int i = 0; i < 3; ++i)
      best = std::max(best, peer.samples_per_second(candidate, rough));
    tried.emplace_back(best, candidate);
  }
  std::ranges::sort(tried, [](const auto& a, const auto& b) { return a.first > b.first; });

  fmt::print("Machine: {}, {} CPUs. Ours: {}.\n\n", job.machine().cpu_model,
             job.machine().cpus_allowed, job.start().canonical_text());
  fmt::print(
      "| PyTorch {} by hand | peer samples/s | ours samples/s | ours / peer | interval | pairs |\n",
      peer.version());
  fmt::print("|---|---|---|---|---|---|\n");
  const nanoseconds block(static_cast<std::int64_t>(block_seconds * 1e9));
  std::mt19937_64 coin(std::random_device{}());
  for (int i = 0; i < std::min<int>(finalists, static_cast<int>(tried.size())); ++i) {
    const Json& theirs = tried[static_cast<std::size_t>(i)].second;
    tuner::Comparison comparison(tuner::ComparisonRules{0.025, 0.025, 0.0});
    std::vector<double> our_rates;
    std::vector<double> peer_rates;
    (void)peer.samples_per_second(theirs, block);
    (void)job.samples_per_second(job.start(), block);
    for (int pair = 0; pair < pairs; ++pair) {
      double our_rate = 0.0;
      double peer_rate = 0.0;
      const bool are_we_first = (coin() & 1U) != 0;
      for (const bool is_first : {true, false}) {
        if (is_first == are_we_first) {
          our_rate = job.samples_per_second(job.start(), block);
        } else {
          peer_rate = peer.samples_per_second(theirs, block);
        }
      }
      comparison.add(std::log(our_rate / peer_rate), std::log(our_rate * peer_rate) / 2.0);
      our_rates.push_back(our_rate);
      peer_rates.push_back(peer_rate);
    }
    const Estimate& estimate = comparison.estimate();
    fmt::print("| {} | {:.0f} | {:.0f} | {:.3f} | {:.3f} to {:.3f} | {} |\n", theirs.dump(),
               median(peer_rates), median(our_rates), estimate.ratio, estimate.low, estimate.high,
               estimate.pairs);
  }
  return 0;
}
