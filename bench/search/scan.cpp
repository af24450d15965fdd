// SPDX-License-Identifier: Apache-2.0
// Every combination of values of some knobs, timed: what a search should have found.
//
//   build/release/bin/scan recipes/photo_masking_input.yaml --knob loader.workers=0,1,2
//     --knob loader.prefetch_batches=1,2,4,8,16
//
// With -c also of whole configurations, such as two that are to be compared:
//
//   build/release/bin/scan recipes/photo_masking_input.yaml -c "loader.workers=1"
//     -c "loader.workers=2 input.decode=crop" --rounds 20
//
// Each round runs one block of every combination, in a new random order; a combination's figure is the
// median over the rounds of its rate over the round's geometric mean, so that a slow minute of the machine
// counts for all alike. --output FILE keeps all of it, with a profile of every combination, for bench/search;
// without profiles (--rates-only) it is enough for bench/within.py.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>

#include "base/file.hpp"
#include "base/statistics.hpp"
#include "bench/recipe_job.hpp"
#include "bench/search/grid.hpp"

namespace {

using namespace autotuned;
using bench::value_of;

struct Combination {
  Configuration configuration;
  std::string name;
  std::vector<double> rates;
  std::vector<double> log_ratios;  // to the round's mean
};

// NAME=VALUE,VALUE,... times what there is.
std::vector<Combination> multiplied(const std::vector<Combination>& all, const std::string& text,
                                    const std::vector<recipes::Knob>& knobs) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const auto knob = recipes::find_knob(knobs, name);
  if (equals == std::string::npos || !knob) {
    fmt::print(stderr, "error: --knob {}: expected KNOB=VALUE,VALUE,...\n", text);
    std::exit(2);
  }
  std::vector<Combination> result;
  for (const Combination& one : all) {
    std::istringstream values(text.substr(equals + 1));
    for (std::string value; std::getline(values, value, ',');) {
      Combination& more = result.emplace_back(one);
      more.configuration.set(name, value_of(recipes::parse_value(*knob, value)));
      more.name += (more.name.empty() ? "" : " ") + name + "=" + value;
    }
  }
  return result;
}

// KNOB=VALUE KNOB=VALUE ... over `start`.
Combination combination(const std::string& text, const Configuration& start,
                        const std::vector<recipes::Knob>& knobs) {
  Combination result{start, text, {}, {}};
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    const auto knob = recipes::find_knob(knobs, word.substr(0, equals));
    if (equals == std::string::npos || !knob) {
      fmt::print(stderr, "error: -c \"{}\": expected KNOB=VALUE, found {}\n", text, word);
      std::exit(2);
    }
    result.configuration.set(knob->name,
                             value_of(recipes::parse_value(*knob, word.substr(equals + 1))));
  }
  return result;
}

// What a search needs to be replayed without the machine. Rates are those of rounds that were all alike:
// the drift that a round's combinations share is taken out.
Json record_of(bench::RecipeJob& job, const std::vector<Combination>& all, bool has_metrics) {
  double mean = 0.0;
  for (const Combination& one : all)
    mean += std::log(median(one.rates)) / static_cast<double>(all.size());
  Json points = Json::array();
  for (const Combination& one : all) {
    Json rates = Json::array();
    for (const double ratio : one.log_ratios)
      rates.push_back(std::round(std::exp(mean + ratio) * 10.0) / 10.0);
    Json metrics = has_metrics ? job.metrics(one.configuration) : Json::object();
    for (Json& value : metrics)
      value = std::stod(fmt::format("{:.4g}", value.get<double>()));
    points.push_back({{"name", one.name},
                      {"change", job.start().change_to(one.configuration).to_json()},
                      {"samples_per_second", std::move(rates)},
                      {"metrics", std::move(metrics)}});
  }
  return {{"recipe", bench::without_folders(job.recipe().to_json())},
          {"machine",
           {{"cpu_model", job.machine().cpu_model},
            {"cpus_allowed", job.machine().cpus_allowed},
            {"physical_cores", job.machine().physical_cores},
            {"memory_allowed_bytes", job.machine().memory_allowed_bytes},
            {"cpu_features", job.machine().cpu_features}}},
          {"facts", job.facts()},
          {"start", job.start().to_json()},
          {"points", std::move(points)}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Times every combination of values of some knobs."};
  std::filesystem::path recipe;
  std::vector<std::string> settings;
  std::vector<std::string> knobs;
  std::vector<std::string> texts;
  bool is_rates_only = false;
  int rounds = 7;
  double block_seconds = 1.0;
  std::filesystem::path output;
  app.add_option("RECIPE", recipe, "The job")->required();
  app.add_option("--knob", knobs, "KNOB=VALUE,VALUE,...; may be repeated");
  app.add_option("-c,--configuration", texts,
                 "\"KNOB=VALUE KNOB=VALUE ...\" over the recipe's start; may be repeated");
  app.add_option("-s,--set", settings, "KNOB=VALUE for all combinations");
  app.add_option("--rounds", rounds, "Blocks of each combination")->capture_default_str();
  app.add_option("--block", block_seconds, "Seconds of a block")->capture_default_str();
  app.add_option("--output", output, "Keep rates and profiles in this file");
  app.add_flag("--rates-only", is_rates_only, "Keep no profiles");
  CLI11_PARSE(app, argc, argv);
  if (knobs.empty() && texts.empty()) {
    fmt::print(stderr, "error: nothing to time; give --knob or -c\n");
    return 2;
  }

  bench::RecipeJob job(recipe, settings);
  std::vector<Combination> all;
  for (const std::string& text : texts)
    all.push_back(combination(text, job.start(), job.knobs()));
  if (texts.empty()) all.push_back({job.start(), {}, {}, {}});
  for (const std::string& knob : knobs)
    all = multiplied(all, knob, job.knobs());

  const std::chrono::nanoseconds block(static_cast<std::int64_t>(block_seconds * 1e9));
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::mt19937_64 random(std::random_device{}());
  for (int round = 0; round < rounds; ++round) {
    std::ranges::shuffle(order, random);
    double sum = 0.0;
    for (const std::size_t i : order) {
      all[i].rates.push_back(job.samples_per_second(all[i].configuration, block));
      sum += std::log(all[i].rates.back());
    }
    const double mean = sum / static_cast<double>(all.size());
    for (Combination& one : all)
      one.log_ratios.push_back(std::log(one.rates.back()) - mean);
  }

  const auto figure = [](const Combination& one) { return median(one.log_ratios); };
  std::ranges::sort(all, std::ranges::greater(), figure);
  fmt::print("Machine: {}, {} CPUs. {} combinations, {} rounds.\n\n", job.machine().cpu_model,
             job.machine().cpus_allowed, all.size(), rounds);
  fmt::print("| configuration | samples/s (median) | of the best |\n|---|---|---|\n");
  for (const Combination& one : all) {
    fmt::print("| {} | {:.1f} | {:.1f} % |\n", one.name, median(one.rates),
               100.0 * std::exp(figure(one) - figure(all.front())));
  }
  if (!output.empty()) {
    value_of(write_file_atomically(output, record_of(job, all, !is_rates_only).dump(1) + "\n"));
  }
  return 0;
}
