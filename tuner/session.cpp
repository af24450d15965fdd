// SPDX-License-Identifier: Apache-2.0
// The steps of a session around the search: baseline, remembered configurations, confirmation, ablation.
#include "tuner/session.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "tuner/candidates.hpp"
#include "tuner/session_run.hpp"

namespace autotuned::tuner {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr int kBaselineBlocks = 5;
constexpr double kConfirmationError = 0.01;
constexpr int kConfirmationPairs = 10;  // the fewest that a confirmation is given time for
constexpr double kWantedHalfWidth = 0.03;
constexpr nanoseconds kTighteningTime = seconds(20);
constexpr nanoseconds kMostVerificationTime = seconds(30);
constexpr nanoseconds kSlowBlock = seconds(1);
constexpr nanoseconds kAblationTime = seconds(20);  // of one kept change
// A change whose trial showed no more than this is looked at again before the confirmation.
constexpr double kMarginalLow = 1.01;
constexpr int kLeastTrialPairs = 8;
constexpr int kCeilingPairs = 5;

Error with_remedy(Error error) {
  if (error.kind != ErrorKind::cancelled && error.remedy.empty()) {
    error.remedy = "the starting configuration must run before anything can be tuned";
  }
  return error;
}

}  // namespace

SessionRun::SessionRun(const SessionInput& input, TrainingBackend& backend, Advisors& advisors,
                       Ledger& ledger, const Clock& clock)
    : input_(&input),
      backend_(&backend),
      advisors_(&advisors),
      ledger_(&ledger),
      clock_(&clock),
      runner_(input, backend, ledger, clock),
      started_(clock.now()) {}

nanoseconds SessionRun::elapsed() const {
  return input_->earlier_tuning_time + (clock_->now() - started_);
}

nanoseconds SessionRun::remaining() const {
  return std::max(nanoseconds{0}, input_->recipe.tune.budget - elapsed());
}

// What an earlier process decided stands: the configurations it accepted, those that a confirmation
// refused, and that the search was over when a confirmation had begun.
void SessionRun::restore() {
  next_number_ = input_->next_trial_number;
  for (const TrialRecord& trial : input_->earlier) {
    next_number_ = std::max(next_number_, trial.number + 1);
    trials_.push_back(trial);
    const bool is_accepted = trial.verdict == Verdict::accepted;
    const Configuration candidate = trial.reference.with(trial.change);
    if (trial.kind == TrialKind::proposal && is_accepted) {
      past_incumbents_.push_back(incumbent());
      accepted_.push_back(candidate);
    }
    if (trial.kind == TrialKind::confirmation) {
      is_searched_ = true;
      if (!is_accepted && !accepted_.empty()) accepted_.pop_back();
    }
    // One before the confirmation: of a change that was accepted by little.
    if (trial.kind == TrialKind::ablation && !accepted_.empty() && confirmed() == nullptr) {
      is_searched_ = true;
      if (drops_its_change(trial)) drop_change(trial.change);
    }
  }
}

Result<void> SessionRun::measure_baseline() {
  // The first block pays for threads, caches and memory.
  auto warm = backend_->run_block(input_->starting, {});
  if (!warm) return tl::unexpected(with_remedy(warm.error()));
  std::vector<double> rates;
  std::vector<double> durations_ns;
  const nanoseconds started = clock_->now();
  for (int i = 0; i < kBaselineBlocks; ++i) {
    auto block = backend_->run_block(input_->starting, {});
    if (!block) return tl::unexpected(with_remedy(block.error()));
    if (!(block->samples_per_second() > 0.0)) {
      return fail(ErrorKind::internal, "a block of the starting configuration has no rate");
    }
    rates.push_back(block->samples_per_second());
    durations_ns.push_back(static_cast<double>(block->duration_ns));
    has_slow_blocks_ = median(durations_ns) > static_cast<double>(nanoseconds(kSlowBlock).count());
    if (has_slow_blocks_ && i >= 1) break;
  }
  baseline_pair_time_ = std::max<nanoseconds>(
      nanoseconds(1), 2 * (clock_->now() - started) / static_cast<std::int64_t>(rates.size()));
  baseline_rate_ = median(std::move(rates));
  return ledger_->baseline(input_->starting, baseline_rate_);
}

// What one trial of a knob that is switched live needs, with what comes before it and the confirmation after it.
void SessionRun::warn_of_budget() {
  const nanoseconds budget = input_->recipe.tune.budget;
  const nanoseconds needed = elapsed() + least_time(kCeilingPairs + 1) +
                             least_time(kLeastTrialPairs) + least_time(kConfirmationPairs);
  if (needed <= budget) return;
  ledger_->warned(fmt::format("tune.budget {} is too small for one trial here: about {} are needed",
                              format_duration(budget), format_duration(needed)));
}

TrialRecord SessionRun::new_trial(TrialKind kind, const Configuration& reference,
                                  const Configuration& candidate) {
  TrialRecord trial;
  trial.number = next_number_++;
  trial.kind = kind;
  trial.plugin = kOwnName;
  trial.reference = reference;
  trial.change = reference.change_to(candidate);
  trial.risk = recipes::to_string(recipes::risk_of(input_->knobs, trial.change));
  return trial;
}

Result<void> SessionRun::verify_known_best() {
  Candidate known{.plugin = kOwnName, .change = input_->starting.change_to(*input_->known_best)};
  known.reason = "the best configuration of an earlier run here";
  known.source = CandidateSource::remembered;
  // A recipe that now permits less, or a machine that can do less, makes it unusable.
  if (screen(known, state())) return {};

  TrialRecord trial =
      new_trial(TrialKind::verification, input_->starting, input_->starting.with(known.change));
  trial.proposal_reason = known.reason;
  TrialPlan plan;
  plan.rules = {kConfirmationError, kConfirmationError, input_->recipe.tune.min_gain_ratio};
  plan.is_watched_for_stalls = !has_slow_blocks_;
  plan.has_first_look = false;
  plan.time_share =
      std::max(least_time(kConfirmationPairs, trial.reference, trial.reference.with(trial.change)),
               std::min(kMostVerificationTime, remaining() / 2));
  plan.most_time = std::max(plan.time_share, remaining());
  auto done = runner_.run(std::move(trial), plan);
  if (!done) return tl::unexpected(done.error());
  trials_.push_back(std::move(*done));
  return {};
}

// Leaves in accepted_ what holds against the starting configuration in fresh blocks, and the
// confirmation as the last trial; accepted_ is empty when nothing holds.
Result<void> SessionRun::confirm() {
  if (confirmed() != nullptr) return {};  // an earlier process came this far
  while (!accepted_.empty()) {
    if (confirmed() != nullptr) return {};  // what was verified is all that is kept
    TrialRecord trial = new_trial(TrialKind::confirmation, input_->starting, accepted_.back());
    trial.proposal_reason = "the final configuration against the starting one, in fresh blocks";
    TrialPlan plan;
    plan.rules = {kConfirmationError, kConfirmationError, input_->recipe.tune.min_gain_ratio};
    // Each of those that may have to be fallen back to keeps its part of what is left. A confirmation
    // is worth running over the budget for: without it everything before was for nothing.
    const nanoseconds part = remaining() / static_cast<std::int64_t>(accepted_.size());
    plan.is_watched_for_stalls = !has_slow_blocks_;
    plan.has_first_look = false;
    plan.time_share =
        std::max(least_time(kConfirmationPairs, input_->starting, accepted_.back()), part);
    plan.most_time = nanoseconds::max();  // the fewest pairs that can decide, however slow
    plan.wanted_half_width_ratio = kWantedHalfWidth;
    plan.extra_time = std::min(kTighteningTime, part);
    plan.is_checked = false;  // every change in it was
    auto done = runner_.run(std::move(trial), plan);
    if (!done) return tl::unexpected(done.error());
    trials_.push_back(std::move(*done));
    if (trials_.back().verdict == Verdict::accepted) return {};
    accepted_.pop_back();
  }
  return {};
}

const TrialRecord* SessionRun::confirmed() const {
  if (verified_ && accepted_.size() == 1 && accepted_.back() == *verified_) {
    return &*std::ranges::find(trials_, TrialKind::verification, &TrialRecord::kind);
  }
  const auto last = std::find_if(trials_.rbegin(), trials_.rend(), [](const TrialRecord& trial) {
    return trial.kind != TrialKind::ablation;
  });
  const bool holds = last != trials_.rend() && last->kind == TrialKind::confirmation &&
                     last->verdict == Verdict::accepted;
  return holds ? &*last : nullptr;
}

// What distinguishes the final configuration from the starting one, by who proposed it; knobs that nobody
// in this run proposed stand alone.
std::vector<std::pair<std::string, Configuration>> SessionRun::kept_changes() const {
  std::vector<std::pair<std::string, Configuration>> changes;
  const Configuration kept = input_->starting.change_to(accepted_.back());
  for (const auto& [name, value] : kept.values()) {
    std::string plugin;
    std::size_t standing = accepted_.size() - (verified_ ? 1 : 0);
    for (const TrialRecord& trial : trials_) {
      if (trial.kind != TrialKind::proposal || trial.verdict != Verdict::accepted) continue;
      if (standing-- == 0) break;  // those after it were given up
      if (trial.change.find(name) != nullptr) plugin = trial.plugin;
    }
    auto known = std::ranges::find(changes, plugin, &std::pair<std::string, Configuration>::first);
    if (plugin.empty() || known == changes.end()) {
      changes.emplace_back(plugin, Configuration{});
      known = std::prev(changes.end());
    }
    known->second.set(name, value);
  }
  return changes;
}

TrialRecord SessionRun::new_ablation(const std::string& plugin, const Configuration& change) {
  const Configuration& final = accepted_.back();
  Configuration without = final;
  for (const auto& [name, value] : change.values()) {
    const KnobValue* const before = input_->starting.find(name);
    without.set(name,
                before != nullptr ? *before : KnobValue(std::string()));  // an unset variable
  }
  TrialRecord trial = new_trial(TrialKind::ablation, without, final);
  if (!plugin.empty()) trial.plugin = plugin;
  trial.proposal_reason = "the final configuration against the same without this change";
  return trial;
}

bool SessionRun::is_measured(const TrialRecord& ablation) const {
  return std::ranges::any_of(trials_, [&](const TrialRecord& earlier) {
    return earlier.kind == TrialKind::ablation && earlier.reference == ablation.reference &&
           earlier.change == ablation.change;
  });
}

// Each of those that may be fallen back to loses it, too.
void SessionRun::drop_change(const Configuration& change) {
  std::vector<Configuration> left;
  for (Configuration& kept : accepted_) {
    for (const auto& [name, value] : change.values()) {
      const KnobValue* const now = kept.find(name);
      if (now == nullptr || *now != value) continue;
      const KnobValue* const before = input_->starting.find(name);
      kept.set(name, before != nullptr ? *before : KnobValue(std::string()));
    }
    const bool is_start = input_->starting.change_to(kept).empty();
    if (!is_start && (left.empty() || left.back() != kept)) left.push_back(std::move(kept));
  }
  accepted_ = std::move(left);
}

Result<void> SessionRun::drop_marginal() {
  const bool is_confirming =
      std::ranges::find(trials_, TrialKind::confirmation, &TrialRecord::kind) != trials_.end();
  if (is_confirming || accepted_.empty()) return {};
  // Of all that is kept, the confirmation asks the same.
  const auto changes = kept_changes();
  if (changes.size() < 2) return {};
  for (const auto& [plugin, change] : changes) {
    const bool is_marginal = std::ranges::any_of(trials_, [&, &mine = change](const auto& trial) {
      return trial.kind == TrialKind::proposal && trial.verdict == Verdict::accepted &&
             trial.estimate.low < kMarginalLow &&
             std::ranges::any_of(trial.change.values(), [&](const auto& turned) {
               const KnobValue* const kept = mine.find(turned.first);
               return kept != nullptr && *kept == turned.second;
             });
    });
    if (!is_marginal || accepted_.empty()) continue;
    const int number = next_number_;
    TrialRecord trial = new_ablation(plugin, change);
    const Configuration with = trial.reference.with(trial.change);
    TrialPlan plan;
    plan.rules = {kConfirmationError, kConfirmationError, input_->recipe.tune.min_gain_ratio};
    plan.is_watched_for_stalls = false;  // it was
    // What this trial rejects is given up: the processes that happen to be there do not suffice for that.
    plan.has_first_look = false;
    plan.is_checked = false;
    const nanoseconds usable =
        remaining() - least_time(kConfirmationPairs, input_->starting, accepted_.back());
    const nanoseconds needed = least_time(kLeastTrialPairs, trial.reference, with);
    if (trial.change.empty() || trial.reference == input_->starting || is_measured(trial) ||
        usable < needed) {
      next_number_ = number;
      continue;
    }
    plan.time_share = std::max(needed, std::min(kAblationTime, usable / 2));
    plan.most_time = usable;
    auto done = runner_.run(std::move(trial), plan);
    if (!done) return tl::unexpected(done.error());
    trials_.push_back(std::move(*done));
    // One that failed does not run without the change, or says nothing.
    if (drops_its_change(trials_.back())) drop_change(trials_.back().change);
  }
  return {};
}

Result<void> SessionRun::ablate() {
  tuning_time_ = elapsed();
  if (!input_->is_ablated || accepted_.empty()) return {};
  for (const auto& [plugin, change] : kept_changes()) {
    const int number = next_number_;
    TrialRecord trial = new_ablation(plugin, change);
    if (is_measured(trial)) {  // by an earlier process, or before the confirmation
      next_number_ = number;
      continue;
    }
    TrialPlan plan;
    plan.rules = {kConfirmationError, kConfirmationError, input_->recipe.tune.min_gain_ratio};
    plan.time_share =
        std::max(least_time(kConfirmationPairs, trial.reference, accepted_.back()), kAblationTime);
    plan.most_time = plan.time_share;
    plan.wanted_half_width_ratio = kWantedHalfWidth;
    plan.extra_time = kAblationTime;
    plan.is_watched_for_stalls = false;  // it was, when it was accepted
    plan.has_first_look = false;
    plan.is_checked = false;  // likewise
    auto done = runner_.run(std::move(trial), plan);
    if (!done) return tl::unexpected(done.error());
    trials_.push_back(std::move(*done));
  }
  return {};
}

SessionOutcome SessionRun::outcome_of(const TrialRecord* decisive) const {
  SessionOutcome outcome;
  outcome.best = input_->starting;
  outcome.baseline_samples_per_second = baseline_rate_;
  outcome.best_samples_per_second = baseline_rate_;
  outcome.speedup = {.ratio = 1.0, .low = 1.0, .high = 1.0, .pairs = 0};
  if (decisive != nullptr) {
    outcome.best = decisive->reference.with(decisive->change);
    outcome.baseline_samples_per_second = decisive->reference_samples_per_second;
    outcome.best_samples_per_second = decisive->candidate_samples_per_second;
    outcome.speedup = decisive->estimate;
    outcome.is_from_history = decisive->kind == TrialKind::verification;
  }
  // The machine's speed drifts between then and now, and what was accepted last may have no ladder of its own.
  outcome.ceiling = ceiling_above(ceiling_, outcome.best_samples_per_second);
  outcome.trials = trials_;
  outcome.tuning_time = tuning_time_.value_or(elapsed());
  // One that needs fresh processes may have had time for its first look only.
  const bool is_cut_short = std::ranges::any_of(trials_, [](const TrialRecord& trial) {
    return trial.kind == TrialKind::proposal && trial.process_pairs == 1 &&
           trial.rejection == RejectionReason::undecided_in_time;
  });
  outcome.is_budget_spent = is_budget_spent_ || is_cut_short;
  outcome.is_complete = is_complete_ && !is_cut_short;
  return outcome;
}

// What came of a remembered configuration, when that settles the session.
Result<std::optional<SessionOutcome>> SessionRun::use_known_best() {
  auto verification = std::ranges::find(trials_, TrialKind::verification, &TrialRecord::kind);
  if (verification == trials_.end() && trials_.empty() && input_->known_best) {
    if (input_->starting.change_to(*input_->known_best).empty()) {
      if (!input_->is_known_best_complete)
        return std::nullopt;  // nothing was found, or nothing tried
      // The earlier run found nothing faster than what the recipe says.
      if (auto measured = measure_ceiling(); !measured) return tl::unexpected(measured.error());
      if (auto looked = look_at_best(); !looked) return tl::unexpected(looked.error());
      is_complete_ = true;
      SessionOutcome outcome = outcome_of(nullptr);
      outcome.is_from_history = true;
      return outcome;
    }
    if (auto verified = verify_known_best(); !verified) return tl::unexpected(verified.error());
    verification = std::ranges::find(trials_, TrialKind::verification, &TrialRecord::kind);
  }
  if (verification == trials_.end() || verification->verdict != Verdict::accepted) {
    return std::nullopt;
  }
  const Configuration verified = verification->reference.with(verification->change);
  // Of an earlier process that had gone on with the search, what it found stands.
  const bool has_searched = std::ranges::any_of(trials_, [](const TrialRecord& trial) {
    return trial.kind == TrialKind::proposal || trial.kind == TrialKind::confirmation;
  });
  if (!input_->is_known_best_complete || has_searched) {
    verified_ = verified;
    past_incumbents_.insert(past_incumbents_.begin(), input_->starting);
    accepted_.insert(accepted_.begin(), verified);
    return std::nullopt;
  }
  is_complete_ = true;
  accepted_ = {verified};
  if (auto measured = measure_ceiling(); !measured) return tl::unexpected(measured.error());
  if (auto looked = look_at_best(); !looked) return tl::unexpected(looked.error());
  if (auto measured = ablate(); !measured) return tl::unexpected(measured.error());
  return outcome_of(&*std::ranges::find(trials_, TrialKind::verification, &TrialRecord::kind));
}

Result<SessionOutcome> SessionRun::run() {
  restore();
  if (auto measured = measure_baseline(); !measured) return tl::unexpected(measured.error());
  auto known = use_known_best();
  if (!known) return tl::unexpected(known.error());
  if (*known) return std::move(**known);

  if (!is_searched_) warn_of_budget();
  auto searched = is_searched_ ? measure_ceiling() : search();
  if (!searched) return tl::unexpected(searched.error());
  if (auto dropped = drop_marginal(); !dropped) return tl::unexpected(dropped.error());
  if (auto confirmed = confirm(); !confirmed) return tl::unexpected(confirmed.error());
  if (auto looked = look_at_best(); !looked) return tl::unexpected(looked.error());
  if (auto measured = ablate(); !measured) return tl::unexpected(measured.error());
  return outcome_of(accepted_.empty() ? nullptr : confirmed());
}

Result<SessionOutcome> run_session(const SessionInput& input, TrainingBackend& backend,
                                   Advisors& advisors, Ledger& ledger, const Clock& clock) {
  return SessionRun(input, backend, advisors, ledger, clock).run();
}

}  // namespace autotuned::tuner
