// SPDX-License-Identifier: Apache-2.0
// The search: look at the incumbent, ask the plugins, try the most promising proposal, again.
#include <algorithm>
#include <utility>

#include "tuner/candidates.hpp"
#include "tuner/second_look.hpp"
#include "tuner/session_run.hpp"
#include "tuner/situation.hpp"

namespace autotuned::tuner {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr nanoseconds kMostTrialTime = seconds(30);
constexpr nanoseconds kMostProcessTime = seconds(60);  // where each pair takes processes of its own
constexpr int kTrialShare = 3;                         // of the remaining budget, one in so many
constexpr int kSecondLookShare = 2;
constexpr nanoseconds kMostReserve = seconds(20);
constexpr int kReserveShare = 5;  // of the whole budget
constexpr int kReservePairs = 10;
constexpr int kReserveProcessPairs = 8;
constexpr int kCeilingPairs = 5;
constexpr int kSlowCeilingPairs = 2;
constexpr int kRungPairs = 3;
constexpr int kRungShare = 20;  // of the remaining budget, one in so many
// Of loading and recording; most need a second or two. With less left there is no trace.
constexpr int kTraceShare = 10;      // of the remaining budget, one in so many
constexpr int kNextTraceShare = 20;  // the same, of recording another incumbent
constexpr nanoseconds kLeastTraceLimit = seconds(10);
constexpr nanoseconds kMostTraceLimit = seconds(30);
// The guard against plugins that never run out of proposals that cost no time.
constexpr std::size_t kMostTrials = 200;

}  // namespace

// The lower rungs cost their blocks after every acceptance: where that would be a notable part of
// what is left, the trials need it more.
Result<void> SessionRun::measure_ceiling() {
  CeilingPlan plan{.pairs = kCeilingPairs, .rung_pairs = kRungPairs};
  if (has_slow_blocks_) plan = {.pairs = kSlowCeilingPairs, .rung_pairs = 1};
  const auto rung_blocks = plan.rung_pairs * static_cast<std::int64_t>(kRungs.size());
  if (rung_blocks * baseline_pair_time_ / 2 > remaining() / kRungShare) plan.rung_pairs = 0;
  auto measured = tuner::measure_ceiling(*backend_, incumbent(), plan);
  if (!measured) return tl::unexpected(measured.error());
  // The machine's speed drifts: the job did reach what was measured before.
  ceiling_ = measured->samples_per_second < baseline_rate_
                 ? ceiling_above(std::move(*measured), baseline_rate_)
                 : std::move(*measured);
  ceiling_of_ = incumbent();
  return ledger_->ceiling(ceiling_);
}

Result<void> SessionRun::look_at_incumbent() {
  if (auto measured = measure_ceiling(); !measured) return measured;
  return take_profile(is_trace_due());
}

bool SessionRun::is_trace_due() const {
  if (!traced_) return true;
  return is_on_gpu(*input_) && traced_ != incumbent() && trace_time_ &&
         *trace_time_ <= remaining() / kNextTraceShare;
}

Result<void> SessionRun::look_at_best() {
  if (traced_ == incumbent() || is_trace_too_slow_ || remaining() < kLeastTraceLimit) return {};
  if (profiled_ != incumbent()) return take_profile(/*is_traced=*/true);
  if (auto added = add_trace(); !added) return added;
  return ledger_->profiled(incumbent(), profile_);
}

Result<void> SessionRun::take_profile(bool is_traced) {
  profile_ = {};
  profiled_.reset();
  auto profile = backend_->profile(incumbent());
  if (!profile) {
    if (profile.error().kind == ErrorKind::cancelled) return tl::unexpected(profile.error());
    return ledger_->not_profiled(profile.error());
  }
  profile_ = std::move(*profile);
  profiled_ = incumbent();
  if (is_traced) {
    if (auto added = add_trace(); !added) return added;
  }
  if (ceiling_of_ == incumbent()) add_ceiling_metrics(ceiling_, profile_.metrics);
  return ledger_->profiled(incumbent(), profile_);
}

// Without a trace a run knows less, and is as good otherwise.
Result<void> SessionRun::add_trace() {
  if (remaining() < kLeastTraceLimit) return {};
  traced_ = incumbent();
  const nanoseconds limit =
      std::clamp(remaining() / kTraceShare, kLeastTraceLimit, kMostTraceLimit);
  const nanoseconds begin = clock_->now();
  trace_time_.reset();
  const auto added = backend_->add_trace(incumbent(), profile_, limit);
  if (added) {
    trace_time_ = clock_->now() - begin;
    places_ = profile_.places;
    return {};
  }
  if (added.error().kind == ErrorKind::cancelled) return tl::unexpected(added.error());
  // It loads as long the next time.
  is_trace_too_slow_ = added.error().kind == ErrorKind::timeout;
  profile_.notes.push_back("no steps could be recorded and analysed, so there are no findings: " +
                           added.error().message());
  return {};
}

Result<void> SessionRun::leave_out(const std::string& plugin, const std::string& fault) {
  left_out_.insert(plugin);
  return ledger_->answered(plugin, fault, true);
}

// Puts the first candidate that may be tried into proposals_.
Result<void> SessionRun::ask(const std::string& plugin) {
  proposals_.erase(plugin);
  if (left_out_.contains(plugin)) return {};
  if (auto stored = ledger_->asking(plugin); !stored) return stored;
  auto answer = advisors_->ask(
      plugin, situation_for(plugin, *input_, incumbent(), profile_.metrics, places_, trials_));
  if (!answer) return leave_out(plugin, answer.error().message());
  auto advice = parse_advice(*answer, plugin);
  if (!advice) return leave_out(plugin, advice.error().what);

  std::string outcome = advice->none_because;
  std::optional<Candidate> chosen;
  for (Candidate& candidate : advice->candidates) {
    const auto refusal = screen(candidate, state());
    if (refusal && refusal->is_fault) return leave_out(plugin, refusal->reason);
    if (chosen) continue;  // of the others only their faults matter
    if (refusal) {
      outcome = "skipped: " + refusal->reason;
    } else {
      outcome.clear();
      chosen = std::move(candidate);
    }
  }
  if (chosen) proposals_.insert_or_assign(plugin, *std::move(chosen));
  return ledger_->answered(plugin, outcome, false);
}

std::vector<const Candidate*> SessionRun::pending() const {
  std::vector<const Candidate*> candidates;
  for (const auto& [plugin, candidate] : proposals_)
    candidates.push_back(&candidate);
  std::ranges::stable_sort(candidates, [&](const Candidate* a, const Candidate* b) {
    return is_tried_before(*a, *b, *input_);
  });
  return candidates;
}

std::optional<SessionRun::Next> SessionRun::next_trial() {
  for (const Candidate* candidate : pending()) {
    if (auto plan = plan_trial(candidate->change, false)) return Next{*candidate, *plan};
    is_budget_spent_ = true;  // passed over; another may fit
  }
  auto again = second_look();
  if (!again) return std::nullopt;
  auto plan = plan_trial(again->change, true);
  if (!plan) {
    is_budget_spent_ = true;
    return std::nullopt;
  }
  return Next{*std::move(again), *plan, true};
}

// What to look at again when no plugin has anything more.
std::optional<Candidate> SessionRun::second_look() const {
  const double min_gain_ratio = input_->recipe.tune.min_gain_ratio;
  std::vector<TrialRecord> trials = trials_;
  std::erase_if(trials, [limit = memory_limit_bytes(*input_)](const TrialRecord& trial) {
    return is_refused(trial, limit);
  });
  const auto first_admitted = [&](std::vector<Candidate> candidates) -> std::optional<Candidate> {
    for (Candidate& candidate : candidates) {
      if (!screen(candidate, state())) return std::move(candidate);
    }
    return std::nullopt;
  };
  if (auto again = first_admitted(undecided_changes(incumbent(), trials, min_gain_ratio))) {
    return again;
  }
  if (auto again = first_admitted(
          near_misses_to_retry(incumbent(), past_incumbents_, trials, min_gain_ratio))) {
    return again;
  }
  return first_admitted(joint_changes(incumbent(), trials));
}

double SessionRun::accept_error_ratio(bool is_live) const {
  const auto tried = std::ranges::count_if(trials_, [&](const TrialRecord& trial) {
    if (trial.kind != TrialKind::proposal || trial.estimate.pairs == 0) return false;
    // One that ended with its first look at a pair of processes could not have been accepted.
    return is_live ? trial.process_pairs == 0 : trial.process_pairs > 1;
  });
  return accept_error_ratio_after(static_cast<int>(tried));
}

std::optional<TrialPlan> SessionRun::plan_trial(const Configuration& change,
                                                bool is_second_look) const {
  const Configuration candidate = incumbent().with(change);
  const bool is_live = backend_->share_process(incumbent(), candidate);
  TrialPlan plan;
  plan.rules.min_gain_ratio = input_->recipe.tune.min_gain_ratio;
  plan.rules.accept_error_ratio = accept_error_ratio(is_live);
  plan.is_watched_for_stalls = !has_slow_blocks_;
  // For the confirmation, which needs processes of its own where this change or one before does.
  const int reserve_pairs =
      backend_->share_process(input_->starting, candidate) ? kReservePairs : kReserveProcessPairs;
  const nanoseconds least_reserve =
      std::min(kMostReserve, input_->recipe.tune.budget / kReserveShare);
  const nanoseconds reserve =
      std::max(least_time(reserve_pairs, input_->starting, candidate), least_reserve);
  // What the confirmation takes if this candidate is not accepted.
  const nanoseconds own_reserve =
      accepted_.empty() ? nanoseconds{0}
                        : std::max(least_time(kReserveProcessPairs, input_->starting, incumbent()),
                                   least_reserve);
  const nanoseconds usable = remaining() - reserve;
  const int fewest = fastest_test(plan.rules.accept_error_ratio).fewest_pairs;
  const nanoseconds needed = least_time(fewest + 1, incumbent(), candidate);
  // Most changes that need processes end with the first look at them, which takes little.
  const bool may_end_soon = !is_live && !is_second_look;
  const nanoseconds first_look = runner_.process_pair_time() / 2 + least_time(kFirstLookPairs);
  if (may_end_soon ? remaining() - own_reserve < first_look : usable < needed) return std::nullopt;
  // Nothing else waits for the time of a second look.
  plan.time_share = std::max(
      needed, is_second_look
                  ? usable / kSecondLookShare
                  : std::min(usable / kTrialShare, is_live ? kMostTrialTime : kMostProcessTime));
  plan.most_time = usable;
  return plan;
}

Result<void> SessionRun::search() {
  if (auto looked = look_at_incumbent(); !looked) return looked;
  std::vector<std::string> to_ask = advisors_->names();
  while (trials_.size() < kMostTrials) {
    for (const std::string& plugin : to_ask) {
      if (auto asked = ask(plugin); !asked) return asked;
    }
    is_budget_spent_ = false;
    const std::optional<Next> next = next_trial();
    is_complete_ = pending().empty();  // a second look is at what was tried
    if (!next) return {};

    const Candidate& candidate = next->candidate;
    TrialRecord trial =
        new_trial(TrialKind::proposal, incumbent(), incumbent().with(candidate.change));
    trial.plugin = candidate.plugin;
    trial.expected_gain_ratio = candidate.expected_gain_ratio;
    trial.proposal_reason = candidate.reason;
    auto done = runner_.run(std::move(trial), next->plan);
    if (!done) return tl::unexpected(done.error());
    trials_.push_back(std::move(*done));
    if (trials_.back().verdict != Verdict::accepted) {
      to_ask.clear();
      if (!next->is_second_look) to_ask.push_back(candidate.plugin);
      // Others may wait with the same change.
      for (const auto& [plugin, waiting] : proposals_) {
        if (plugin != candidate.plugin && screen(waiting, state())) to_ask.push_back(plugin);
      }
      continue;
    }
    past_incumbents_.push_back(incumbent());
    accepted_.push_back(trials_.back().reference.with(trials_.back().change));
    // The bottleneck has moved.
    if (auto looked = look_at_incumbent(); !looked) return looked;
    to_ask = advisors_->names();
  }
  return {};
}

}  // namespace autotuned::tuner
