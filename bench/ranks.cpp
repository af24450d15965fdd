// SPDX-License-Identifier: Apache-2.0
// What coordination of several ranks costs beside what each of them does itself: the round trip of a switch from one
// configuration to another and back, less the time of the slowest rank.
//
//   build/release/bin/ranks recipes/fashion_cnn.yaml --ranks 2
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/statistics.hpp"
#include "bench/recipe_job.hpp"
#include "daemon/common/installation_paths.hpp"
#include "daemon/trainers/trainer_environment.hpp"
#include "recipes/knobs.hpp"

namespace {

using namespace autotuned;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr std::chrono::minutes kLimit(5);

struct Switch {
  double round_trip_ms = 0.0;
  double slowest_ms = 0.0;  // of the ranks
};

Switch switch_to(daemon::TrainerClient& client, const Configuration& configuration) {
  const auto start = Clock::now();
  const Json answer = bench::value_of(
      client.request("prepare", {{"configuration", configuration.to_json()}}, kLimit));
  Switch taken{.round_trip_ms = Milliseconds(Clock::now() - start).count()};
  const Json& ranks = member(answer, "ranks_ns");
  if (!ranks.is_array()) return taken;
  for (const Json& ns : ranks)
    taken.slowest_ms =
        std::max(taken.slowest_ms, static_cast<double>(ns.get<std::int64_t>()) / 1e6);
  return taken;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"What a switch of configuration costs several ranks beyond the slowest of them."};
  std::filesystem::path recipe_file;
  int ranks = 2;
  int switches = 200;
  std::vector<std::string> settings;
  std::vector<std::string> changes = {"ddp.gradient_as_bucket_view=on"};
  app.add_option("RECIPE", recipe_file)->required();
  app.add_option("--ranks", ranks)->capture_default_str()->check(CLI::Range(2, recipes::kMaxRanks));
  app.add_option("--switches", switches)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("-s,--set", settings, "The one configuration: KNOB=VALUE over the recipe's start");
  app.add_option("--to", changes, "The other: KNOB=VALUE over the first")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  std::vector<std::string> other_settings = settings;
  other_settings.insert(other_settings.end(), changes.begin(), changes.end());
  // One after the other: both have the same temporary folder.
  const Configuration other = bench::RecipeJob(recipe_file, other_settings, {}, ranks).start();
  bench::RecipeJob job(recipe_file, settings, {}, ranks);

  daemon::TrainerSpec spec;
  spec.program = daemon::find_installation_paths().trainer;
  spec.environment = daemon::trainer_environment();
  spec.log = job.folder() / "trainer.log";
  auto client = bench::value_of(daemon::TrainerClient::start(spec, job.cancel()));
  bench::value_of(client.request(
      "load", {{"recipe", job.recipe().to_json()}, {"configuration", job.start().to_json()}},
      kLimit));
  // A gradient reducer is made by the first step.
  bench::value_of(client.request("run", {{"minimum_ns", 1}, {"minimum_steps", 5}}, kLimit));

  std::vector<double> round_trips;
  std::vector<double> beyond;
  for (int i = 0; i < switches; ++i) {
    const Switch taken = switch_to(client, i % 2 == 0 ? other : job.start());
    round_trips.push_back(taken.round_trip_ms);
    beyond.push_back(taken.round_trip_ms - taken.slowest_ms);
    // What the switch prepared is used, as in a trial.
    bench::value_of(client.request("run", {{"minimum_ns", 1}, {"minimum_steps", 2}}, kLimit));
  }
  client.stop();
  fmt::print("Machine: {}, {} CPUs. {} ranks, {} switches between {} and {}.\n\n",
             job.machine().cpu_model, job.machine().cpus_allowed, ranks, switches,
             job.start().canonical_text(), fmt::join(changes, " "));
  fmt::print("| | median | largest |\n|---|---|---|\n");
  fmt::print("| round trip | {:.3f} ms | {:.3f} ms |\n", median(round_trips),
             std::ranges::max(round_trips));
  fmt::print("| beyond the slowest rank | {:.3f} ms | {:.3f} ms |\n", median(beyond),
             std::ranges::max(beyond));
  return 0;
}
