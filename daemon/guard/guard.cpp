// SPDX-License-Identifier: Apache-2.0
#include "daemon/guard/guard.hpp"

#include <fmt/format.h>

#include <array>
#include <random>
#include <utility>

#include "daemon/report/figures.hpp"
#include "tuner/advisors.hpp"
#include "tuner/comparison.hpp"
#include "tuner/context.hpp"
#include "tuner/ledger.hpp"
#include "tuner/trial.hpp"

namespace autotuned::daemon {
namespace {

using std::chrono::nanoseconds;

// A loss is told of equals, and one of the tolerance is missed, no more often than this.
constexpr double kFalseAlarms = 0.01;
constexpr double kMisses = 0.05;

// The inverse of the ratio, with its interval; unknown ends stay unknown.
Estimate turned(const Estimate& estimate) {
  return {.ratio = estimate.ratio > 0.0 ? 1.0 / estimate.ratio : 0.0,
          .low = estimate.high < tuner::kNoUpperEnd ? 1.0 / estimate.high : 0.0,
          .high = estimate.low > 0.0 ? 1.0 / estimate.low : tuner::kNoUpperEnd,
          .pairs = estimate.pairs};
}

// Remembers nothing.
class GuardLedger final : public tuner::Ledger {
 public:
  explicit GuardLedger(const std::function<void(const Estimate&)>& on_pair) : on_pair_(&on_pair) {}

  void warned(const std::string& /*text*/) override {}
  void progressed(const tuner::TuningProgress& /*progress*/) override {}
  Result<void> baseline(const Configuration& /*starting*/, double /*rate*/) override { return {}; }
  Result<void> ceiling(const tuner::Ceiling& /*ceiling*/) override { return {}; }
  Result<void> profiled(const Configuration& /*incumbent*/,
                        const tuner::StepProfile& /*profile*/) override {
    return {};
  }
  Result<void> not_profiled(const Error& /*error*/) override { return {}; }
  Result<void> asking(const std::string& /*plugin*/) override { return {}; }
  Result<void> answered(const std::string& /*plugin*/, const std::string& /*outcome*/,
                        bool /*is_failure*/) override {
    return {};
  }
  Result<void> trial_started(const TrialRecord& /*trial*/) override { return {}; }
  Result<void> block_measured(const TrialRecord& /*trial*/, const TrialBlock& block,
                              const Estimate& estimate) override {
    if (!block.is_first && *on_pair_) (*on_pair_)(turned(estimate));
    return {};
  }
  Result<void> checked(const TrialRecord& /*trial*/, const CheckRecord& /*check*/) override {
    return {};
  }
  Result<void> trial_finished(const TrialRecord& /*trial*/) override { return {}; }

 private:
  const std::function<void(const Estimate&)>* on_pair_;
};

// The parts of a recipe that determine the trainer's work: without knobs, and without parts that do not affect the
// rate.
Json job_of(const recipes::Recipe& recipe) {
  Json job = recipe.to_json();
  for (const char* left_out : {"name", "seed", "output", "file", "start", "tune"})
    job.erase(left_out);
  for (const char* left_out : {"epochs", "steps", "batch_size"})
    job["train"].erase(left_out);
  job["optimizer"].erase("lr");  // follows the batch size
  for (const char* part : {"model", "data"}) {
    for (const char* place : {"line", "column"})
      job[part].erase(place);
  }
  return job;
}

std::string build_of(const TrainerBackend& job) {
  return get_string(job.hello(), "trainer").value_or("unknown") + ", LibTorch " +
         get_string(job.hello(), "libtorch").value_or("unknown");
}

Error named(Error error, const std::string& side) {
  error.what = side + ": " + error.what;
  return error;
}

// The trial's sentences give the rate of the other side over this one; the guard gives the inverse.
std::string undecided_reason(const TrialRecord& trial, const Estimate& ratio,
                             double tolerance_ratio) {
  const bool is_of_rates = trial.rejection == RejectionReason::undecided_in_time ||
                           trial.rejection == RejectionReason::no_gain ||
                           trial.rejection == RejectionReason::slower ||
                           trial.rejection == RejectionReason::totals;
  // One that was disturbed has no figures to tell, however many pairs it had.
  if (!is_of_rates || trial.failure) return trial.reason;
  if (!has_interval(ratio)) return interval_text(ratio, 2);
  if (trial.rejection == RejectionReason::totals) {
    return "the median of the pairs and all samples over all time disagree: rare stalls";
  }
  return fmt::format(
      "the ratio may be {}, which neither excludes nor shows a loss of {:.1f} % of this side's "
      "rate",
      interval_text(ratio, 2), 100 * tolerance_ratio);
}

}  // namespace

const char* to_string(GuardVerdict verdict) {
  constexpr std::array kNames = {"not_slower", "slower", "undecided"};
  return kNames[static_cast<std::size_t>(verdict)];
}

bool GuardSpec::has_two_jobs() const {
  return own.trainer != against.trainer || job_of(own.recipe) != job_of(against.recipe);
}

bool GuardSpec::is_of_one() const {
  return !has_two_jobs() && own.configuration == against.configuration;
}

GuardResult unmeasured() {
  GuardResult result;
  result.verdict = GuardVerdict::not_slower;
  result.reason = "both sides are the same settings of the same trainer: nothing was measured";
  return result;
}

GuardResult result_of(const TrialRecord& trial, double tolerance_ratio) {
  GuardResult result;
  result.ratio = turned(trial.estimate);
  result.own_samples_per_second = trial.reference_samples_per_second;
  result.against_samples_per_second = trial.candidate_samples_per_second;
  result.process_pairs = trial.process_pairs;
  // A one-time cost does not make a side slower.
  const bool is_faster =
      trial.verdict == Verdict::accepted || trial.rejection == RejectionReason::not_repaid;
  const bool has_no_gain =
      trial.rejection == RejectionReason::slower || trial.rejection == RejectionReason::no_gain;
  if (is_faster) {
    result.verdict = GuardVerdict::slower;
  } else if (has_no_gain && trial.estimate.pairs > 0 &&
             trial.estimate.high < 1.0 + tolerance_ratio) {
    result.verdict = GuardVerdict::not_slower;
  } else {
    result.reason = undecided_reason(trial, result.ratio, tolerance_ratio);
  }
  return result;
}

Result<GuardResult> run_guard(const GuardSpec& spec, const std::vector<recipes::Knob>& knobs,
                              const Machine& machine, TrainerBackend& own, TrainerBackend* against,
                              const Clock& clock,
                              const std::function<void(const Estimate&)>& on_pair) {
  GuardBackend jobs(own, against);
  const nanoseconds begin = clock.now();
  if (auto started = jobs.start(spec.own.configuration, spec.against.configuration); !started) {
    return tl::unexpected(started.error());
  }
  tuner::SessionInput input;
  input.recipe = spec.own.recipe;
  input.knobs = knobs;
  input.machine = machine;
  input.job_facts = own.facts();
  input.start_time = (clock.now() - begin) / (against == nullptr ? 1 : 2);
  input.coin_seed = std::random_device{}();

  TrialRecord trial;
  trial.number = 1;
  trial.kind = TrialKind::verification;
  trial.plugin = tuner::kOwnName;
  trial.reference = on_this_side(spec.own.configuration);
  trial.change = trial.reference.change_to(on_other_side(spec.against.configuration));
  trial.risk = "exact";
  tuner::TrialPlan rules;
  rules.rules = {.accept_error_probability = kFalseAlarms,
                 .reject_error_probability = kMisses,
                 .min_gain_ratio = spec.tolerance_ratio};
  rules.time_share = spec.budget;
  rules.most_time = spec.budget;
  rules.is_checked = false;
  rules.has_first_look = false;
  rules.gives_up_early = false;
  rules.is_watched_for_stalls = false;

  GuardLedger ledger(on_pair);
  tuner::TrialRunner runner(input, jobs, ledger, clock);
  const auto done = runner.run(std::move(trial), rules);
  if (!done && done.error().kind == ErrorKind::cancelled) return tl::unexpected(done.error());
  if (!done) return tl::unexpected(named(done.error(), spec.own.name));
  if (done->verdict == Verdict::failed) {
    return fail(done->failure.value_or(ErrorKind::internal),
                spec.against.name + ": " + done->reason);
  }
  GuardResult result = result_of(*done, spec.tolerance_ratio);
  result.own_build = build_of(own);
  result.against_build = build_of(against == nullptr ? own : *against);
  return result;
}

}  // namespace autotuned::daemon
