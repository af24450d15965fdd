// SPDX-License-Identifier: Apache-2.0
#include "bench/error_rates/process_verdicts.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <random>

#include "base/statistics.hpp"
#include "bench/error_rates/exact_bounds.hpp"
#include "tests/tuner/simulation.hpp"
#include "tuner/trial.hpp"

namespace autotuned::bench {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr const char* kRestartKnob = "env.SETTING";
constexpr const char* kLiveKnob = "loader.workers";
constexpr nanoseconds kLimit = seconds(60);
// The noise of single blocks.
constexpr double kBlockNoise = 0.02;
// The share of the blocks that other programs of a shared machine slow (docs/statistics.md).
constexpr double kSlowedShare = 0.3;
// To start a process and warm it up.
constexpr nanoseconds kStart = seconds(2);

bool is_candidate(const Configuration& configuration) {
  const KnobValue* const value = configuration.find(kRestartKnob);
  return (value != nullptr && to_text(*value) == "1") || configuration.integer(kLiveKnob) == 2;
}

struct Simulated {
  tuner::Simulation simulation;
  tuner::TrialPlan plan;

  explicit Simulated(std::uint64_t seed) {
    simulation.job.seed(seed);
    simulation.input.coin_seed = seed;
    simulation.job.restart_knobs = {kRestartKnob};
    simulation.job.start_duration = kStart;
    simulation.job.noise = kBlockNoise;
    plan.time_share = plan.most_time = kLimit;
    plan.is_checked = false;
  }

  TrialRecord run(bool is_restart) {
    tuner::TrialRunner runner(simulation.input, simulation.job, simulation.ledger,
                              simulation.clock);
    TrialRecord trial;
    trial.number = 1;
    trial.reference = simulation.input.starting;
    if (is_restart) trial.change.set(kRestartKnob, std::string("1"));
    if (!is_restart) trial.change.set(kLiveKnob, std::int64_t{2});
    return runner.run(trial, plan).value();  // nothing fails in a simulation
  }
};

struct Counts {
  int verdicts = 0;
  int accepted = 0;
  int below = 0;  // intervals wholly below 1
  std::vector<double> seconds;

  void add(const TrialRecord& trial) {
    ++verdicts;
    accepted += trial.verdict == Verdict::accepted ? 1 : 0;
    below += trial.estimate.high < 1.0 ? 1 : 0;
    seconds.push_back(static_cast<double>(trial.duration_ns) * 1e-9);
  }

  void print(const std::string& name) const {
    const Bounds winners = exact_bounds(accepted, verdicts);
    const Bounds slower = exact_bounds(below, verdicts);
    fmt::print(
        "| {} | {} | {:.2f} % | {:.2f} to {:.2f} % | {:.2f} % | {:.2f} to {:.2f} % | {:.1f} s |\n",
        name, verdicts, 100.0 * accepted / verdicts, 100.0 * winners.low, 100.0 * winners.high,
        100.0 * below / verdicts, 100.0 * slower.low, 100.0 * slower.high, median(seconds));
  }
};

}  // namespace

void print_process_verdicts(int verdicts) {
  fmt::print(
      "\nSimulated trials, blocks with {:.0f} % of noise, {} s to start a process\n\n"
      "| what | verdicts | accepted | 95 % bounds | interval below 1 | 95 % bounds | median time "
      "|\n"
      "|---|---|---|---|---|---|---|\n",
      kBlockNoise * 100.0, kStart / seconds(1));
  for (const double gain : {1.0, 1.05}) {
    for (const double slowed : {0.0, kSlowedShare}) {
      for (const double effect : {0.0, 0.01, 0.02, 0.03}) {
        Counts counts;
        for (int i = 1; i <= verdicts; ++i) {
          Simulated one(static_cast<std::uint64_t>(i));
          one.simulation.job.slowed_share = slowed;
          one.simulation.job.process_effect = effect;
          one.simulation.job.rate = [gain](const Configuration& configuration) {
            return 1000.0 * (is_candidate(configuration) ? gain : 1.0);
          };
          counts.add(one.run(/*is_restart=*/true));
        }
        counts.print(fmt::format(
            "restart knob, {:+.0f} %, {:.0f} % of blocks slowed, processes differ by {:.0f} %",
            (gain - 1.0) * 100.0, slowed * 100.0, effect * 100.0));
      }
    }
  }
  for (const bool is_restart : {false, true}) {
    Counts counts;
    for (int i = 1; i <= verdicts; ++i) {
      const auto seed = static_cast<std::uint64_t>(i);
      Simulated one(seed);
      one.simulation.job.rate =
          [engine = std::mt19937_64(seed)](const Configuration& configuration) mutable {
            if (!is_candidate(configuration)) return 1000.0;
            return std::uniform_real_distribution<double>(0.0, 1.0)(engine) < 0.1 ? 416.0 : 1040.0;
          };
      counts.add(one.run(is_restart));
    }
    counts.print(fmt::format("{} knob, +4 % but 2.5 times slower in one block of ten",
                             is_restart ? "restart" : "live"));
  }
}

}  // namespace autotuned::bench
