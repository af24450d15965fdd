// SPDX-License-Identifier: Apache-2.0
// How much does the search cost, and what does it miss? Replays it on recorded grids (scan --output), with the
// built-in plugins and recorded noise, beside an exhaustive scan and random search.
//
//   build/release/bin/search [--runs N] [bench/data/grids/*.json]
//
// The others are told the true rate of a point at once; ours sees blocks with noise and has to decide.
// bench/peers/search_tpe.py does the same with Optuna's TPE.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "bench/recipe_job.hpp"
#include "bench/search/grid_search.hpp"
#include "daemon/common/installation_paths.hpp"

namespace autotuned::bench {
namespace {

void print_row(const std::string& name, std::vector<SearchOutcome> outcomes) {
  const auto spread = [&](auto field) {
    std::ranges::sort(outcomes, {}, field);
    const std::size_t last = outcomes.size() - 1;
    return std::pair(outcomes[last / 2].*field, outcomes[last * 9 / 10].*field);
  };
  const auto [evaluations, most_evaluations] = spread(&SearchOutcome::evaluations);
  const auto [regret, most_regret] = spread(&SearchOutcome::regret_ratio);
  const auto [seconds, most_seconds] = spread(&SearchOutcome::seconds);
  fmt::print("| {} | {} | {} | {:.1f} % | {:.1f} % | {} |\n", name, evaluations, most_evaluations,
             regret * 100.0, most_regret * 100.0,
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
  double until = 0.02;
  bool is_verbose = false;
  app.add_option("GRID", files, "Files that scan --output wrote")->required();
  app.add_option("--runs", runs, "Searches with other noise and other coins")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--until", until, "The regret at which random search stops")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_flag("--verbose", is_verbose, "Tell the first search, on standard error");
  CLI11_PARSE(app, argc, argv);

  // Those that change the trainer's environment, which no grid varies, are left out.
  const auto found = plugins::find_plugins(
      plugins::plugin_folders({}, daemon::find_installation_paths().built_in_plugins),
      {"host_allocator", "omp_wait_policy"});
  for (const auto& file : files) {
    const Grid grid = value_of(read_grid(file));
    fmt::print("{}: {} points, starting {:.1f} % below the best, a block errs by {:.1f} %.\n\n",
               grid.name, grid.points.size(), grid.regret_of(grid.find(grid.start)->rate) * 100.0,
               grid.noise_ratio * 100.0);
    fmt::print(
        "| search | evaluations (median) | 90th | regret (median) | 90th | tuning |\n"
        "|---|---|---|---|---|---|\n");
    std::vector<SearchOutcome> ours;
    std::vector<SearchOutcome> random;
    for (int i = 0; i < runs; ++i) {
      const auto seed = static_cast<std::uint64_t>(i) + 1;
      ours.push_back(value_of(replay_search(grid, found, seed, is_verbose && i == 0)));
      random.push_back(replay_random(grid, seed, until));
    }
    print_row("autotuned", ours);
    print_row(fmt::format("random, to a regret of {:.1f} %", until * 100.0), random);
    print_row("whole grid", {whole_grid(grid)});
    fmt::print("\n");
  }
  return 0;
}
