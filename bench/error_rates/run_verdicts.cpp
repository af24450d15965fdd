// SPDX-License-Identifier: Apache-2.0
#include "bench/error_rates/run_verdicts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "bench/error_rates/exact_bounds.hpp"
#include "bench/error_rates/recorded_noise.hpp"
#include "tests/tuner/simulation.hpp"

namespace autotuned::bench {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr const char* kPlacebo = "env.PLACEBO_";
constexpr const char* kLivePlacebo = "env.PLACEBO_LIVE_";
constexpr const char* kRestartPlacebo = "env.PLACEBO_RESTART_";
constexpr const char* kGainKnob = "loader.workers";
constexpr double kGainRatio = 1.1;
// To start a process and warm it up: so much of the trace passes meanwhile.
constexpr nanoseconds kProcessStart = seconds(2);
// The part of the budget for each placebo.
constexpr nanoseconds kTimeForEach = seconds(30);
constexpr double kMinTraceSeconds = 30.0;

bool has_placebo(const Configuration& configuration) {
  return std::ranges::any_of(configuration.values(), [](const auto& setting) {
    return setting.first.starts_with(kPlacebo);
  });
}

bool has_gain(const Configuration& configuration) {
  return configuration.integer(kGainKnob) == 2;
}

bool needs_process(const Configuration& change) {
  return std::ranges::any_of(change.values(), [](const auto& setting) {
    return setting.first.starts_with(kRestartPlacebo);
  });
}

// A job whose blocks are those of a trace, one after the other, from its beginning again after its end. Only the true gain
// changes their rates.
class RecordedBackend final : public tuner::TrainingBackend {
 public:
  RecordedBackend(const std::vector<RecordedBlock>& trace, std::size_t begin,
                  tuner::FakeClock& clock)
      : trace_(&trace), next_(begin), clock_(&clock) {}

  [[nodiscard]] bool share_process(const Configuration& one,
                                   const Configuration& other) const override {
    return !needs_process(one.change_to(other)) && !needs_process(other.change_to(one));
  }

  Result<void> make_ready(const Configuration& /*configuration*/, tuner::ProcessChoice process,
                          const Configuration* /*reference*/) override {
    if (process == tuner::ProcessChoice::reuse) return {};
    const nanoseconds end = clock_->now() + kProcessStart;
    while (clock_->now() < end)
      pass_block();
    return {};
  }

  Result<Block> run_block(const Configuration& configuration,
                          const tuner::BlockRequest& request) override {
    if (!request.reuse.empty()) return fail(ErrorKind::unsupported, "the noise of it is unknown");
    Block block;
    block.start_ns = clock_->now().count();
    double steps = 0.0;
    while (block.duration_ns < request.minimum_duration.count()) {
      const RecordedBlock& recorded = (*trace_)[next_];
      const double duration_ns = (recorded.end_s - recorded.start_s) * 1e9;
      block.duration_ns += std::llround(duration_ns);
      steps += std::exp(recorded.log_rate) * duration_ns;
      pass_block();
    }
    block.steps = std::llround(steps);
    // Samples are whole: so many for each step that a gain is exact enough.
    constexpr double kSamplesPerStep = 1e6;
    block.samples =
        std::llround(steps * kSamplesPerStep * (has_gain(configuration) ? kGainRatio : 1.0));
    return block;
  }

  Result<tuner::UpdateComparison> compare_updates(const Configuration& /*reference*/,
                                                  const Configuration& /*candidate*/,
                                                  std::int64_t steps,
                                                  tuner::CheckedSteps /*which*/) override {
    return tuner::SimulatedBackend::equal(steps);
  }

  Result<tuner::StepProfile> profile(const Configuration& /*configuration*/) override {
    tuner::StepProfile profile;
    profile.metrics = {{"step.data_wait_ratio", 0.5}};
    return profile;
  }

 private:
  void pass_block() {
    const RecordedBlock& passed = (*trace_)[next_];
    next_ = (next_ + 1) % trace_->size();
    const double until_s = next_ == 0 ? passed.end_s : (*trace_)[next_].start_s;
    clock_->advance(nanoseconds(std::llround((until_s - passed.start_s) * 1e9)));
  }

  const std::vector<RecordedBlock>* trace_;
  std::size_t next_;
  tuner::FakeClock* clock_;
};

// Proposes it until it has been tried.
void add_proposal(tuner::Simulation& simulation, const std::string& plugin, const Json& change) {
  simulation.advisors.plugins[plugin] = [change](const Json& situation) -> Result<Json> {
    if (!situation["trials"].empty()) return tuner::none("it was tried");
    return tuner::propose(change, 1.2);
  };
}

struct RunCounts {
  int runs = 0;
  int with_winner = 0;  // among the placebos
  int with_change = 0;  // a placebo, in the configuration that the run ends with
  int with_gain = 0;    // the true gain, there
  std::int64_t trials = 0;

  void add(const tuner::SessionOutcome& outcome) {
    ++runs;
    const bool has_winner = std::ranges::any_of(outcome.trials, [](const TrialRecord& trial) {
      return trial.kind == TrialKind::proposal && trial.verdict == Verdict::accepted &&
             has_placebo(trial.change);
    });
    with_winner += has_winner ? 1 : 0;
    with_change += has_placebo(outcome.best) ? 1 : 0;
    with_gain += has_gain(outcome.best) ? 1 : 0;
    trials += static_cast<std::int64_t>(outcome.trials.size());
  }
};

tuner::SessionOutcome run_once(const std::vector<RecordedBlock>& trace, int placebos,
                               bool is_with_gain, std::uint64_t seed) {
  tuner::Simulation simulation;
  simulation.input.coin_seed = seed;
  simulation.input.start_time = kProcessStart;
  simulation.input.recipe.tune.budget = 2 * placebos * kTimeForEach;
  for (int i = 0; i < placebos; ++i) {
    for (const char* sort : {kLivePlacebo, kRestartPlacebo}) {
      const std::string knob = sort + std::to_string(i);
      add_proposal(simulation, knob, {{knob, "1"}});
    }
  }
  if (is_with_gain) add_proposal(simulation, "gain", {{kGainKnob, 2}});
  std::mt19937_64 engine(seed);
  const std::size_t begin = std::uniform_int_distribution<std::size_t>(0, trace.size() - 1)(engine);
  RecordedBackend job(trace, begin, simulation.clock);
  return tuner::run_session(simulation.input, job, simulation.advisors, simulation.ledger,
                            simulation.clock)
      .value();  // nothing fails in a simulation
}

std::string share_text(int events, int runs) {
  const Bounds bounds = exact_bounds(events, runs);
  return fmt::format("{:.2f} % | {:.2f} to {:.2f} %", 100.0 * events / runs, 100.0 * bounds.low,
                     100.0 * bounds.high);
}

}  // namespace

Result<void> print_run_verdicts(const std::filesystem::path& folder, const RunVerdictsPlan& plan) {
  fmt::print(
      "\nWhole runs on recorded noise: {0} placebos of live knobs and {0} of restart knobs each\n\n"
      "| noise | true gain beside them | runs | trials of a run | a placebo won | 95 % bounds | "
      "a placebo was kept | 95 % bounds | the gain was kept |\n"
      "|---|---|---|---|---|---|---|---|---|\n",
      plan.placebos);
  for (const char* name : kNoiseNames) {
    const auto trace = read_trace(folder, name, kMinTraceSeconds);
    if (!trace) return forward_error(trace);
    for (const bool is_with_gain : {false, true}) {
      RunCounts counts;
      for (int run = 1; run <= plan.runs; ++run) {
        counts.add(run_once(*trace, plan.placebos, is_with_gain, static_cast<std::uint64_t>(run)));
      }
      fmt::print(
          "| {} | {} | {} | {:.1f} | {} | {} | {} |\n", name,
          is_with_gain ? fmt::format("{:+.0f} %", (kGainRatio - 1.0) * 100.0) : "none", counts.runs,
          static_cast<double>(counts.trials) / counts.runs,
          share_text(counts.with_winner, counts.runs), share_text(counts.with_change, counts.runs),
          is_with_gain ? fmt::format("{:.2f} %", 100.0 * counts.with_gain / counts.runs) : "");
      std::fflush(stdout);
    }
  }
  return {};
}

}  // namespace autotuned::bench
