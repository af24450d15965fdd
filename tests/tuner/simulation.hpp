// SPDX-License-Identifier: Apache-2.0
// A training job, plugins, ledger and clock that exist in memory only, so that a whole session replays
// in milliseconds.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "tuner/one_time_cost.hpp"
#include "tuner/session.hpp"

namespace autotuned::tuner {

class FakeClock final : public Clock {
 public:
  [[nodiscard]] std::chrono::nanoseconds now() const override { return now_; }
  [[nodiscard]] std::int64_t unix_time_ns() const override {
    return 1'700'000'000'000'000'000 + now_.count();
  }
  void advance(std::chrono::nanoseconds by) { now_ += by; }

 private:
  std::chrono::nanoseconds now_{0};
};

inline Error disturbance();

// Rates by configuration, noise, faults, and updates that differ as the test says.
class SimulatedBackend final : public TrainingBackend {
 public:
  explicit SimulatedBackend(FakeClock& clock) : clock_(&clock) {}

  std::function<double(const Configuration&)> rate = [](const Configuration&) { return 1000.0; };
  std::function<std::optional<Error>(const Configuration&)> fault = [](const Configuration&) {
    return std::nullopt;
  };
  std::function<UpdateComparison(const Configuration&, const Configuration&, std::int64_t)>
      updates = [](const Configuration&, const Configuration&, std::int64_t steps) {
        return equal(steps);
      };
  std::function<UpdateComparison(const Configuration&, std::int64_t)> rounded_updates =
      [](const Configuration&, std::int64_t steps) { return equal(steps); };
  std::function<Json(const Configuration&)> metrics = [](const Configuration&) {
    return Json{{"step.data_wait_ratio", 0.5}};
  };
  std::optional<Error> profile_fault;
  int disturbed_profiles = 0;  // so many of the next ones
  std::optional<Error> trace_fault;
  std::chrono::nanoseconds trace_duration = std::chrono::milliseconds(200);
  std::vector<Configuration> traced;
  // What blocks of a configuration leave out, once.
  std::function<OneTimeCost(const Configuration&)> one_time = [](const Configuration&) {
    return OneTimeCost{};
  };
  bool is_training = false;  // what the user gets: nothing is taken back
  std::optional<Error> rounded_fault;
  double noise = 0.01;
  // Blocks that other programs slow: their share, and the mean of the logarithm of what they lose.
  double slowed_share = 0.0;
  double slowdown = 0.13;
  double ceiling_ratio = 2.0;                 // of the rate, with a batch that is on the device
  std::map<std::string, double> rung_ratios;  // of the lower rungs that the trainer knows
  std::int64_t step_ns = 10'000'000;
  std::int64_t peak_memory_bytes = 0;
  int cancel_at_block = 0;  // 0: never
  // Knobs that need a process of their own; each process runs at exp(process_effect * normal) times the rate.
  std::vector<std::string> restart_knobs;
  double process_effect = 0.0;
  std::chrono::nanoseconds start_duration = std::chrono::seconds(2);
  std::chrono::nanoseconds warm_up_duration{0};  // of each process, before anything else in it
  std::function<std::optional<Error>(const Configuration&, ProcessChoice)> start_fault =
      [](const Configuration&, ProcessChoice) { return std::nullopt; };
  std::vector<std::pair<Configuration, ProcessChoice>> readied;
  std::vector<std::optional<Configuration>> readied_against;  // the reference that each was told
  int blocks = 0;
  std::vector<CheckedSteps> looks;  // of the checks
  // keep_state() and take_state(), in order.
  std::vector<std::pair<std::string, Configuration>> moves;
  std::map<std::string, int> blocks_of;  // those that ran, by what they reused

  static UpdateComparison equal(std::int64_t steps) {
    UpdateComparison updates{.steps = steps, .equal = true, .finite = true};
    updates.parameters.push_back({"weight", 1.0, 1.0, 1.0});
    updates.reference_losses.assign(static_cast<std::size_t>(steps), 2.0);
    updates.candidate_losses = updates.reference_losses;
    return updates;
  }

  [[nodiscard]] bool trains_for_real() const override { return is_training; }

  Result<void> make_ready(const Configuration& configuration, ProcessChoice choice,
                          const Configuration* reference) override {
    readied.emplace_back(configuration, choice);
    readied_against.push_back(reference == nullptr ? std::optional<Configuration>()
                                                   : std::optional(*reference));
    if (auto error = start_fault(configuration, choice)) return tl::unexpected(*error);
    if (choice == ProcessChoice::alone) processes_.clear();
    if (choice == ProcessChoice::fresh) processes_.erase(restart_key(configuration));
    static_cast<void>(effect_of(configuration));
    return {};
  }

  [[nodiscard]] std::chrono::nanoseconds warm_up_time() const override {
    return processes_.empty() ? std::chrono::nanoseconds{0} : warm_up_duration;
  }

  [[nodiscard]] bool share_process(const Configuration& one,
                                   const Configuration& other) const override {
    return restart_key(one) == restart_key(other);
  }

  Result<Block> run_block(const Configuration& configuration,
                          const BlockRequest& request) override {
    ++blocks;
    if (cancel_at_block > 0 && blocks >= cancel_at_block) {
      return fail(ErrorKind::cancelled, "asked to stop");
    }
    if (auto error = fault(configuration)) return tl::unexpected(*error);
    double free = request.reuse == kDeviceBatch ? ceiling_ratio : 1.0;
    if (!request.reuse.empty() && request.reuse != kDeviceBatch) {
      const auto rung = rung_ratios.find(request.reuse);
      if (rung == rung_ratios.end()) return fail(ErrorKind::unsupported, "it would be the same");
      free = rung->second;
    }
    ++blocks_of[request.reuse];
    const double per_second = rate(configuration) * free * effect_of(configuration) *
                              std::exp(noise * normal_(engine_) - lost());
    const std::int64_t steps = std::max<std::int64_t>(
        request.minimum_steps, (request.minimum_duration.count() + step_ns - 1) / step_ns);
    Block block;
    block.start_ns = clock_->now().count();
    block.duration_ns = steps * step_ns;
    block.steps = steps;
    // Samples are whole, so a long block keeps the rate exact enough.
    block.samples = std::llround(per_second * static_cast<double>(block.duration_ns) / 1e9 * 1e3);
    block.peak_host_memory_bytes = peak_memory_bytes;
    const OneTimeCost cost = one_time(configuration);
    block.one_time_ns = static_cast<std::int64_t>(cost.ns);
    block.one_time_samples = static_cast<std::int64_t>(cost.samples);
    clock_->advance(std::chrono::nanoseconds(block.duration_ns));
    return block;
  }

  Result<UpdateComparison> compare_updates(const Configuration& reference,
                                           const Configuration& candidate, std::int64_t steps,
                                           CheckedSteps which) override {
    clock_->advance(std::chrono::milliseconds(50));
    if (auto error = fault(candidate)) return tl::unexpected(*error);
    looks.push_back(which);
    compared_steps_ = steps;
    return updates(reference, candidate, steps);
  }

  Result<UpdateComparison> compare_rounded(const Configuration& configuration) override {
    clock_->advance(std::chrono::milliseconds(50));
    if (rounded_fault) return tl::unexpected(*rounded_fault);
    return rounded_updates(configuration, compared_steps_);
  }

  Result<void> keep_state(const Configuration& of) override {
    moves.emplace_back("keep", of);
    return {};
  }

  Result<void> take_state(const Configuration& into) override {
    moves.emplace_back("take", into);
    return {};
  }

  Result<StepProfile> profile(const Configuration& configuration) override {
    clock_->advance(std::chrono::milliseconds(300));
    if (auto error = fault(configuration)) return tl::unexpected(*error);
    if (disturbed_profiles > 0) {
      --disturbed_profiles;
      return tl::unexpected(disturbance());
    }
    if (profile_fault) return tl::unexpected(*profile_fault);
    StepProfile profile;
    profile.metrics = metrics(configuration);
    return profile;
  }

  Result<void> add_trace(const Configuration& configuration, StepProfile& profile,
                         std::chrono::nanoseconds) override {
    clock_->advance(trace_duration);
    traced.push_back(configuration);
    if (trace_fault) return tl::unexpected(*trace_fault);
    profile.metrics["copies.pageable_ratio"] = 0.25;
    profile.metrics["operators.convolution_share_ratio"] = 0.75;
    profile.metrics["loading.read_share_ratio"] = 0.5;
    profile.places = {{"operators.gather_share_ratio", {{"module", "model.patch_drop"}}}};
    profile.findings.push_back({.id = "pageable_copies",
                                .signal = "copies.pageable_ratio",
                                .value = 0.25,
                                .threshold = 0.02,
                                .is_below = false,
                                .evidence = {},
                                .plugin = {},
                                .knob = {},
                                .advice = {}});
    return {};
  }

  void seed(std::uint64_t value) { engine_.seed(value); }

 private:
  [[nodiscard]] std::string restart_key(const Configuration& configuration) const {
    std::string key;
    for (const std::string& name : restart_knobs) {
      const KnobValue* const value = configuration.find(name);
      key += name + "=" + (value == nullptr ? "" : to_text(*value)) + ";";
    }
    return key;
  }

  // The effect of the process that runs this configuration. It is started if there is none.
  double effect_of(const Configuration& configuration) {
    const std::string key = restart_key(configuration);
    const auto running = processes_.find(key);
    if (running != processes_.end()) return running->second;
    if (!processes_.empty()) clock_->advance(start_duration);
    clock_->advance(warm_up_duration);
    return processes_[key] = std::exp(process_effect * normal_(engine_));
  }

  // The logarithm of what other programs take from a block.
  double lost() {
    if (slowed_share == 0.0) return 0.0;
    if (!std::bernoulli_distribution(slowed_share)(engine_)) return 0.0;
    return std::exponential_distribution<double>(1.0 / slowdown)(engine_);
  }

  std::int64_t compared_steps_ = 0;
  FakeClock* clock_;
  std::mt19937_64 engine_{11};
  std::normal_distribution<double> normal_;
  std::map<std::string, double> processes_;
};

class SimulatedAdvisors final : public Advisors {
 public:
  using Plugin = std::function<Result<Json>(const Json& situation)>;

  std::map<std::string, Plugin> plugins;
  std::vector<Json> situations;  // as they were shown, in order

  [[nodiscard]] std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, plugin] : plugins)
      names.push_back(name);
    return names;
  }
  Result<Json> ask(const std::string& plugin, const Json& situation) override {
    situations.push_back(situation);
    return plugins.at(plugin)(situation);
  }
};

// Of a block whose trainer somebody has slowed meanwhile.
inline Error disturbance() {
  return {.kind = ErrorKind::unsupported,
          .what = "a priority was changed",
          .where = {},
          .remedy = {},
          .is_disturbance = true};
}

inline Json none(const std::string& because) {
  return {{"candidates", Json::array()}, {"none_because", because}};
}

inline Json propose(const Json& change, double gain = 1.3) {
  return {
      {"candidates", {{{"change", change}, {"expected_gain_ratio", gain}, {"reason", "a test"}}}},
      {"none_because", ""}};
}

// Proposes `change` until it has been tried, then nothing.
inline SimulatedAdvisors::Plugin once(const Json& change, double gain = 1.3) {
  return [change, gain](const Json& situation) -> Result<Json> {
    for (const auto& [name, value] : change.items()) {
      if (situation["incumbent"][name] == value) return none("it is on");
    }
    for (const Json& trial : situation["trials"]) {
      if (trial["change"] == change) return none("it was tried");
    }
    return propose(change, gain);
  };
}

// Keeps everything; can fail, or let the session die, at the n-th call.
class MemoryLedger final : public Ledger {
 public:
  int die_after_call = 0;  // 0: never; else that call is kept and the session ends
  int fail_at_call = 0;    // 0: never; else that call is not kept
  int calls = 0;
  std::map<int, TrialRecord> trials;  // by number, as last written
  std::map<int, int> blocks;
  std::vector<std::pair<int, CheckRecord>> checks;
  std::vector<std::string> events;
  std::map<std::string, std::string> faults;
  std::vector<Ceiling> ceilings;
  std::vector<std::string> warnings;
  std::vector<TuningProgress> told;
  std::vector<std::pair<Configuration, StepProfile>> profiles;

  void warned(const std::string& text) override { warnings.push_back(text); }
  void progressed(const TuningProgress& progress) override { told.push_back(progress); }
  Result<void> baseline(const Configuration&, double) override {
    return keep("baseline", [] {});
  }
  Result<void> ceiling(const Ceiling& ceiling) override {
    return keep("ceiling", [&] { ceilings.push_back(ceiling); });
  }
  Result<void> profiled(const Configuration& configuration, const StepProfile& profile) override {
    return keep("profiled", [&] { profiles.emplace_back(configuration, profile); });
  }
  Result<void> not_profiled(const Error& error) override {
    return keep("not profiled: " + error.what, [] {});
  }
  Result<void> asking(const std::string& plugin) override {
    return keep("asking " + plugin, [] {});
  }
  Result<void> answered(const std::string& plugin, const std::string& outcome,
                        bool is_failure) override {
    return keep("answered " + plugin + ": " + outcome, [&] {
      if (is_failure) faults[plugin] = outcome;
    });
  }
  Result<void> trial_started(const TrialRecord& trial) override {
    return keep("started", [&] { trials[trial.number] = trial; });
  }
  Result<void> block_measured(const TrialRecord& trial, const TrialBlock&,
                              const Estimate&) override {
    return keep("block", [&] { ++blocks[trial.number]; });
  }
  Result<void> checked(const TrialRecord& trial, const CheckRecord& check) override {
    return keep("checked", [&] { checks.emplace_back(trial.number, check); });
  }
  Result<void> trial_finished(const TrialRecord& trial) override {
    return keep("finished", [&] { trials[trial.number] = trial; });
  }

  // What the session process passes on to the next one.
  void pass_on(SessionInput& input) const {
    input.earlier.clear();
    input.earlier_tuning_time = std::chrono::nanoseconds{0};
    for (const auto& [number, trial] : trials) {
      input.next_trial_number = number + 1;
      input.earlier_tuning_time += std::chrono::nanoseconds(trial.duration_ns);
      if (trial.verdict != Verdict::running && trial.verdict != Verdict::interrupted) {
        input.earlier.push_back(trial);
      }
    }
  }

 private:
  template <class Keep>
  Result<void> keep(const std::string& event, Keep what) {
    ++calls;
    if (calls == fail_at_call) return fail(ErrorKind::disk_full, "no space left", "history.db");
    what();
    events.push_back(event);
    if (calls == die_after_call) return fail(ErrorKind::internal, "the process died here");
    return {};
  }
};

// A recipe for a four-CPU machine on which everything is permitted.
inline SessionInput simulated_input() {
  SessionInput input;
  input.machine.cpus_allowed = 4;
  input.machine.physical_cores = 4;
  input.machine.memory_allowed_bytes = 8LL << 30;
  input.knobs = recipes::knobs_of(input.machine);
  for (const recipes::Knob& knob : input.knobs)
    input.supported_knobs.push_back(knob.name);
  input.recipe.name = "simulated";
  input.recipe.optimizer = {"sgd", {{"lr", 0.1}, {"momentum", 0.9}}};
  input.recipe.train.epochs = 1;
  input.recipe.train.batch_size = 32;
  input.recipe.tune.allow = {"numerics", "semantics"};
  input.recipe.tune.budget = std::chrono::minutes(5);
  input.recipe.tune.lr_scaling = recipes::LearningRateScaling::linear;
  input.recipe.start.set("optimizer.set_to_none", false);  // what some plugins here change
  input.starting = input.recipe.starting_configuration(input.knobs);
  input.job_facts = {{"device", "cpu"}, {"train_samples", 60000}, {"device_memory_bytes", 0}};
  return input;
}

// A session with everything it needs.
struct Simulation {
  FakeClock clock;
  SimulatedBackend job{clock};
  SimulatedAdvisors advisors;
  MemoryLedger ledger;
  SessionInput input = simulated_input();

  Result<SessionOutcome> run() { return run_session(input, job, advisors, ledger, clock); }
};

inline double faster_with(const Configuration& configuration, const char* knob,
                          const KnobValue& value, double ratio) {
  return *configuration.find(knob) == value ? ratio : 1.0;
}

inline double rate_with_bf16(const Configuration& configuration, double gain) {
  return 1000.0 * faster_with(configuration, "precision.autocast", std::string("bf16"), gain);
}

inline double rate_with_setting(const Configuration& configuration) {
  const KnobValue* const value = configuration.find("env.PLACEBO_SETTING");
  return value != nullptr && to_text(*value) == "1" ? 1300.0 : 1000.0;
}

// Two helpful plugins and a useless one.
inline void add_three_plugins(Simulation& simulation) {
  simulation.advisors.plugins["loading"] = once({{"loader.workers", 2}}, 1.5);
  simulation.advisors.plugins["precision"] = once({{"precision.autocast", "bf16"}}, 1.4);
  simulation.advisors.plugins["useless"] = once({{"optimizer.set_to_none", true}}, 1.1);
  simulation.job.rate = [](const Configuration& configuration) {
    return 1000.0 * faster_with(configuration, "loader.workers", std::int64_t{2}, 1.5) *
           faster_with(configuration, "precision.autocast", std::string("bf16"), 1.3);
  };
}

}  // namespace autotuned::tuner
