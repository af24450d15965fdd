// SPDX-License-Identifier: Apache-2.0
#include "tuner/session.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "tuner/baseline.hpp"
#include "tuner/budget.hpp"
#include "tuner/confirmation.hpp"
#include "tuner/diagnosis.hpp"
#include "tuner/evidence.hpp"
#include "tuner/incumbent.hpp"
#include "tuner/proposals.hpp"
#include "tuner/search.hpp"
#include "tuner/trial_series.hpp"

namespace autotuned::tuner {
namespace {

using std::chrono::nanoseconds;

// Whether the time of a trial ended before it decided about a gain that is worth keeping, and no later trial of the change decided. A
// trial with fewer pairs than any verdict needs always counts: a trial with only a first look at fresh processes, one with too few pairs
// of blocks for an interval, or one that was disturbed.
bool is_left_open(const TrialRecord& trial, const std::vector<TrialRecord>& trials,
                  double min_gain_ratio) {
  const auto is_open = [=](const TrialRecord& one) {
    return one.kind == TrialKind::proposal && one.rejection == RejectionReason::undecided_in_time &&
           (one.failure || one.estimate.ratio >= 1.0 + min_gain_ratio || one.process_pairs == 1 ||
            (one.process_pairs == 0 && one.estimate.low <= 0.0 && one.estimate.ratio > 1.0));
  };
  return is_open(trial) && std::ranges::none_of(trials, [&](const TrialRecord& later) {
           return later.number > trial.number && later.kind == TrialKind::proposal &&
                  (later.reference == trial.reference || trial.failure) &&
                  later.change == trial.change && !is_open(later) &&
                  later.verdict != Verdict::interrupted;
         });
}

// A configuration whose confirmation ended undecided counts as untried: the next run of the job tries it again.
bool is_open_confirmation(const TrialRecord& trial) {
  return trial.kind == TrialKind::confirmation &&
         trial.rejection == RejectionReason::undecided_in_time;
}

// Pairs of blocks between the baseline and the first trial: the ceiling takes some (a script has no ceiling), and a
// profile takes about as long as one.
int pairs_before_trials(bool is_script, const Baseline& baseline) {
  return 1 + (is_script ? 0 : ceiling_plan_of(baseline).pairs);
}

// Pairs of blocks of the shortest trial and its confirmation.
constexpr int kPairsOfTrial = kMinTrialPairs + kConfirmationPairs;

// Pairs of fresh processes of one trial and its confirmation: the first look, the fewest that
// decide, and those for which a search leaves time.
int least_process_pairs() {
  return 1 + fastest_test(accept_error_probability_after(0)).fewest_pairs +
         kConfirmationProcessPairs;
}

// The least budget for a trial with fresh processes: the two starts of its first look, and all other pairs with their
// blocks.
nanoseconds least_budget_of_processes(nanoseconds start_time) {
  const nanoseconds starting = 2 * start_time;
  return starting + (least_process_pairs() - 1) * least_process_pair_time(starting, nanoseconds{0});
}

// The times of trials, as far as they are known.
struct TrialTimes {
  nanoseconds before{0};    // before the first trial
  nanoseconds pair{0};      // a pair of blocks
  nanoseconds start{0};     // of a trainer, and its warming where that is known; 0: not known
  bool is_measured = true;  // false: lower bounds, by the shortest block
};

TrialTimes least_times(bool is_script, nanoseconds start_time) {
  constexpr int kBaselinePairs = 3;
  const nanoseconds pair = 2 * BlockRequest{}.minimum_duration;
  return {.before = (kBaselinePairs + pairs_before_trials(is_script, {})) * pair,
          .pair = pair,
          .start = start_time,
          .is_measured = false};
}

struct BudgetReach {
  bool has_trial = true;   // suffices for a trial of a live knob, with its confirmation
  nanoseconds needed{0};   // for such a trial, where it does not suffice
  std::string shortage{};  // what the budget is too small for, and what is needed
};

// How a budget is told, with its size.
struct BudgetWords {
  std::string called;
  bool is_chosen = false;  // nobody gave it: --budget would
};

// A budget that an option or a key gave.
BudgetWords given_budget(nanoseconds budget, bool is_option) {
  return {.called = fmt::format("{} {}", is_option ? "--budget" : "tune.budget",
                                format_duration(budget))};
}

BudgetWords budget_words(const SessionInput& input) {
  const nanoseconds budget = input.recipe.tune.budget;
  if (!input.is_script || input.is_budget_option) {
    return given_budget(budget, input.is_budget_option);
  }
  const bool is_share = budget < recipes::Tune{}.budget;
  return {.called = fmt::format("the {} that tuning may take, {},",
                                is_share ? "share of the script's time" : "time",
                                format_duration(budget)),
          .is_chosen = true};
}

// The option that gives enough where the user gave none: a tenth more than is needed, in steps of five seconds.
std::string remedy_text(const BudgetWords& words, nanoseconds needed) {
  if (!words.is_chosen) return {};
  constexpr nanoseconds kStep = std::chrono::seconds(5);
  const std::int64_t steps = (needed + needed / 10 + kStep - nanoseconds(1)) / kStep;
  return fmt::format("; --budget {}s would do", 5 * steps);
}

BudgetReach reach_of(nanoseconds budget, const BudgetWords& words, bool is_script,
                     const TrialTimes& times) {
  const std::string said = words.called + " is too small for ";
  const nanoseconds of_trial = times.before + kPairsOfTrial * times.pair;
  if (budget < of_trial) {
    const std::string needed = format_duration(of_trial);
    return {.has_trial = false,
            .needed = of_trial,
            .shortage = said + (times.is_measured ? "one trial here: about " + needed +
                                                        " are needed" + remedy_text(words, of_trial)
                                                  : "one trial here: at least " + needed +
                                                        " are needed, more where steps are slow")};
  }
  // A script is never restarted.
  const nanoseconds of_processes = least_budget_of_processes(times.start);
  if (is_script || budget >= of_processes) return {};
  return {.shortage =
              said + fmt::format("a change that needs processes of its own: a trial and its "
                                 "confirmation take {} {}, for {} starts of a trainer; only "
                                 "changes without a restart are decided",
                                 times.is_measured ? "about" : "at least",
                                 format_duration(of_processes), 2 * least_process_pairs())};
}

// The budget of a run whose verification has taken the time of the first trial. `needed`: for both.
std::string shortage_after_verification(const BudgetWords& words, nanoseconds needed) {
  return fmt::format(
      "{} has no time for a trial after the verification of the remembered configuration: about {} "
      "are needed for both{}",
      words.called, format_duration(needed), remedy_text(words, needed));
}

// Why a remembered configuration is verified, with what was measured of it.
std::string remembered_text(const SessionInput& input) {
  const Estimate& known = input.known_best_speedup;
  if (input.known_best_run.empty() || known.pairs == 0) {
    return "the best configuration of an earlier run here";
  }
  const int decimals = ratio_decimals(known.low, known.high, 2);
  return fmt::format(
      "the best configuration of run {}, measured before as {:.{}f} x ({:.{}f} to {:.{}f})",
      input.known_best_run, known.ratio, decimals, known.low, decimals, known.high, decimals);
}

// Whether an earlier process of the run has begun the tuning.
bool is_begun(const SessionInput& input) {
  return !input.earlier.empty() || input.earlier_tuning_time > nanoseconds{0};
}

// Whether nothing that is known is to be verified before.
bool begins_with_search(const SessionInput& input) {
  if (is_begun(input)) return false;
  if (!input.known_best) return true;
  return !input.is_known_best_complete && input.starting.change_to(*input.known_best).empty();
}

class Session {
 public:
  Session(const SessionInput& input, const Baseline& baseline, const Budget& budget,
          TrainingBackend& backend, Advisors& advisors, Ledger& ledger, const Clock& clock)
      : input_(&input),
        baseline_(&baseline),
        budget_(&budget),
        advisors_(&advisors),
        ledger_(&ledger),
        series_(input, baseline, budget, backend, ledger, clock),
        incumbent_(input.starting),
        diagnosis_(input, baseline, budget, backend, ledger, clock) {}

  Result<SessionOutcome> run();

 private:
  // Takes over what earlier processes of the run decided. True when the search was over by then.
  bool restore();
  // Builds on a remembered configuration that holds. True where that leaves nothing to search for.
  Result<bool> use_known_best();
  Result<void> verify_known_best();
  // What the budget suffices for, now that the time of blocks is known.
  [[nodiscard]] BudgetReach reach() const;
  Result<SearchEnd> search_or_go_on(bool is_searched);
  // Completes the diagnosis of the kept configuration, then finishes.
  Result<SessionOutcome> conclude(const SearchEnd& end);
  // Ablates, if requested, and makes the outcome.
  Result<SessionOutcome> finish(const SearchEnd& end);
  // `decisive`: the trial that confirmed the kept configuration; null if no change is kept.
  [[nodiscard]] SessionOutcome outcome_of(const TrialRecord* decisive, const SearchEnd& end,
                                          nanoseconds tuning_time) const;

  const SessionInput* input_;
  const Baseline* baseline_;
  const Budget* budget_;
  Advisors* advisors_;
  Ledger* ledger_;
  TrialSeries series_;
  Incumbent incumbent_;
  Diagnosis diagnosis_;
};

Result<SessionOutcome> Session::run() {
  const bool is_searched = restore();
  const auto settled = use_known_best();
  if (!settled) return forward_error(settled);
  if (*settled) {
    auto measured = diagnosis_.measure_ceiling(incumbent_.configuration());
    if (!measured) return forward_error(measured);
    auto outcome = conclude({.is_complete = true});
    if (!outcome) return forward_error(outcome);
    outcome->is_from_history = true;
    outcome->searched_by = input_->known_best_run;
    return outcome;
  }

  // A budget that an earlier process has used is not judged again.
  if (!is_searched && !is_begun(*input_)) {
    const BudgetReach reached = reach();
    if (!reached.has_trial) {
      auto outcome = finish({.is_budget_spent = true});
      if (!outcome) return outcome;
      outcome->shortage = verification_of(series_.records()) == nullptr
                              ? reached.shortage
                              : shortage_after_verification(budget_words(*input_), reached.needed);
      return outcome;
    }
    if (!reached.shortage.empty()) ledger_->warned(reached.shortage);
  }

  const auto end = search_or_go_on(is_searched);
  if (!end) return forward_error(end);
  ledger_->progressed({.trials_done = static_cast<int>(series_.records().size()),
                       .trials_expected = incumbent_.is_start() ? 0 : 1,
                       .budget = budget_->whole(),
                       .budget_spent = budget_->elapsed()});
  if (auto dropped = drop_marginal(*input_, *budget_, series_, incumbent_); !dropped) {
    return forward_error(dropped);
  }
  if (auto confirmed = confirm(*input_, *budget_, series_, incumbent_); !confirmed) {
    return forward_error(confirmed);
  }
  return conclude(*end);
}

// What an earlier process decided stands: the configurations it accepted, those that a confirmation
// refused, and that the search was over when a confirmation had begun.
bool Session::restore() {
  bool is_searched = false;
  for (const TrialRecord& trial : input_->earlier) {
    series_.add_earlier(trial);
    const bool is_accepted = trial.verdict == Verdict::accepted;
    if (trial.kind == TrialKind::proposal && is_accepted) {
      incumbent_.accept(trial.reference.with(trial.change));
    }
    if (trial.kind == TrialKind::confirmation) {
      is_searched = true;
      if (!is_accepted) incumbent_.fall_back();
    }
    // An ablation before the confirmation: the change had only a small gain.
    if (trial.kind == TrialKind::ablation && !incumbent_.is_start() &&
        confirmation_of(incumbent_, series_) == nullptr) {
      is_searched = true;
      if (drops_its_change(trial)) incumbent_.drop(trial.change, trial.reference);
    }
  }
  return is_searched;
}

Result<bool> Session::use_known_best() {
  const std::vector<TrialRecord>& trials = series_.records();
  if (trials.empty() && input_->known_best) {
    // The earlier run found nothing faster than what the recipe says, or had no time to try anything.
    const bool is_start = input_->starting.change_to(*input_->known_best).empty();
    if (is_start) return input_->is_known_best_complete;
    if (auto verified = verify_known_best(); !verified) return forward_error(verified);
  }
  const TrialRecord* const verification = verification_of(trials);
  if (verification == nullptr || verification->verdict != Verdict::accepted) return false;
  incumbent_.build_on(verification->reference.with(verification->change));
  // If an earlier process went on with the search, its result stands.
  const bool has_searched = std::ranges::any_of(trials, [](const TrialRecord& trial) {
    return trial.kind == TrialKind::proposal || trial.kind == TrialKind::confirmation;
  });
  return input_->is_known_best_complete && !has_searched;
}

Result<void> Session::verify_known_best() {
  const Proposal known{.plugin = kOwnName,
                       .change = input_->starting.change_to(*input_->known_best),
                       .reason = remembered_text(*input_),
                       .source = ProposalSource::remembered};
  // A recipe that now permits less, or a machine that can do less, makes it unusable.
  if (screen(known, state_of(*input_, series_, incumbent_, diagnosis_))) return {};
  return verify(*input_, *budget_, series_, input_->starting.with(known.change), known.reason,
                pairs_before_trials(input_->is_script, *baseline_) + kPairsOfTrial);
}

BudgetReach Session::reach() const {
  const nanoseconds pair = series_.least_time(1);
  return reach_of(
      budget_->whole(), budget_words(*input_), input_->is_script,
      {.before = budget_->elapsed() + pairs_before_trials(input_->is_script, *baseline_) * pair,
       .pair = pair,
       .start = series_.process_start_time() / 2});
}

Result<SearchEnd> Session::search_or_go_on(bool is_searched) {
  if (!is_searched) {
    return search(*input_, *budget_, *advisors_, *ledger_, series_, incumbent_, diagnosis_);
  }
  auto measured = diagnosis_.measure_ceiling(incumbent_.configuration());
  if (!measured) return forward_error(measured);
  return SearchEnd{};
}

Result<SessionOutcome> Session::conclude(const SearchEnd& end) {
  if (auto completed = diagnosis_.complete(incumbent_.configuration()); !completed) {
    return forward_error(completed);
  }
  return finish(end);
}

Result<SessionOutcome> Session::finish(const SearchEnd& end) {
  const nanoseconds tuning_time = budget_->elapsed();
  // The ablations that follow have no budget.
  const std::vector<int> beyond_budget = series_.beyond_budget();
  if (input_->is_ablated) {
    auto ablated = ablate(series_, incumbent_, input_->starting);
    if (!ablated) return forward_error(ablated);
  }
  const TrialRecord* const decisive =
      incumbent_.is_start() ? nullptr : confirmation_of(incumbent_, series_);
  SessionOutcome outcome = outcome_of(decisive, end, tuning_time);
  outcome.trials_beyond_budget = beyond_budget;
  // The last ceiling in the ledger is that of the outcome, so that every view has the same.
  if (!outcome.ceiling.rungs.empty()) {
    if (auto told = ledger_->ceiling(outcome.ceiling); !told) return forward_error(told);
  }
  return outcome;
}

SessionOutcome Session::outcome_of(const TrialRecord* decisive, const SearchEnd& end,
                                   nanoseconds tuning_time) const {
  SessionOutcome outcome;
  outcome.best = input_->starting;
  outcome.baseline_samples_per_second = baseline_->samples_per_second;
  outcome.best_samples_per_second = baseline_->samples_per_second;
  outcome.speedup = {.ratio = 1.0, .low = 1.0, .high = 1.0, .pairs = 0};
  if (decisive != nullptr) {
    outcome.best = decisive->reference.with(decisive->change);
    outcome.baseline_samples_per_second = decisive->reference_samples_per_second;
    outcome.best_samples_per_second = decisive->candidate_samples_per_second;
    outcome.speedup = decisive->estimate;
    outcome.is_from_history = decisive->kind == TrialKind::verification;
  }
  // The speed of the machine drifts, and the last accepted configuration may have no ladder of its own.
  outcome.ceiling = ceiling_above(diagnosis_.ceiling(), outcome.best_samples_per_second);
  outcome.trials = series_.records();
  outcome.untried = end.untried;
  outcome.tuning_time = tuning_time;
  outcome.is_budget_spent = end.is_budget_spent;
  outcome.is_complete = end.is_complete;
  for (const TrialRecord& trial : outcome.trials) {
    if (!is_open_confirmation(trial) &&
        !is_left_open(trial, outcome.trials, input_->recipe.tune.min_gain_ratio)) {
      continue;
    }
    outcome.is_complete = false;
    // No budget would have decided one that was disturbed.
    if (!trial.failure) outcome.is_budget_spent = true;
  }
  return outcome;
}

SessionOutcome unsearched(const SessionInput& input) {
  SessionOutcome outcome;
  outcome.best = input.starting;
  outcome.speedup = {.ratio = 1.0, .low = 1.0, .high = 1.0, .pairs = 0};
  outcome.trials = input.earlier;
  outcome.tuning_time = input.earlier_tuning_time;
  outcome.is_searched = false;
  return outcome;
}

}  // namespace

std::string budget_warning(nanoseconds budget, bool is_script, nanoseconds start_time) {
  if (budget <= nanoseconds{0}) return {};
  return reach_of(budget, given_budget(budget, is_script), is_script,
                  least_times(is_script, start_time))
      .shortage;
}

Result<SessionOutcome> run_session(const SessionInput& input, TrainingBackend& backend,
                                   Advisors& advisors, Ledger& ledger, const Clock& clock) {
  if (input.recipe.tune.budget <= nanoseconds{0}) return unsearched(input);
  if (begins_with_search(input)) {
    const BudgetReach reached =
        reach_of(input.recipe.tune.budget, budget_words(input), input.is_script,
                 least_times(input.is_script, input.start_time));
    if (!reached.has_trial) {
      SessionOutcome outcome = unsearched(input);
      outcome.is_budget_spent = true;
      outcome.shortage = reached.shortage;
      return outcome;
    }
  }
  const Budget budget(input.recipe.tune.budget, input.earlier_tuning_time, clock);
  ledger.progressed({.trials_done = static_cast<int>(input.earlier.size()),
                     .trials_expected = 0,
                     .budget = budget.whole(),
                     .budget_spent = budget.elapsed()});
  const auto baseline = measure_baseline(input, backend, ledger, clock);
  if (!baseline) return forward_error(baseline);
  return Session(input, *baseline, budget, backend, advisors, ledger, clock).run();
}

}  // namespace autotuned::tuner
