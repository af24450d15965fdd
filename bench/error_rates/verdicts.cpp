// SPDX-License-Identifier: Apache-2.0
// How often is the verdict wrong? Replays recorded noise, or times equal work live, through the code
// that decides in production, and prints rates with exact bounds as Markdown.
//
//   verdicts [--data FOLDER] [--windows N]
//   verdicts --processes [--verdicts N]
//   verdicts --runs N [--placebos K] [--data FOLDER]
//   verdicts --live [--verdicts N] [--block-ms MS] [--pairs N] [--disturb THREADS]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "bench/error_rates/disturbance.hpp"
#include "bench/error_rates/exact_bounds.hpp"
#include "bench/error_rates/process_verdicts.hpp"
#include "bench/error_rates/recorded_noise.hpp"
#include "bench/error_rates/run_verdicts.hpp"
#include "tuner/comparison.hpp"

namespace autotuned::bench {
namespace {

using tuner::Comparison;
using tuner::Decision;

constexpr double kWindowSeconds = 30.0;
// Within so many pairs a doubling should be found; seven are the fewest that can show anything.
constexpr int kFewPairs = 8;

struct Row {
  std::string name;
  double true_ratio = 1.0;
  int verdicts = 0;
  int accepted = 0;
  int accepted_early = 0;  // within kFewPairs
  int rejected = 0;
  int truth_outside = 0;  // of the interval
  std::vector<double> accept_seconds;
};

void print_header(const char* title) {
  std::printf("\n%s\n\n", title);
  std::printf(
      "| noise | true gain | verdicts | accepted | 95 %% bounds | rejected | truth outside the "
      "interval | median time to accept | accepted within %d pairs |\n"
      "|---|---|---|---|---|---|---|---|---|\n",
      kFewPairs);
}

void print(Row row) {
  const Bounds bounds = exact_bounds(row.accepted, row.verdicts);
  const auto percent = [&](int count) { return 100.0 * count / row.verdicts; };
  std::string median = "-";
  if (!row.accept_seconds.empty()) {
    auto& times = row.accept_seconds;
    std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
    char text[32];
    std::snprintf(text, sizeof text, "%.2f s", times[times.size() / 2]);
    median = text;
  }
  std::printf(
      "| %s | %+.0f %% | %d | %.2f %% | %.2f to %.2f %% | %.1f %% | %.2f %% | %s | %.1f %% "
      "|\n",
      row.name.c_str(), (row.true_ratio - 1.0) * 100.0, row.verdicts, percent(row.accepted),
      bounds.low * 100.0, bounds.high * 100.0, percent(row.rejected), percent(row.truth_outside),
      median.c_str(), percent(row.accepted_early));
  std::fflush(stdout);
}

// Counts a comparison that has ended after `seconds`.
void count(Row& row, const Comparison& comparison, double seconds) {
  ++row.verdicts;
  const Estimate& estimate = comparison.estimate();
  if (estimate.low > row.true_ratio || estimate.high < row.true_ratio) ++row.truth_outside;
  if (comparison.decision() == Decision::reject) ++row.rejected;
  if (comparison.decision() == Decision::accept) {
    ++row.accepted;
    if (estimate.pairs <= kFewPairs) ++row.accepted_early;
    row.accept_seconds.push_back(seconds);
  }
}

// --- replay ---

// One comparison over the window that starts with block `begin`. The candidate's blocks are those of
// the trace, sped up; false when the window goes beyond the trace.
bool replay_window(const std::vector<RecordedBlock>& trace, std::size_t begin,
                   std::mt19937_64& coins, Row& row) {
  const double end_s = trace[begin].start_s + kWindowSeconds;
  if (trace.back().end_s < end_s) return false;
  const double log_gain = std::log(row.true_ratio);
  Comparison comparison({});
  double now_s = trace[begin].start_s;
  for (std::size_t i = begin; i + 1 < trace.size() && trace[i + 1].end_s <= end_s; i += 2) {
    const double first = trace[i].log_rate;
    const double second = trace[i + 1].log_rate;
    const bool is_candidate_first = (coins() & 1U) != 0;
    comparison.add((is_candidate_first ? first - second : second - first) + log_gain,
                   (first + second + log_gain) / 2.0);
    now_s = trace[i + 1].end_s;
    if (comparison.decision() != Decision::undecided) break;
  }
  count(row, comparison, now_s - trace[begin].start_s);
  return true;
}

int replay(const std::filesystem::path& folder, int windows) {
  print_header("Replayed noise, overlapping windows of 30 s, fresh coins for each");
  for (const double gain : {1.0, 1.05, 2.0}) {
    for (const char* name : kNoiseNames) {
      // Else not even the first window fits.
      const auto read = read_trace(folder, name, kWindowSeconds);
      if (!read) {
        std::fprintf(stderr, "%s\n", read.error().message().c_str());
        return 1;
      }
      const std::vector<RecordedBlock>& trace = *read;
      Row row{.name = name, .true_ratio = gain};
      std::mt19937_64 coins(1);
      while (row.verdicts < windows) {
        for (std::size_t begin = 0; begin < trace.size(); ++begin) {
          if (!replay_window(trace, begin, coins, row)) break;
        }
      }
      print(std::move(row));
    }
  }
  return 0;
}

// --- live ---

using SteadyClock = std::chrono::steady_clock;

struct LiveOptions {
  int verdicts = 1000;
  int block_ms = 3;
  int pairs = 40;
  int disturbers = 0;  // threads of a second job
};

// A step of how many passes, beside one of how many.
struct Contest {
  int starting_passes = 0;
  int candidate_passes = 0;
};
constexpr std::array<Contest, 3> kContests = {{{105, 105}, {105, 100}, {210, 105}}};

int live(const LiveOptions& options) {
  const std::chrono::nanoseconds block = std::chrono::milliseconds(options.block_ms);
  const Disturbance disturbance(options.disturbers, block);
  print_header("Timed live, one thread");
  std::vector<float> data = busy_data();
  std::mt19937_64 coins(std::random_device{}());
  for (const auto& [starting_passes, candidate_passes] : kContests) {
    Row row{.name = options.disturbers > 0 ? "live, disturbed" : "live"};
    row.true_ratio = static_cast<double>(starting_passes) / candidate_passes;
    for (int verdict = 0; verdict < options.verdicts; ++verdict) {
      Comparison comparison({});
      const auto started = SteadyClock::now();
      for (int pair = 0; pair < options.pairs; ++pair) {
        const bool is_candidate_first = (coins() & 1U) != 0;
        const double first = std::log(
            run_busy_block(data, is_candidate_first ? candidate_passes : starting_passes, block));
        const double second = std::log(
            run_busy_block(data, is_candidate_first ? starting_passes : candidate_passes, block));
        comparison.add(is_candidate_first ? first - second : second - first,
                       (first + second) / 2.0);
        if (comparison.decision() != Decision::undecided) break;
      }
      count(row, comparison, std::chrono::duration<double>(SteadyClock::now() - started).count());
    }
    print(std::move(row));
  }
  return 0;
}

}  // namespace
}  // namespace autotuned::bench

int main(int argc, char** argv) {
  CLI::App app("Error rates of the tuner's verdicts, with exact bounds.");
  std::string data = "bench/data/noise";
  int windows = 1000;
  bool is_live = false;
  bool is_simulated = false;
  autotuned::bench::RunVerdictsPlan runs;
  autotuned::bench::LiveOptions options;
  app.add_option("--data", data, "folder of the recorded noise");
  app.add_option("--windows", windows, "verdicts per row, at least")->check(CLI::PositiveNumber);
  app.add_flag("--live", is_live, "time equal work now, instead of replaying");
  app.add_flag("--processes", is_simulated,
               "simulate trials over pairs of processes that differ by chance");
  CLI::Option* const whole_runs =
      app.add_option("--runs", runs.runs,
                     "replay whole runs of placebos on the recorded noise, so many per row")
          ->check(CLI::PositiveNumber);
  app.add_option("--placebos", runs.placebos,
                 "of a whole run, so many of live knobs and as many of restart knobs")
      ->check(CLI::PositiveNumber)
      ->needs(whole_runs);
  app.add_option("--verdicts", options.verdicts, "live or simulated verdicts per row")
      ->check(CLI::PositiveNumber);
  app.add_option("--block-ms", options.block_ms, "length of a live block")
      ->check(CLI::PositiveNumber);
  app.add_option("--pairs", options.pairs, "pairs of a live verdict, at most")
      ->check(CLI::PositiveNumber);
  app.add_option("--disturb", options.disturbers,
                 "threads of a second job, which is busy on and off meanwhile")
      ->check(CLI::NonNegativeNumber);
  CLI11_PARSE(app, argc, argv);
  if (is_simulated) {
    autotuned::bench::print_process_verdicts(options.verdicts);
    return 0;
  }
  if (whole_runs->count() > 0) {
    const auto printed = autotuned::bench::print_run_verdicts(data, runs);
    if (!printed) std::fprintf(stderr, "%s\n", printed.error().message().c_str());
    return printed ? 0 : 1;
  }
  return is_live ? autotuned::bench::live(options) : autotuned::bench::replay(data, windows);
}
