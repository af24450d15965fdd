// SPDX-License-Identifier: Apache-2.0
// How much does the search cost, and what does it miss? Replays it on recorded grids (scan --output),
// with the built-in plugins and recorded noise, beside an exhaustive scan and random search.
//
//   build/release/bin/search [--runs N] GRID...
//
// An evaluation is one configuration that is measured: one trial of ours, one point of the others. The
// others are told the true rate of a point at once; ours sees blocks with noise and has to decide.
// bench/peers/search_tpe.py does the same with Optuna's TPE.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "base/clock.hpp"
#include "bench/recipe_job.hpp"
#include "daemon/places.hpp"
#include "daemon/plugin_advisors.hpp"
#include "tuner/session.hpp"

namespace autotuned::bench {
namespace {

using std::chrono::nanoseconds;

constexpr double kGoodRegret = 0.02;

struct Point {
  double rate = 0.0;  // the median over the rounds
  Json metrics;
};

struct Grid {
  std::string name;
  recipes::Recipe recipe;
  Machine machine;
  Json facts;
  Configuration start;
  std::map<std::string, Point> points;  // by the canonical text of the whole configuration
  std::map<std::string, std::set<std::string>> values;  // of the knobs that vary, as text
  double best = 0.0;
  double noise_ratio = 0.0;  // of a block's rate, within a round

  [[nodiscard]] const Point* find(const Configuration& configuration) const {
    const auto found = points.find(configuration.canonical_text());
    return found == points.end() ? nullptr : &found->second;
  }
  [[nodiscard]] double regret_of(double rate) const { return 1.0 - rate / best; }
};

Grid read_grid(const std::filesystem::path& file) {
  std::ifstream stream(file);
  const Json json = Json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    fmt::print(stderr, "error: {} is no recorded grid; bench/scan --output writes one\n",
               file.string());
    std::exit(2);
  }
  Grid grid;
  grid.name = file.stem().string();
  grid.recipe = value_of(recipes::Recipe::from_json(member(json, "recipe")));
  const Json& machine = member(json, "machine");
  grid.machine.cpu_model = get_string(machine, "cpu_model").value_or("");
  grid.machine.cpus_allowed = static_cast<int>(value_of(get_integer(machine, "cpus_allowed")));
  grid.machine.physical_cores = static_cast<int>(value_of(get_integer(machine, "physical_cores")));
  grid.machine.memory_allowed_bytes = value_of(get_integer(machine, "memory_allowed_bytes"));
  for (const Json& feature : member(machine, "cpu_features"))
    grid.machine.cpu_features.push_back(feature.get<std::string>());
  grid.facts = member(json, "facts");
  grid.start = value_of(Configuration::from_json(member(json, "start")));
  std::vector<double> deviations;
  for (const Json& one : member(json, "points")) {
    const Configuration change = value_of(Configuration::from_json(member(one, "change")));
    std::vector<double> rates;
    for (const Json& rate : member(one, "samples_per_second"))
      rates.push_back(rate.get<double>());
    const double rate = median_of(rates);
    for (const double measured : rates)
      deviations.push_back(std::abs(std::log(measured / rate)));
    for (const auto& [name, value] : change.values())
      grid.values[name].insert(to_text(value));
    grid.points[grid.start.with(change).canonical_text()] = {rate, member(one, "metrics")};
    grid.best = std::max(grid.best, rate);
  }
  for (auto& [name, values] : grid.values)
    values.insert(to_text(*grid.start.find(name)));
  // The median deviation of a normal distribution is 0.6745 of its standard deviation.
  grid.noise_ratio = median_of(deviations) / 0.6745;
  return grid;
}

class GridClock final : public Clock {
 public:
  [[nodiscard]] nanoseconds now() const override { return now_; }
  [[nodiscard]] std::int64_t unix_time_ns() const override { return now_.count(); }
  void advance(nanoseconds by) { now_ += by; }

 private:
  nanoseconds now_{0};
};

// Blocks as the recorded machine would have run them.
class GridJob final : public tuner::Job {
 public:
  GridJob(const Grid& grid, GridClock& clock, std::uint64_t seed)
      : grid_(&grid), clock_(&clock), random_(seed) {}

  Result<Block> run_block(const Configuration& configuration,
                          const tuner::BlockRequest& request) override {
    const Point* const point = grid_->find(configuration);
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
                                                  std::int64_t steps) override {
    const double batch = static_cast<double>(reference.integer("batch_size"));
    const double seconds = 2.0 * static_cast<double>(steps) * batch / grid_->find(reference)->rate;
    clock_->advance(nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
    tuner::UpdateComparison updates{.steps = steps, .equal = true, .finite = true};
    updates.parameters.push_back({"all", 1.0, 1.0, 1.0});
    updates.reference_losses.assign(static_cast<std::size_t>(steps), 1.0);
    updates.candidate_losses = updates.reference_losses;
    return updates;
  }

  Result<tuner::UpdateComparison> compare_rounded(const Configuration& configuration,
                                                  std::int64_t steps) override {
    return compare_updates(configuration, configuration, steps);
  }

  Result<tuner::Profile> profile(const Configuration& configuration) override {
    clock_->advance(std::chrono::seconds(5));
    tuner::Profile profile;
    profile.metrics = grid_->find(configuration)->metrics;
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
  Result<void> baseline(const Configuration&, double) override { return {}; }
  Result<void> ceiling(const tuner::Ceiling&) override { return {}; }
  Result<void> profiled(const Configuration&, const tuner::Profile&) override { return {}; }
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

struct Outcome {
  double evaluations = 0.0;
  double regret = 0.0;
  double seconds = 0.0;  // of the recorded machine
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

Outcome run_ours(const Grid& grid, const std::vector<plugins::FoundPlugin>& found,
                 std::uint64_t seed, bool is_verbose) {
  GridClock clock;
  GridJob job(grid, clock, seed);
  NoLedger ledger;
  ledger.is_verbose = is_verbose;
  daemon::PluginAdvisors advisors(found, std::nullopt);
  tuner::SessionInput input;
  input.recipe = grid.recipe;
  input.recipe.tune.budget = std::chrono::hours(1);  // the search ends by itself
  input.knobs = knobs_of(grid);
  for (const auto& [name, values] : grid.values)
    input.obeyed_knobs.push_back(name);
  input.machine = grid.machine;
  input.starting = grid.start;
  input.job_facts = grid.facts;
  input.coin_seed = seed;
  const auto outcome = value_of(tuner::run_session(input, job, advisors, ledger, clock));
  Outcome result;
  result.evaluations = static_cast<double>(
      std::ranges::count(outcome.trials, TrialKind::proposal, &TrialRecord::kind));
  result.regret = grid.regret_of(grid.find(outcome.best)->rate);
  result.seconds = std::chrono::duration<double>(outcome.tuning_time).count();
  return result;
}

// Points drawn without repeating until one is good enough.
Outcome run_random(const Grid& grid, std::uint64_t seed) {
  std::vector<double> rates;
  for (const auto& [name, point] : grid.points)
    rates.push_back(point.rate);
  std::mt19937_64 random(seed);
  std::ranges::shuffle(rates, random);
  Outcome result;
  double best = 0.0;
  for (const double rate : rates) {
    result.evaluations += 1.0;
    best = std::max(best, rate);
    result.regret = grid.regret_of(best);
    if (result.regret <= kGoodRegret) break;
  }
  return result;
}

void print_row(const std::string& name, std::vector<Outcome> outcomes) {
  const auto spread = [&](auto field) {
    std::ranges::sort(outcomes, {}, field);
    const std::size_t last = outcomes.size() - 1;
    return std::pair(outcomes[last / 2].*field, outcomes[last * 9 / 10].*field);
  };
  const auto [evaluations, most_evaluations] = spread(&Outcome::evaluations);
  const auto [regret, most_regret] = spread(&Outcome::regret);
  const auto [seconds, most_seconds] = spread(&Outcome::seconds);
  fmt::print("| {} | {:.0f} | {:.0f} | {:.1f} % | {:.1f} % | {} |\n", name, evaluations,
             most_evaluations, regret * 100.0, most_regret * 100.0,
             most_seconds > 0.0 ? fmt::format("{:.0f} s", seconds) : "");
}

}  // namespace
}  // namespace autotuned::bench

int main(int argc, char** argv) {
  using namespace autotuned;
  using namespace autotuned::bench;
  CLI::App app{"Replays the search on recorded grids."};
  std::vector<std::filesystem::path> files;
  int runs = 200;
  bool is_verbose = false;
  app.add_option("GRID", files, "Files that scan --output wrote")->required();
  app.add_option("--runs", runs, "Searches with other noise and other coins")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag("--verbose", is_verbose, "Tell the first search, on standard error");
  CLI11_PARSE(app, argc, argv);

  // Those that change the trainer's environment, which no grid varies, are left out.
  const auto found =
      plugins::find_plugins(plugins::plugin_folders({}, daemon::find_places().built_in_plugins),
                            {"host_allocator", "omp_wait_policy"});
  for (const auto& file : files) {
    const Grid grid = read_grid(file);
    fmt::print("{}: {} points, starting {:.1f} % below the best, a block errs by {:.1f} %.\n\n",
               grid.name, grid.points.size(), grid.regret_of(grid.find(grid.start)->rate) * 100.0,
               grid.noise_ratio * 100.0);
    fmt::print(
        "| search | evaluations (median) | 90th | regret (median) | 90th | tuning |\n"
        "|---|---|---|---|---|---|\n");
    std::vector<Outcome> ours;
    std::vector<Outcome> random;
    for (int i = 0; i < runs; ++i) {
      const auto seed = static_cast<std::uint64_t>(i) + 1;
      ours.push_back(run_ours(grid, found, seed, is_verbose && i == 0));
      random.push_back(run_random(grid, seed));
    }
    print_row("autotuned", ours);
    print_row("random, to a regret of 2 %", random);
    print_row("whole grid", {Outcome{static_cast<double>(grid.points.size()), 0.0, 0.0}});
    fmt::print("\n");
  }
  return 0;
}
