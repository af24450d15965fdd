// SPDX-License-Identifier: Apache-2.0
// How often does a trial over real trainers call a change that does nothing faster? And how often does it find a true
// gain? The trials are the tuner's own, without the rest of a session.
//
//   build/release/bin/placebos recipes/fashion_cnn.yaml --kind restart --trials 100 --json restart.jsonl
//   build/release/bin/placebos recipes/fashion_cnn.yaml --kind live --disturb 1
//
// The placebo of a restart knob is a variable of the environment that nothing reads. That of a live one is asynchronous
// checkpoints, of which a block has none. A gain is less of a work that an extension (bench/error_rates/placebo.cpp) adds
// to each step; knobs of extensions are decided like restart knobs. With --json the trials are appended to a file, all trials of which are counted: a series can be done in pieces, and
// --trials 0 prints its table.
#include <CLI/CLI.hpp>
#include <cmath>
#include <fstream>
#include <random>

#include "base/clock.hpp"
#include "base/machine/machine_state.hpp"
#include "bench/error_rates/disturbance.hpp"
#include "bench/error_rates/placebo_series.hpp"
#include "bench/recipe_job.hpp"
#include "tuner/measurement.hpp"
#include "tuner/trial.hpp"

namespace {

using namespace autotuned;
using bench::PlaceboTrial;
using bench::value_of;
using std::chrono::nanoseconds;

// What a session measures before its first trial.
constexpr int kBaselineBlocks = 5;
// The calibration of the added work: passes of a step, and pairs of blocks.
constexpr std::int64_t kCalibrationPasses = 5000;
constexpr int kCalibrationPairs = 30;
constexpr nanoseconds kBlock = std::chrono::milliseconds(100);

struct Options {
  std::filesystem::path recipe;
  std::vector<std::string> settings;
  std::string kind = "restart";
  int trials = 20;
  int run_trials = 5;
  double seconds = 60.0;
  double gain_ratio = 0.0;
  int disturbers = 0;
  std::filesystem::path file;
  std::filesystem::path blocks;
};

// Writes blocks to a file, if there is one, and nothing else.
class BlockLedger final : public tuner::Ledger {
 public:
  explicit BlockLedger(const std::filesystem::path& file) {
    if (!file.empty()) blocks_.open(file, std::ios::app);
  }
  void warned(const std::string& text) override { fmt::print(stderr, "{}\n", text); }
  void progressed(const tuner::TuningProgress&) override {}
  Result<void> baseline(const Configuration&, double) override { return {}; }
  Result<void> ceiling(const tuner::Ceiling&) override { return {}; }
  Result<void> profiled(const Configuration&, const tuner::StepProfile&) override { return {}; }
  Result<void> not_profiled(const Error&) override { return {}; }
  Result<void> asking(const std::string&) override { return {}; }
  Result<void> answered(const std::string&, const std::string&, bool) override { return {}; }
  Result<void> trial_started(const TrialRecord&) override { return {}; }
  // A line: trial, pair of processes, pair of blocks, candidate, first, samples, steps, nanoseconds.
  Result<void> block_measured(const TrialRecord& trial, const TrialBlock& measured,
                              const Estimate&) override {
    if (!blocks_.is_open()) return {};
    blocks_ << fmt::format("{} {} {} {:d} {:d} {} {} {}\n", trial.number, measured.process_pair,
                           measured.pair, measured.is_candidate, measured.is_first,
                           measured.block.samples, measured.block.steps,
                           measured.block.duration_ns);
    return {};
  }
  Result<void> checked(const TrialRecord&, const CheckRecord&) override { return {}; }
  Result<void> trial_finished(const TrialRecord&) override { return {}; }

 private:
  std::ofstream blocks_;
};

struct Contest {
  Configuration reference;
  Configuration change;
};

Configuration with_integer(Configuration configuration, const std::string& knob,
                           std::int64_t value) {
  configuration.set(knob, value);
  return configuration;
}

// How many passes of added work make up the wanted gain when half of them go: with S a step's time and p a pass's,
// (S + 2 N p) / (S + N p) = 1 + gain.
std::int64_t passes_for(bench::RecipeJob& job, double gain_ratio) {
  const Configuration with = with_integer(job.start(), "placebo.passes", kCalibrationPasses);
  // One pass costs nothing; the extension is on, as in the trials.
  const Configuration without = with_integer(job.start(), "placebo.passes", 1);
  std::vector<tuner::PairRates> pairs;
  for (int pair = 0; pair < kCalibrationPairs; ++pair) {
    const double plain = job.samples_per_second(without, kBlock);
    pairs.push_back({.candidate = plain, .reference = job.samples_per_second(with, kBlock)});
  }
  const double more = std::expm1(tuner::process_rates(pairs).log_ratio);
  const double share = std::max(more / static_cast<double>(kCalibrationPasses), 1e-9);  // p / S
  return std::max<std::int64_t>(std::llround(gain_ratio / (1.0 - gain_ratio) / share), 1);
}

// `number` lets each trial of a restart knob have a candidate's process of its own.
Contest contest_of(const Options& options, const Configuration& start, std::int64_t passes,
                   int number) {
  Contest contest{start, {}};
  if (options.gain_ratio > 0.0) {
    contest.reference.set("placebo.passes_from_start", 2 * passes);
    contest.change.set("placebo.passes_from_start", passes);
    contest.change.set("env.PLACEBO_A", std::to_string(number));
  } else if (options.kind == "restart") {
    contest.change.set("env.PLACEBO_A", std::to_string(number));
  } else {
    contest.change.set("checkpoint.async", true);
  }
  return contest;
}

// `tried`: how many trials of this run could have been accepted so far.
PlaceboTrial measure(const Options& options, tuner::TrialRunner& runner, const Contest& contest,
                     int number, int& tried) {
  tuner::TrialPlan plan;
  plan.time_share = nanoseconds(static_cast<std::int64_t>(options.seconds * 1e9));
  plan.most_time = plan.time_share;
  plan.is_checked = false;
  plan.rules.accept_error_probability = tuner::accept_error_probability_after(tried);
  TrialRecord trial;
  trial.number = number;
  trial.plugin = "placebos";
  trial.reference = contest.reference;
  trial.change = contest.change;
  trial.risk = "exact";

  const MachineState before = read_machine_state();
  const auto begin = std::chrono::steady_clock::now();
  const TrialRecord done = value_of(runner.run(std::move(trial), plan));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const MachineState after = read_machine_state();
  // One that ended with its first look at a pair of processes could not have been accepted.
  if (options.kind == "live" || done.process_pairs > 1) ++tried;

  PlaceboTrial result{.recipe = options.recipe.stem().string(),
                      .kind = options.kind,
                      .gain_ratio = options.gain_ratio,
                      .disturbers = options.disturbers,
                      .verdict = std::string(to_string(done.verdict)),
                      .reason = done.reason,
                      .ratio = done.estimate.ratio,
                      .low = done.estimate.low,
                      .high = done.estimate.high,
                      .pairs = done.estimate.pairs,
                      .seconds = seconds};
  const double all = seconds * std::max(after.cpus, 1);
  if (before.cpu_time && after.cpu_time && all > 0.0) {
    const double busy = after.cpu_time->busy - before.cpu_time->busy;
    const double own = after.own_cpu_time - before.own_cpu_time;
    result.others_ratio = std::clamp((busy - own) / all, 0.0, 1.0);
    result.stolen_ratio = (after.cpu_time->stolen - before.cpu_time->stolen) / all;
  }
  return result;
}

// The trials of one run: they share the reference's process, as those of a session do.
void run_trials(const Options& options, int first_number, int count,
                std::vector<PlaceboTrial>& trials) {
  bench::RecipeJob job(options.recipe, options.settings, {AUTOTUNED_PLACEBO_FOLDER});
  const std::int64_t passes = options.gain_ratio > 0.0 ? passes_for(job, options.gain_ratio) : 0;
  tuner::SessionInput input;
  input.recipe = job.recipe();
  input.knobs = job.knobs();
  input.machine = job.machine();
  input.starting = job.start();
  input.coin_seed = std::random_device{}();
  const SystemClock clock;
  const Configuration reference = contest_of(options, job.start(), passes, first_number).reference;
  const nanoseconds before = clock.now();
  static_cast<void>(job.samples_per_second(reference, kBlock));
  input.start_time = clock.now() - before;
  for (int block = 0; block < kBaselineBlocks; ++block)
    static_cast<void>(job.samples_per_second(reference, kBlock));
  input.job_facts = job.facts();
  static_cast<void>(job.metrics(reference));

  BlockLedger ledger(options.blocks);
  tuner::TrialRunner runner(input, job.job(), ledger, clock);
  int tried = 0;
  for (int i = 0; i < count; ++i) {
    const Contest contest = contest_of(options, job.start(), passes, first_number + i);
    trials.push_back(measure(options, runner, contest, i + 1, tried));
    const PlaceboTrial& trial = trials.back();
    fmt::print(stderr, "{} {:.1f} s: {} {}\n", trials.size(), trial.seconds, trial.verdict,
               trial.reason);
    if (!options.file.empty()) value_of(bench::append_placebo_trial(options.file, trial));
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"How often trials over real trainers call a placebo faster, or find a true gain."};
  Options options;
  app.add_option("RECIPE", options.recipe, "The job")->required();
  app.add_option("-s,--set", options.settings, "KNOB=VALUE for both arms");
  app.add_option("--kind", options.kind, "What the knob needs: restart or live")
      ->check(CLI::IsMember({"restart", "live"}))
      ->capture_default_str();
  app.add_option("--trials", options.trials, "Trials to be made; 0: only print the file's")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--run-trials", options.run_trials, "Trials before all processes start anew")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "The most time of a trial")->capture_default_str();
  app.add_option("--gain", options.gain_ratio, "The candidate's true gain, 0 for a placebo")
      ->check(CLI::Range(0.0, 0.5))
      ->capture_default_str();
  app.add_option("--disturb", options.disturbers,
                 "Threads of a second job, which is busy on and off meanwhile")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--json", options.file, "File that the trials are appended to, one a line");
  app.add_option("--blocks", options.blocks, "File that each block is appended to, one a line");
  CLI11_PARSE(app, argc, argv);
  if (options.kind == "live" && options.gain_ratio > 0.0) {
    fmt::print(stderr,
               "placebos: --gain needs --kind restart: the work is added by an extension\n");
    return 2;
  }

  std::vector<PlaceboTrial> trials;
  if (!options.file.empty()) trials = value_of(bench::read_placebo_trials(options.file));
  {
    const bench::Disturbance disturbance(options.disturbers, kBlock);
    for (int done = 0; done < options.trials; done += options.run_trials) {
      run_trials(options, done + 1, std::min(options.run_trials, options.trials - done), trials);
    }
  }
  if (!trials.empty()) fmt::print("{}", bench::placebo_table(trials, options.seconds));
  return 0;
}
