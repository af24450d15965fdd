// SPDX-License-Identifier: Apache-2.0
#include "tuner/session.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "tuner/baseline.hpp"
#include "tuner/budget.hpp"
#include "tuner/candidates.hpp"
#include "tuner/confirmation.hpp"
#include "tuner/diagnosis.hpp"
#include "tuner/evidence.hpp"
#include "tuner/incumbent.hpp"
#include "tuner/search.hpp"
#include "tuner/trial_series.hpp"

namespace autotuned::tuner {
namespace {

using std::chrono::nanoseconds;

// Whether the time ended a trial before it decided on a gain that is worth having, and no later
// trial of the change decided. So it is of one that had less than any verdict takes, whatever its
// pairs say: a first look at fresh processes alone, or fewer pairs of blocks than an interval has.
bool is_left_open(const TrialRecord& trial, const std::vector<TrialRecord>& trials,
                  double min_gain_ratio) {
  const auto is_open = [=](const TrialRecord& one) {
    return one.kind == TrialKind::proposal && one.rejection == RejectionReason::undecided_in_time &&
           (one.estimate.ratio >= 1.0 + min_gain_ratio || one.process_pairs == 1 ||
            (one.process_pairs == 0 && one.estimate.low <= 0.0 && one.estimate.ratio > 1.0));
  };
  return is_open(trial) && std::ranges::none_of(trials, [&](const TrialRecord& later) {
           return later.number > trial.number && later.kind == TrialKind::proposal &&
                  later.reference == trial.reference && later.change == trial.change &&
                  !is_open(later) && later.verdict != Verdict::interrupted;
         });
}

// What it would have confirmed is as good as untried: the next run of the job tries it again.
bool is_open_confirmation(const TrialRecord& trial) {
  return trial.kind == TrialKind::confirmation &&
         trial.rejection == RejectionReason::undecided_in_time;
}

const char* budget_name(bool is_script) {
  return is_script ? "--budget" : "tune.budget";
}

// Of one trial, with the baseline before it and the confirmation after it, where every block is as
// short as can be.
nanoseconds least_budget() {
  constexpr int kBaselinePairs = 3;
  return (kBaselinePairs + kLeastTrialPairs + kConfirmationPairs) * 2 *
         BlockRequest{}.minimum_duration;
}

// Pairs of fresh processes of one trial and its confirmation: the first look, the fewest that
// decide, and those for which a search leaves time.
int least_process_pairs() {
  return 1 + fastest_test(accept_error_ratio_after(0)).fewest_pairs + kReserveProcessPairs;
}

// The blocks of a pair that decides take half as long as its two starts, or longer.
nanoseconds least_budget_of_processes(nanoseconds start_time) {
  return (2 * least_process_pairs() + fastest_test(accept_error_ratio_after(0)).fewest_pairs) *
         start_time;
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
        series_(input, baseline, backend, ledger, clock),
        incumbent_(input.starting),
        diagnosis_(input, baseline, budget, backend, ledger, clock) {}

  Result<SessionOutcome> run();

 private:
  // Takes over what earlier processes of the run decided. True when the search was over by then.
  bool restore();
  // Builds on a remembered configuration that holds. True where that leaves nothing to search for.
  Result<bool> use_known_best();
  Result<void> verify_known_best();
  // For a session that goes on to search.
  void warn_of_budget();
  Result<SearchEnd> search_or_go_on(bool is_searched);
  // What follows once it is known what is kept.
  Result<SessionOutcome> conclude(const SearchEnd& end);
  // `decisive` showed what is kept; null where nothing is.
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
    if (outcome) outcome->is_from_history = true;
    return outcome;
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
    // One before the confirmation: of a change that was accepted by little.
    if (trial.kind == TrialKind::ablation && !incumbent_.is_start() &&
        confirmation_of(incumbent_, series_) == nullptr) {
      is_searched = true;
      if (drops_its_change(trial)) incumbent_.drop(trial.change);
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
  const auto verification = std::ranges::find(trials, TrialKind::verification, &TrialRecord::kind);
  if (verification == trials.end() || verification->verdict != Verdict::accepted) return false;
  incumbent_.build_on(verification->reference.with(verification->change));
  // Of an earlier process that had gone on with the search, what it found stands.
  const bool has_searched = std::ranges::any_of(trials, [](const TrialRecord& trial) {
    return trial.kind == TrialKind::proposal || trial.kind == TrialKind::confirmation;
  });
  return input_->is_known_best_complete && !has_searched;
}

Result<void> Session::verify_known_best() {
  const Candidate known{.plugin = kOwnName,
                        .change = input_->starting.change_to(*input_->known_best),
                        .reason = "the best configuration of an earlier run here",
                        .source = CandidateSource::remembered};
  // A recipe that now permits less, or a machine that can do less, makes it unusable.
  if (screen(known, state_of(*input_, series_, incumbent_, diagnosis_))) return {};
  return verify(*input_, *budget_, series_, input_->starting.with(known.change), known.reason);
}

// What one trial of a knob that is switched live needs, with what comes before it and the
// confirmation after it. By now it is known how long blocks take.
void Session::warn_of_budget() {
  if (budget_->whole() < least_budget()) return;  // that was said before the baseline
  const nanoseconds needed = budget_->elapsed() + series_.least_time(CeilingPlan{}.pairs + 1) +
                             series_.least_time(kLeastTrialPairs) +
                             series_.least_time(kConfirmationPairs);
  if (needed <= budget_->whole()) return;
  ledger_->warned(fmt::format("{} {} is too small for one trial here: about {} are needed",
                              budget_name(input_->is_script), format_duration(budget_->whole()),
                              format_duration(needed)));
}

Result<SearchEnd> Session::search_or_go_on(bool is_searched) {
  if (!is_searched) {
    warn_of_budget();
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
  const nanoseconds tuning_time = budget_->elapsed();
  if (input_->is_ablated) {
    auto ablated = ablate(series_, incumbent_, input_->starting);
    if (!ablated) return forward_error(ablated);
  }
  const TrialRecord* const decisive =
      incumbent_.is_start() ? nullptr : confirmation_of(incumbent_, series_);
  return outcome_of(decisive, end, tuning_time);
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
  // The machine's speed drifts between then and now, and what was accepted last may have no ladder of its own.
  outcome.ceiling = ceiling_above(diagnosis_.ceiling(), outcome.best_samples_per_second);
  outcome.trials = series_.records();
  outcome.untried = end.untried;
  outcome.tuning_time = tuning_time;
  const bool is_cut_short = std::ranges::any_of(outcome.trials, [&](const TrialRecord& trial) {
    return is_open_confirmation(trial) ||
           is_left_open(trial, outcome.trials, input_->recipe.tune.min_gain_ratio);
  });
  outcome.is_budget_spent = end.is_budget_spent || is_cut_short;
  outcome.is_complete = end.is_complete && !is_cut_short;
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

// Before the baseline, where there will be a search.
void warn_before_baseline(const SessionInput& input, Ledger& ledger) {
  if (!input.earlier.empty() || (input.known_best && input.is_known_best_complete)) return;
  const std::string warning =
      budget_warning(input.recipe.tune.budget, input.is_script, input.start_time, "about");
  if (!warning.empty()) ledger.warned(warning);
}

}  // namespace

std::string budget_warning(nanoseconds budget, bool is_script, nanoseconds start_time,
                           std::string_view how_exact) {
  if (budget <= nanoseconds{0}) return {};
  const std::string said =
      fmt::format("{} {} is too small for ", budget_name(is_script), format_duration(budget));
  if (budget < least_budget()) {
    return said + fmt::format("one trial here: at least {} are needed, more where steps are slow",
                              format_duration(least_budget()));
  }
  // Nothing starts a script again.
  const nanoseconds needed = least_budget_of_processes(start_time);
  if (is_script || needed <= budget) return {};
  return said + fmt::format(
                    "a change that needs processes of its own: a trial and its confirmation take "
                    "{} {}, for {} starts of a trainer; only changes without a restart are decided",
                    how_exact, format_duration(needed), 2 * least_process_pairs());
}

Result<SessionOutcome> run_session(const SessionInput& input, TrainingBackend& backend,
                                   Advisors& advisors, Ledger& ledger, const Clock& clock) {
  if (input.recipe.tune.budget <= nanoseconds{0}) return unsearched(input);
  const Budget budget(input.recipe.tune.budget, input.earlier_tuning_time, clock);
  ledger.progressed({.trials_done = static_cast<int>(input.earlier.size()),
                     .trials_expected = 0,
                     .budget = budget.whole(),
                     .budget_spent = budget.elapsed()});
  warn_before_baseline(input, ledger);
  const auto baseline = measure_baseline(input, backend, ledger, clock);
  if (!baseline) return forward_error(baseline);
  return Session(input, *baseline, budget, backend, advisors, ledger, clock).run();
}

}  // namespace autotuned::tuner
