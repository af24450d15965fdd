// SPDX-License-Identifier: Apache-2.0
// Side by side with PyTorch: the job of a recipe in our trainer with its best configuration, and the same
// job written by hand in Python (bench/peers/), in blocks that alternate in an order decided by a coin.
//
//   bench/peers/setup && build/release/bin/peers recipes/fashion_cnn.yaml
//
// First every setting that a person would try is timed for the peer and the fastest few go into the
// comparison, so that we are compared with its best here and today.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <vector>

#include "base/machine.hpp"
#include "base/process.hpp"
#include "daemon/places.hpp"
#include "daemon/trainer_client.hpp"
#include "daemon/trainer_job.hpp"
#include "recipes/recipe.hpp"
#include "tuner/comparison.hpp"

namespace {

using namespace autotuned;
using std::chrono::nanoseconds;

constexpr nanoseconds kLimit = std::chrono::minutes(5);  // torch.compile takes its time

class NeverCancelled final : public daemon::CancelSource {
 public:
  [[nodiscard]] int descriptor() const override { return -1; }
  bool is_requested() override { return false; }
};

[[noreturn]] void stop_with(const Error& error) {
  fmt::print(stderr, "error: {}\n", error.message());
  std::exit(1);
}

template <class T>
T value_of(Result<T> result) {
  if (!result) stop_with(result.error());
  return std::move(*result);
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double rate_of(daemon::TrainerClient& peer, const Json& settings, nanoseconds duration) {
  value_of(peer.request("prepare", {{"configuration", settings}}, kLimit));
  const Json answer = value_of(
      peer.request("run", {{"minimum_ns", duration.count()}, {"minimum_steps", 1}}, kLimit));
  return value_of(Block::from_json(answer)).samples_per_second();
}

std::vector<Json> peer_settings(int cpus, bool with_autocast) {
  std::vector<Json> all;
  for (const int batch_size : {32, 64, 128, 256, 512}) {
    for (const bool channels_last : {false, true}) {
      for (int threads = 1; threads <= cpus; ++threads) {
        for (const bool compile : {false, true}) {
          for (const bool autocast : {false, true}) {
            if (autocast && !with_autocast) continue;
            all.push_back({{"batch_size", batch_size},
                           {"channels_last", channels_last},
                           {"threads", threads},
                           {"compile", compile},
                           {"autocast", autocast},
                           {"fused", true}});
          }
        }
      }
    }
  }
  return all;
}

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
  app.add_option("RECIPE", recipe_file, "Recipe, for example a best.yaml")->required();
  app.add_option("--python", python, "Python with the peers")->capture_default_str();
  app.add_option("--script", script, "The peer")->capture_default_str();
  app.add_option("-s,--set", settings, "Our configuration: KNOB=VALUE over the recipe's start");
  app.add_option("--pairs", pairs, "Pairs of blocks for each finalist")->capture_default_str();
  app.add_option("--finalists", finalists, "Peer settings to compare with")->capture_default_str();
  app.add_option("--block", block_seconds, "Seconds of a block")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  const Machine machine = detect_machine();
  const auto knobs = recipes::knobs_of(machine);
  auto recipe = recipes::read_recipe(recipe_file, knobs);
  if (!recipe) {
    for (const auto& diagnostic : recipe.error())
      fmt::print(stderr, "{}\n", diagnostic.text());
    return 2;
  }
  Configuration ours = recipe->starting_configuration(knobs);
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    const std::string name = setting.substr(0, equals);
    const auto knob = recipes::find_knob(knobs, name);
    if (!knob || equals == std::string::npos) {
      fmt::print(stderr, "error: -s {}: no such knob\n", setting);
      return 2;
    }
    ours.set(name, value_of(recipes::parse_value(*knob, setting.substr(equals + 1))));
  }

  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("autotuned-peers-{}", getpid());
  std::filesystem::create_directories(folder);
  NeverCancelled cancel;
  daemon::TrainerJobSpec spec;
  spec.recipe = *recipe;
  spec.knobs = knobs;
  spec.trainer = daemon::find_places().trainer;
  spec.folder = folder;
  spec.measurement_lock = folder / "measurement.lock";
  daemon::TrainerJob job(std::move(spec), cancel);

  daemon::TrainerSpec peer_spec;
  peer_spec.program = std::filesystem::absolute(python);
  peer_spec.arguments = {std::filesystem::absolute(script).string()};
  peer_spec.environment = environment_of({"HOME", "LANG", "PATH", "TMPDIR"});
  peer_spec.environment.emplace_back("OMP_WAIT_POLICY=passive");
  peer_spec.log = folder / "peer.log";
  daemon::TrainerClient peer = value_of(daemon::TrainerClient::start(peer_spec, cancel));
  value_of(peer.request("load", Json::object(), kLimit));

  // Rough times, best of three: only to leave out what is far from the best.
  const nanoseconds rough = std::chrono::milliseconds(300);
  std::vector<std::pair<double, Json>> tried;
  const bool has_bf16 =
      machine.has_cpu_feature("avx512_bf16") || machine.has_cpu_feature("amx_bf16");
  for (const Json& candidate : peer_settings(machine.cpus_allowed, has_bf16)) {
    double best = 0.0;
    for (int i = 0; i < 3; ++i)
      best = std::max(best, rate_of(peer, candidate, rough));
    tried.emplace_back(best, candidate);
  }
  std::ranges::sort(tried, [](const auto& a, const auto& b) { return a.first > b.first; });

  fmt::print("Machine: {}, {} CPUs. Ours: {}.\n\n", machine.cpu_model, machine.cpus_allowed,
             ours.canonical_text());
  fmt::print(
      "| PyTorch {} by hand | peer samples/s | ours samples/s | ours / peer | interval | pairs |\n",
      get_string(peer.hello(), "libtorch").value_or("?"));
  fmt::print("|---|---|---|---|---|---|\n");
  const nanoseconds block(static_cast<std::int64_t>(block_seconds * 1e9));
  std::mt19937_64 coin(std::random_device{}());
  for (int i = 0; i < std::min<int>(finalists, static_cast<int>(tried.size())); ++i) {
    const Json& theirs = tried[static_cast<std::size_t>(i)].second;
    tuner::Comparison comparison(tuner::ComparisonRules{0.025, 0.025, 0.0});
    std::vector<double> our_rates;
    std::vector<double> peer_rates;
    rate_of(peer, theirs, block);
    value_of(job.run_block(ours, {.minimum_duration = block}));
    for (int pair = 0; pair < pairs; ++pair) {
      double our_rate = 0.0;
      double peer_rate = 0.0;
      const bool are_we_first = (coin() & 1U) != 0;
      for (const bool is_first : {true, false}) {
        if (is_first == are_we_first) {
          our_rate =
              value_of(job.run_block(ours, {.minimum_duration = block})).samples_per_second();
        } else {
          peer_rate = rate_of(peer, theirs, block);
        }
      }
      comparison.add(std::log(our_rate / peer_rate), std::log(our_rate * peer_rate) / 2.0);
      our_rates.push_back(our_rate);
      peer_rates.push_back(peer_rate);
    }
    const Estimate& estimate = comparison.estimate();
    fmt::print("| {} | {:.0f} | {:.0f} | {:.3f} | {:.3f} to {:.3f} | {} |\n", theirs.dump(),
               median_of(peer_rates), median_of(our_rates), estimate.ratio, estimate.low,
               estimate.high, estimate.pairs);
  }
  job.stop();
  peer.stop();
  std::filesystem::remove_all(folder);
  return 0;
}
