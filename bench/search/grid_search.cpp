// SPDX-License-Identifier: Apache-2.0
#include "bench/search/grid_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "base/clock.hpp"
#include "daemon/session/plugin_advisors.hpp"
#include "tuner/session.hpp"

namespace autotuned::bench {
namespace {

using std::chrono::nanoseconds;

class GridClock final : public Clock {
 public:
  [[nodiscard]] nanoseconds now() const override { return now_; }
  [[nodiscard]] std::int64_t unix_time_ns() const override { return now_.count(); }
  void advance(nanoseconds by) { now_ += by; }

 private:
  nanoseconds now_{0};
};

// Blocks as the recorded machine would have run them.
class GridBackend final : public tuner::TrainingBackend {
 public:
  GridBackend(const Grid& grid, GridClock& clock, std::uint64_t seed)
      : grid_(&grid), clock_(&clock), random_(seed) {}

  Result<Block> run_block(const Configuration& configuration,
                          const tuner::BlockRequest& request) override {
    const GridPoint* const point = grid_->find(configuration);
    if (point == nullptr) return fail(ErrorKind::unsupported, "not in the recorded grid");
    double rate = point->rate;
    if (request.reuse == tuner::kDeviceBatch) {
      const double wait = get_number(point->metrics, "step.data_wait_ratio").value_or(0.0);
      const double transfer = get_number(point->metrics, "step.transfer_ratio").value_or(0.0);
      rate /= std::max(0.01, 1.0 - wait - transfer);
    } else if (!request.reuse.empty()) {
      return fail(ErrorKind::unsupported, "not in the recorded grid");
    }
    rate *= std::exp(grid_->noise_ratio * normal_(random_));
    const auto batch = static_cast<double>(configuration.integer("batch_size"));
    const double least_s = std::chrono::duration<double>(request.minimum_duration).count();
    const double steps =
        std::max(static_cast<double>(request.minimum_steps), std::ceil(least_s * rate / batch));
    Block block;
    block.start_ns = clock_->now().count();
    block.steps = static_cast<std::int64_t>(steps);
    block.samples = static_cast<std::int64_t>(steps * batch);
    block.duration_ns = static_cast<std::int64_t>(steps * batch / rate * 1e9);
    clock_->advance(nanoseconds(block.duration_ns));
    return block;
  }

  // What the grid varies was checked elsewhere; here it costs the time of its steps.
  Result<tuner::UpdateComparison> compare_updates(const Configuration& reference,
                                                  const Configuration& /*candidate*/,
                                                  std::int64_t steps,
                                                  tuner::CheckedSteps /*which*/) override {
    const double batch = static_cast<double>(reference.integer("batch_size"));
    const double seconds = 2.0 * static_cast<double>(steps) * batch / grid_->find(reference)->rate;
    clock_->advance(nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
    tuner::UpdateComparison updates{.steps = steps, .equal = true, .finite = true};
    updates.parameters.push_back({"all", 1.0, 1.0, 1.0});
    updates.reference_losses.assign(static_cast<std::size_t>(steps), 1.0);
    updates.candidate_losses = updates.reference_losses;
    return updates;
  }

  Result<tuner::UpdateComparison> compare_rounded(const Configuration& configuration) override {
    return compare_updates(configuration, configuration, 8, tuner::CheckedSteps::first);
  }

  Result<tuner::StepProfile> profile(const Configuration& configuration) override {
    clock_->advance(std::chrono::seconds(5));
    tuner::StepProfile profile;
    profile.metrics = grid_->find(configuration)->metrics;
    // Grids from before there was this metric; without a ladder it is the wait.
    if (const auto wait = get_number(profile.metrics, "step.data_wait_ratio")) {
      profile.metrics.emplace("loader.cost_ratio", *wait);
    }
    return profile;
  }

 private:
  const Grid* grid_;
  GridClock* clock_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

class NoLedger final : public tuner::Ledger {
 public:
  void warned(const std::string&) override {}
  void progressed(const tuner::TuningProgress&) override {}
  Result<void> baseline(const Configuration&, double) override { return {}; }
  Result<void> ceiling(const tuner::Ceiling&) override { return {}; }
  Result<void> profiled(const Configuration&, const tuner::StepProfile&) override { return {}; }
  Result<void> not_profiled(const Error&) override { return {}; }
  Result<void> asking(const std::string&) override { return {}; }
  Result<void> answered(const std::string& plugin, const std::string& outcome, bool) override {
    if (is_verbose)
      fmt::print(stderr, "  {}: {}\n", plugin, outcome.empty() ? "proposes" : outcome);
    return {};
  }
  Result<void> trial_started(const TrialRecord&) override { return {}; }
  Result<void> block_measured(const TrialRecord&, const TrialBlock&, const Estimate&) override {
    return {};
  }
  Result<void> checked(const TrialRecord&, const CheckRecord&) override { return {}; }
  Result<void> trial_finished(const TrialRecord& trial) override {
    if (is_verbose) {
      fmt::print(stderr, "  {} {}: {} {:.3f}\n", to_string(trial.verdict), trial.plugin,
                 trial.change.canonical_text(), trial.estimate.ratio);
    }
    return {};
  }
  bool is_verbose = false;
};

// The knobs of the grid, with no values that it lacks.
std::vector<recipes::Knob> knobs_of(const Grid& grid) {
  std::vector<recipes::Knob> knobs = recipes::knobs_of(grid.machine);
  for (recipes::Knob& knob : knobs) {
    const auto found = grid.values.find(knob.name);
    if (found == grid.values.end()) continue;
    std::erase_if(knob.choices,
                  [&](const std::string& choice) { return !found->second.contains(choice); });
    if (knob.type != recipes::KnobType::integer) continue;
    knob.maximum = 0;
    for (const std::string& value : found->second)
      knob.maximum = std::max<std::int64_t>(knob.maximum, std::stoll(value));
  }
  return knobs;
}

}  // namespace

Result<SearchOutcome> replay_search(const Grid& grid,
                                    const std::vector<plugins::FoundPlugin>& found,
                                    std::uint64_t seed, bool is_told) {
  GridClock clock;
  GridBackend job(grid, clock, seed);
  NoLedger ledger;
  ledger.is_verbose = is_told;
  daemon::PluginAdvisors advisors(found, std::nullopt);
  tuner::SessionInput input;
  input.recipe = grid.recipe;
  input.recipe.tune.budget = std::chrono::hours(1);  // the search ends by itself
  input.knobs = knobs_of(grid);
  for (const auto& [name, values] : grid.values)
    input.supported_knobs.push_back(name);
  input.machine = grid.machine;
  input.starting = grid.start;
  input.job_facts = grid.facts;
  input.coin_seed = seed;
  const auto outcome = tuner::run_session(input, job, advisors, ledger, clock);
  if (!outcome) return tl::unexpected(outcome.error());
  SearchOutcome result;
  result.evaluations = static_cast<int>(
      std::ranges::count(outcome->trials, TrialKind::proposal, &TrialRecord::kind));
  result.regret_ratio = grid.regret_of(grid.find(outcome->best)->rate);
  result.seconds = std::chrono::duration<double>(outcome->tuning_time).count();
  return result;
}

SearchOutcome replay_random(const Grid& grid, std::uint64_t seed, double until_regret_ratio) {
  std::vector<double> rates;
  for (const auto& [name, point] : grid.points)
    rates.push_back(point.rate);
  std::mt19937_64 random(seed);
  std::ranges::shuffle(rates, random);
  SearchOutcome result;
  double best = 0.0;
  for (const double rate : rates) {
    ++result.evaluations;
    best = std::max(best, rate);
    result.regret_ratio = grid.regret_of(best);
    if (result.regret_ratio <= until_regret_ratio) break;
  }
  return result;
}

SearchOutcome whole_grid(const Grid& grid) {
  double best = 0.0;
  for (const auto& [name, point] : grid.points)
    best = std::max(best, point.rate);
  return {.evaluations = static_cast<int>(grid.points.size()),
          .regret_ratio = grid.regret_of(best)};
}

}  // namespace autotuned::bench
