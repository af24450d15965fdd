// SPDX-License-Identifier: Apache-2.0
#include "tuner/confirmation.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tuner/one_time_cost.hpp"

namespace autotuned::tuner {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr double kConfirmationError = 0.01;
constexpr double kWantedHalfWidth = 0.03;
constexpr nanoseconds kTighteningTime = seconds(20);
constexpr nanoseconds kMostVerificationTime = seconds(30);
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

// What distinguishes the final configuration from the starting one, by who proposed it; knobs that nobody
// in this run proposed stand alone.
std::vector<KeptChange> kept_changes(const Incumbent& incumbent,
                                     const std::vector<TrialRecord>& trials,
                                     const Configuration& starting) {
  std::vector<KeptChange> changes;
  const Configuration kept = starting.change_to(incumbent.configuration());
  for (const auto& [name, value] : kept.values()) {
    std::string plugin;
    std::size_t standing = incumbent.standing_proposals();
    for (const TrialRecord& trial : trials) {
      if (trial.kind != TrialKind::proposal || trial.verdict != Verdict::accepted) continue;
      if (standing-- == 0) break;  // those after it were given up
      if (trial.change.find(name) != nullptr) plugin = trial.plugin;
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

// Whether a trial that accepted a part of `change` showed little.
bool is_marginal(const Configuration& change, const std::vector<TrialRecord>& trials) {
  return std::ranges::any_of(trials, [&](const TrialRecord& trial) {
    return trial.kind == TrialKind::proposal && trial.verdict == Verdict::accepted &&
           trial.estimate.low < kMarginalLow &&
           std::ranges::any_of(trial.change.values(), [&](const auto& turned) {
             const KnobValue* const kept = change.find(turned.first);
             return kept != nullptr && *kept == turned.second;
           });
  });
}

// The final configuration against the same without one of the changes it keeps.
TrialRecord new_ablation(const TrialSeries& series, const Incumbent& incumbent,
                         const KeptChange& kept) {
  TrialRecord trial = series.new_trial(TrialKind::ablation, incumbent.without(kept.change),
                                       incumbent.configuration());
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
                    const Configuration& remembered, const std::string& reason) {
  TrialRecord trial = series.new_trial(TrialKind::verification, input.starting, remembered);
  trial.proposal_reason = reason;
  TrialPlan plan = new_plan(series);
  plan.time_share = std::max(series.least_time(kConfirmationPairs, input.starting, remembered),
                             std::min(kMostVerificationTime, budget.remaining() / 2));
  plan.most_time = std::max(plan.time_share, budget.remaining());
  return series.run(std::move(trial), plan);
}

Result<void> drop_marginal(const SessionInput& input, const Budget& budget, TrialSeries& series,
                           Incumbent& incumbent) {
  const bool is_confirming = std::ranges::find(series.records(), TrialKind::confirmation,
                                               &TrialRecord::kind) != series.records().end();
  if (is_confirming || incumbent.is_start()) return {};
  const auto changes = kept_changes(incumbent, series.records(), input.starting);
  // Of all that is kept, the confirmation asks the same.
  if (changes.size() < 2) return {};
  for (const KeptChange& kept : changes) {
    if (!is_marginal(kept.change, series.records()) || incumbent.is_start()) continue;
    TrialRecord trial = new_ablation(series, incumbent, kept);
    if (trial.change.empty() || trial.reference == input.starting ||
        is_measured(trial, series.records())) {
      continue;
    }
    const Configuration& whole = incumbent.configuration();
    const nanoseconds usable =
        budget.remaining() - series.least_time(kConfirmationPairs, input.starting, whole);
    const nanoseconds needed = series.least_time(kLeastTrialPairs, trial.reference, whole);
    if (usable < needed) continue;
    TrialPlan plan = new_ablation_plan(series);
    plan.time_share = std::max(needed, std::min(kAblationTime, usable / 2));
    plan.most_time = usable;
    if (auto done = series.run(std::move(trial), plan); !done) return forward_error(done);
    // One that failed does not run without the change, or says nothing.
    const TrialRecord& ablation = series.records().back();
    if (drops_its_change(ablation)) incumbent.drop(ablation.change);
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
    // Each of those that may have to be fallen back to keeps its part of what is left. A confirmation
    // is worth running over the budget for: without it everything before was for nothing.
    const nanoseconds part =
        budget.remaining() / static_cast<std::int64_t>(incumbent.accepted().size());
    plan.time_share = std::max(series.least_time(kConfirmationPairs, input.starting, whole), part);
    plan.most_time = nanoseconds::max();  // the fewest pairs that can decide, however slow
    plan.wanted_half_width_ratio = kWantedHalfWidth;
    plan.extra_time = std::min(kTighteningTime, part);
    plan.is_checked = false;  // every change in it was
    plan.known_one_time_ns = known_one_time_ns(series.records(), trial.change);
    if (auto done = series.run(std::move(trial), plan); !done) return forward_error(done);
    if (series.records().back().verdict == Verdict::accepted) return {};
    incumbent.fall_back();
  }
  return {};
}

const TrialRecord* confirmation_of(const Incumbent& incumbent, const TrialSeries& series) {
  const std::vector<TrialRecord>& trials = series.records();
  if (incumbent.is_as_verified()) {
    return &*std::ranges::find(trials, TrialKind::verification, &TrialRecord::kind);
  }
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
    TrialRecord trial = new_ablation(series, incumbent, kept);
    // By an earlier process, or before the confirmation.
    if (is_measured(trial, series.records())) continue;
    TrialPlan plan = new_ablation_plan(series);
    plan.time_share =
        std::max(series.least_time(kConfirmationPairs, trial.reference, incumbent.configuration()),
                 kAblationTime);
    plan.most_time = plan.time_share;
    plan.wanted_half_width_ratio = kWantedHalfWidth;
    plan.extra_time = kAblationTime;
    if (auto done = series.run(std::move(trial), plan); !done) return forward_error(done);
  }
  return {};
}

}  // namespace autotuned::tuner
