// SPDX-License-Identifier: Apache-2.0
#include "tuner/confirmation.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tuner/evidence.hpp"
#include "tuner/one_time_cost.hpp"

namespace autotuned::tuner {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr double kConfirmationError = 0.01;
constexpr double kWantedHalfWidth = 0.03;
constexpr nanoseconds kTighteningTime = seconds(20);
constexpr nanoseconds kMaxVerificationTime = seconds(30);
constexpr nanoseconds kAblationTime = seconds(20);  // of one kept change
// A change whose trial showed no more than this is looked at again before the confirmation.
constexpr double kMarginalLow = 1.01;

// A change that is kept, and who proposed it; "" for nobody.
struct KeptChange {
  std::string plugin;
  Configuration change;
};

// Without a first look: what is shown here stands for the run.
TrialPlan new_plan(const TrialSeries& series) {
  TrialPlan plan = series.new_plan(kConfirmationError, kConfirmationError);
  plan.has_first_look = false;
  return plan;
}

// Every change that the whole is made of was checked, and watched for stalls, when it was accepted.
TrialPlan new_ablation_plan(const TrialSeries& series) {
  TrialPlan plan = new_plan(series);
  plan.is_watched_for_stalls = false;
  plan.is_checked = false;
  return plan;
}

// The fewest pairs of processes that decide: one more would not make up for a sign to the contrary.
nanoseconds least_time_to_confirm(const TrialSeries& series, const Configuration& starting,
                                  const Configuration& whole) {
  const bool is_live = series.is_live(starting, whole);
  return series.least_time(
      is_live ? kConfirmationPairs : fastest_test(kConfirmationError).fewest_pairs, starting,
      whole);
}

// What distinguishes the final configuration from the starting one, by who proposed it; knobs that nobody
// in this run proposed stand alone.
std::vector<KeptChange> kept_changes(const Incumbent& incumbent,
                                     const std::vector<TrialRecord>& trials,
                                     const Configuration& starting) {
  std::vector<KeptChange> changes;
  const Configuration kept = starting.change_to(incumbent.configuration());
  for (const auto& [name, value] : kept.values()) {
    std::string plugin;
    for (const TrialRecord& trial : trials) {
      if (trial.kind != TrialKind::proposal || trial.verdict != Verdict::accepted) continue;
      const KnobValue* const turned = trial.change.find(name);
      if (turned != nullptr && *turned == value) plugin = trial.plugin;
    }
    auto known = std::ranges::find(changes, plugin, &KeptChange::plugin);
    if (plugin.empty() || known == changes.end()) {
      changes.push_back({plugin, {}});
      known = std::prev(changes.end());
    }
    known->change.set(name, value);
  }
  return changes;
}

// Those that accepted a change by little, the newest first: what one of them turned, a later one may have turned on.
std::vector<TrialRecord> marginal_trials(const std::vector<TrialRecord>& trials) {
  std::vector<TrialRecord> marginal;
  std::copy_if(trials.rbegin(), trials.rend(), std::back_inserter(marginal),
               [](const TrialRecord& trial) {
                 return trial.kind == TrialKind::proposal && trial.verdict == Verdict::accepted &&
                        trial.estimate.low < kMarginalLow;
               });
  return marginal;
}

// The final configuration against the same without a change that it keeps, in whose place `before` has others.
TrialRecord new_ablation(const TrialSeries& series, const Configuration& whole,
                         const KeptChange& kept, const Configuration& before) {
  TrialRecord trial =
      series.new_trial(TrialKind::ablation, without_change(whole, kept.change, before), whole);
  if (!kept.plugin.empty()) trial.plugin = kept.plugin;
  trial.proposal_reason = "the final configuration against the same without this change";
  return trial;
}

bool is_measured(const TrialRecord& ablation, const std::vector<TrialRecord>& trials) {
  return std::ranges::any_of(trials, [&](const TrialRecord& earlier) {
    return earlier.kind == TrialKind::ablation && earlier.reference == ablation.reference &&
           earlier.change == ablation.change;
  });
}

}  // namespace

Result<void> verify(const SessionInput& input, const Budget& budget, TrialSeries& series,
                    const Configuration& remembered, const std::string& reason,
                    int pairs_of_next_trial) {
  TrialRecord trial = series.new_trial(TrialKind::verification, input.starting, remembered);
  trial.proposal_reason = reason;
  TrialPlan plan = new_plan(series);
  plan.time_share = std::max(least_time_to_confirm(series, input.starting, remembered),
                             std::min(kMaxVerificationTime, budget.remaining() / 2));
  plan.most_time = std::max(plan.time_share, budget.remaining());
  plan.pairs_of_next_trial = pairs_of_next_trial;
  plan.time_of_next_trial = series.least_time(pairs_of_next_trial);
  return series.run(std::move(trial), std::move(plan));
}

Result<void> drop_marginal(const SessionInput& input, const Budget& budget, TrialSeries& series,
                           Incumbent& incumbent) {
  const bool is_confirming = std::ranges::find(series.records(), TrialKind::confirmation,
                                               &TrialRecord::kind) != series.records().end();
  if (is_confirming || incumbent.is_start()) return {};
  for (const TrialRecord& marginal : marginal_trials(series.records())) {
    if (incumbent.is_start()) break;
    const Configuration whole = incumbent.configuration();
    TrialRecord trial =
        new_ablation(series, whole, {marginal.plugin, marginal.change}, marginal.reference);
    // If nothing else is kept, the confirmation asks the same.
    if (trial.change.empty() || trial.reference == input.starting ||
        is_measured(trial, series.records())) {
      continue;
    }
    const nanoseconds usable = budget.remaining() - series.confirmation_time(input.starting, whole);
    const nanoseconds needed = series.least_time(kMinTrialPairs, trial.reference, whole);
    if (usable < needed) continue;
    TrialPlan plan = new_ablation_plan(series);
    plan.time_share = std::max(needed, std::min(kAblationTime, usable / 2));
    plan.most_time = usable;
    if (auto done = series.run(std::move(trial), std::move(plan)); !done)
      return forward_error(done);
    // One that failed does not run without the change, or says nothing.
    const TrialRecord& ablation = series.records().back();
    if (drops_its_change(ablation)) incumbent.drop(ablation.change, ablation.reference);
  }
  return {};
}

Result<void> confirm(const SessionInput& input, const Budget& budget, TrialSeries& series,
                     Incumbent& incumbent) {
  // An earlier process may have come this far, and what was verified may be all that is kept.
  while (!incumbent.is_start() && confirmation_of(incumbent, series) == nullptr) {
    const Configuration& whole = incumbent.configuration();
    TrialRecord trial = series.new_trial(TrialKind::confirmation, input.starting, whole);
    trial.proposal_reason = "the final configuration against the starting one, in fresh blocks";
    TrialPlan plan = new_plan(series);
    // Each of those that may have to be fallen back to keeps its part of what is left. The fewest pairs that decide are worth
    // running over the budget for: without them everything before was for nothing.
    const nanoseconds part =
        budget.remaining() / static_cast<std::int64_t>(incumbent.accepted().size());
    plan.time_share = std::max(least_time_to_confirm(series, input.starting, whole), part);
    plan.most_time = nanoseconds::max();  // the fewest pairs that can decide, however slow
    // Their blocks are cut to what is left, so that the pairs fit into the reserve of the search.
    plan.time_for_processes = plan.time_share;
    plan.wanted_relative_half_width = kWantedHalfWidth;
    plan.extra_time = std::min(kTighteningTime, part);
    plan.most_time_to_tighten = budget.remaining();
    plan.is_checked = false;  // every change in it was
    plan.known_one_time_ns = known_one_time_ns(series.records(), trial.change);
    if (auto done = series.run(std::move(trial), std::move(plan)); !done)
      return forward_error(done);
    const TrialRecord& confirmation = series.records().back();
    if (confirmation.verdict == Verdict::accepted) return {};
    incumbent.fall_back();
  }
  return {};
}

const TrialRecord* verification_of(const std::vector<TrialRecord>& trials) {
  const auto found = std::ranges::find(trials, TrialKind::verification, &TrialRecord::kind);
  return found != trials.end() ? &*found : nullptr;
}

const TrialRecord* confirmation_of(const Incumbent& incumbent, const TrialSeries& series) {
  const std::vector<TrialRecord>& trials = series.records();
  if (incumbent.is_as_verified()) return verification_of(trials);
  const auto last = std::find_if(trials.rbegin(), trials.rend(), [](const TrialRecord& trial) {
    return trial.kind != TrialKind::ablation;
  });
  const bool holds = last != trials.rend() && last->kind == TrialKind::confirmation &&
                     last->verdict == Verdict::accepted;
  return holds ? &*last : nullptr;
}

Result<void> ablate(TrialSeries& series, const Incumbent& incumbent,
                    const Configuration& starting) {
  if (incumbent.is_start()) return {};
  for (const KeptChange& kept : kept_changes(incumbent, series.records(), starting)) {
    TrialRecord trial = new_ablation(series, incumbent.configuration(), kept, starting);
    // An earlier process has measured it, or it was measured before the confirmation.
    if (is_measured(trial, series.records())) continue;
    TrialPlan plan = new_ablation_plan(series);
    plan.time_share =
        std::max(series.least_time(kConfirmationPairs, trial.reference, incumbent.configuration()),
                 kAblationTime);
    plan.most_time = plan.time_share;
    plan.wanted_relative_half_width = kWantedHalfWidth;
    plan.extra_time = kAblationTime;
    if (auto done = series.run(std::move(trial), std::move(plan)); !done)
      return forward_error(done);
  }
  return {};
}

}  // namespace autotuned::tuner
