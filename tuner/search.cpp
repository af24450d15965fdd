// SPDX-License-Identifier: Apache-2.0
#include "tuner/search.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tuner/one_time_cost.hpp"
#include "tuner/second_look.hpp"

namespace autotuned::tuner {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr nanoseconds kMaxTrialTime = seconds(30);
constexpr nanoseconds kMaxProcessTime = seconds(60);  // where each pair takes processes of its own
constexpr int kTrialShare = 3;                        // of the remaining budget, one in so many
constexpr int kSecondLookShare = 2;
constexpr nanoseconds kMaxReserve = seconds(20);
constexpr int kReserveShare = 5;    // of the whole budget
constexpr int kLargeGainShare = 2;  // of what is left: others wait for their trials
// The guard against plugins that never run out of proposals that cost no time.
constexpr std::size_t kMaxTrials = 200;

class Search {
 public:
  Search(const SessionInput& input, const Budget& budget, Advisors& advisors, Ledger& ledger,
         TrialSeries& series, Incumbent& incumbent, Diagnosis& diagnosis)
      : input_(&input),
        budget_(&budget),
        advisors_(&advisors),
        ledger_(&ledger),
        series_(&series),
        incumbent_(&incumbent),
        diagnosis_(&diagnosis) {}

  Result<SearchEnd> run();

 private:
  // What is tried next, with its time.
  struct Next {
    Proposal proposal;
    TrialPlan plan;
    bool is_second_look = false;
  };

  [[nodiscard]] SearchState state() const {
    return state_of(*input_, *series_, *incumbent_, *diagnosis_);
  }
  Result<void> ask(const std::string& plugin);
  Result<void> leave_out(const std::string& plugin, const std::string& fault);
  // Waiting proposals, the most promising first.
  [[nodiscard]] std::vector<const Proposal*> pending() const;
  // The same in the order in which they are tried: where the time does not suffice for all of them, those that switch live
  // come before one that needs processes if they promise more for their time.
  [[nodiscard]] std::vector<const Proposal*> in_order() const;
  [[nodiscard]] bool is_tried_live(const Proposal& proposal) const;
  // What a trial of it takes at least to accept it.
  [[nodiscard]] nanoseconds least_trial_time(const Proposal& proposal) const;
  // What is left for the confirmation of this configuration.
  [[nodiscard]] nanoseconds reserve_for(const Configuration& kept) const;
  // The same of the incumbent; nothing where it needs no confirmation.
  [[nodiscard]] nanoseconds own_reserve() const;
  // The logarithm of the expected gain for each second of its trial and of the confirmation that it makes necessary; 0 for
  // one that cannot be accepted in what is left.
  [[nodiscard]] double worth_per_second(const Proposal& proposal) const;
  // Nothing when there is nothing that fits into what is left.
  [[nodiscard]] std::optional<Next> next_trial();
  // What to look at again when no plugin has anything more, the most promising of each kind first.
  [[nodiscard]] std::vector<Proposal> second_looks() const;
  // As the plugins have said it of changes that `change` contains: it may be a joint one.
  [[nodiscard]] nanoseconds preparation_of(const Configuration& change) const;
  // The time and the error that a trial of this candidate may take; nothing when that does not fit into what is left.
  [[nodiscard]] std::optional<TrialPlan> plan_trial(const Proposal& proposed,
                                                    bool is_second_look) const;
  // The error that the next trial may accept with.
  [[nodiscard]] double accept_error_probability(bool is_live) const;
  Result<void> run_trial(const Proposal& proposal, TrialPlan plan);
  void tell_progress(bool is_second_look);

  const SessionInput* input_;
  const Budget* budget_;
  Advisors* advisors_;
  Ledger* ledger_;
  TrialSeries* series_;
  Incumbent* incumbent_;
  Diagnosis* diagnosis_;
  std::map<std::string, Proposal> proposals_;  // one per plugin that has any
  // Of all changes that were proposed in this process, as the last proposal has it.
  std::vector<std::pair<Configuration, nanoseconds>> preparations_;
  std::set<std::string> left_out_;
  SearchEnd end_;
};

Result<SearchEnd> Search::run() {
  if (auto examined = diagnosis_->examine(incumbent_->configuration()); !examined) {
    return forward_error(examined);
  }
  std::vector<std::string> to_ask = advisors_->names();
  while (series_->records().size() < kMaxTrials) {
    for (const std::string& plugin : to_ask) {
      if (auto asked = ask(plugin); !asked) return forward_error(asked);
    }
    end_.is_budget_spent = false;
    std::optional<Next> next = next_trial();
    // A second look is at what was tried. What a plugin that failed would have proposed, nobody knows.
    end_.is_complete =
        proposals_.empty() && left_out_.empty() && !diagnosis_->is_profile_missing_by_chance();
    if (!next) {
      for (const Proposal* proposal : pending())
        end_.untried.push_back({proposal->plugin, incumbent_->configuration(), proposal->change});
      return end_;
    }

    tell_progress(next->is_second_look);
    if (auto done = run_trial(next->proposal, std::move(next->plan)); !done)
      return forward_error(done);
    const TrialRecord& trial = series_->records().back();
    if (trial.verdict == Verdict::accepted) {
      incumbent_->accept(trial.reference.with(trial.change));
      // The bottleneck has moved.
      if (auto examined = diagnosis_->examine(incumbent_->configuration()); !examined) {
        return forward_error(examined);
      }
      to_ask = advisors_->names();
      continue;
    }
    to_ask.clear();
    const std::string& proposer = next->proposal.plugin;
    if (!next->is_second_look) to_ask.push_back(proposer);
    // Others may wait with the same change.
    for (const auto& [plugin, waiting] : proposals_) {
      if (plugin != proposer && screen(waiting, state())) to_ask.push_back(plugin);
    }
  }
  return end_;
}

// Keeps the first proposal that may be tried.
Result<void> Search::ask(const std::string& plugin) {
  proposals_.erase(plugin);
  if (left_out_.contains(plugin)) return {};
  if (auto stored = ledger_->asking(plugin); !stored) return forward_error(stored);
  auto answer = advisors_->ask(
      plugin, situation_for(plugin, *input_, incumbent_->configuration(), diagnosis_->metrics(),
                            diagnosis_->places(), series_->records()));
  if (!answer) return leave_out(plugin, answer.error().message());
  auto advice = parse_advice(*answer, plugin);
  if (!advice) return leave_out(plugin, advice.error().what);

  std::string outcome = advice->none_because;
  if (advice->proposals.empty()) {
    auto undecided = why_undecided(plugin, incumbent_->configuration(), series_->records());
    if (undecided) outcome = *std::move(undecided);
  }
  std::optional<Proposal> chosen;
  for (Proposal& proposal : advice->proposals) {
    const auto refusal = screen(proposal, state());
    if (refusal && refusal->is_fault) return leave_out(plugin, refusal->reason);
    if (chosen) continue;  // of the others only their faults matter
    if (refusal) {
      outcome = "skipped: " + refusal->reason;
    } else {
      outcome.clear();
      chosen = std::move(proposal);
    }
  }
  if (chosen) {
    // As the trial will have it: without values that are on already.
    const Configuration& incumbent = incumbent_->configuration();
    const Configuration change = incumbent.change_to(incumbent.with(chosen->change));
    std::erase_if(preparations_, [&change](const auto& known) { return known.first == change; });
    preparations_.emplace_back(change, chosen->preparation);
    proposals_.insert_or_assign(plugin, *std::move(chosen));
  }
  return ledger_->answered(plugin, outcome, false);
}

Result<void> Search::leave_out(const std::string& plugin, const std::string& fault) {
  left_out_.insert(plugin);
  return ledger_->answered(plugin, fault, true);
}

std::vector<const Proposal*> Search::pending() const {
  std::vector<const Proposal*> proposals;
  for (const auto& [plugin, proposal] : proposals_)
    proposals.push_back(&proposal);
  std::ranges::stable_sort(proposals, [&](const Proposal* a, const Proposal* b) {
    return is_tried_before(*a, *b, *input_);
  });
  return proposals;
}

bool Search::is_tried_live(const Proposal& proposal) const {
  const Configuration& incumbent = incumbent_->configuration();
  return series_->is_live(incumbent, incumbent.with(proposal.change));
}

nanoseconds Search::least_trial_time(const Proposal& proposal) const {
  const bool is_live = is_tried_live(proposal);
  const TrialPlan plan = series_->new_plan(accept_error_probability(is_live),
                                           ComparisonRules{}.reject_error_probability);
  int pairs = fastest_test(plan.rules.accept_error_probability).fewest_pairs;
  if (is_live) {
    const int watched =
        plan.is_watched_for_stalls ? least_stretches_for(proposal.expected_gain_ratio) : 0;
    pairs = std::max(pairs + 1, watched);
  }
  const Configuration& incumbent = incumbent_->configuration();
  return proposal.preparation +
         series_->least_trial_time(pairs, incumbent, incumbent.with(proposal.change));
}

nanoseconds Search::reserve_for(const Configuration& kept) const {
  return std::max(series_->confirmation_time(input_->starting, kept),
                  std::min(kMaxReserve, budget_->whole() / kReserveShare));
}

nanoseconds Search::own_reserve() const {
  const bool is_settled = incumbent_->is_start() || incumbent_->is_as_verified();
  return is_settled ? nanoseconds{0} : reserve_for(incumbent_->configuration());
}

double Search::worth_per_second(const Proposal& proposal) const {
  const Configuration& incumbent = incumbent_->configuration();
  const nanoseconds trial = least_trial_time(proposal);
  const nanoseconds reserve = reserve_for(incumbent.with(proposal.change));
  if (trial + reserve > budget_->remaining()) return 0.0;
  const nanoseconds more_reserve = std::max(nanoseconds{0}, reserve - own_reserve());
  const std::chrono::duration<double> cost =
      std::max<nanoseconds>(nanoseconds(1), trial + more_reserve);
  return std::log(std::max(1.0, proposal.expected_gain_ratio)) / cost.count();
}

std::vector<const Proposal*> Search::in_order() const {
  std::vector<const Proposal*> proposals = pending();
  const auto restarts = std::ranges::stable_partition(
      proposals, [&](const Proposal* proposal) { return is_tried_live(*proposal); });
  auto live = proposals.begin();
  auto restart = restarts.begin();
  if (restart == proposals.end()) return proposals;

  const Configuration& incumbent = incumbent_->configuration();
  nanoseconds needed = least_trial_time(**restart) +
                       std::max(own_reserve(), reserve_for(incumbent.with((*restart)->change)));
  for (const Proposal* proposal : std::ranges::subrange(live, restarts.begin()))
    needed += least_trial_time(*proposal);
  const bool holds_all = needed <= budget_->remaining();

  std::vector<const Proposal*> ordered;
  while (live != restarts.begin() && restart != proposals.end()) {
    const bool is_live_first =
        is_tried_before(**live, **restart, *input_) ||
        (!holds_all && worth_per_second(**live) >= worth_per_second(**restart));
    ordered.push_back(is_live_first ? *live++ : *restart++);
  }
  ordered.insert(ordered.end(), live, restarts.begin());
  ordered.insert(ordered.end(), restart, proposals.end());
  return ordered;
}

std::optional<Search::Next> Search::next_trial() {
  for (const Proposal* proposal : in_order()) {
    if (auto plan = plan_trial(*proposal, false)) {
      return Next{*proposal, *std::move(plan)};
    }
    end_.is_budget_spent = true;  // passed over; another may fit
  }
  for (Proposal& again : second_looks()) {
    if (auto plan = plan_trial(again, true)) return Next{std::move(again), *std::move(plan), true};
    end_.is_budget_spent = true;  // one that needs no processes may fit
  }
  return std::nullopt;
}

std::vector<Proposal> Search::second_looks() const {
  const double min_gain_ratio = input_->recipe.tune.min_gain_ratio;
  const Configuration& incumbent = incumbent_->configuration();
  const std::vector<TrialRecord> trials =
      without_refused(series_->records(), memory_limit_bytes(*input_));
  std::vector<Proposal> looks;
  const auto add_admitted = [&](std::vector<Proposal> proposals) {
    for (Proposal& proposal : proposals) {
      if (screen(proposal, state())) continue;
      proposal.preparation = preparation_of(proposal.change);
      looks.push_back(std::move(proposal));
    }
  };
  add_admitted(undecided_changes(incumbent, trials, min_gain_ratio));
  add_admitted(near_misses_to_retry(incumbent, incumbent_->past(), trials, min_gain_ratio));
  add_admitted(joint_changes(incumbent, trials));
  return looks;
}

nanoseconds Search::preparation_of(const Configuration& change) const {
  nanoseconds longest{0};
  for (const auto& [known, preparation] : preparations_)
    if (change.contains(known)) longest = std::max(longest, preparation);
  return longest;
}

double Search::accept_error_probability(bool is_live) const {
  const auto tried = std::ranges::count_if(series_->records(), [&](const TrialRecord& trial) {
    if (trial.kind != TrialKind::proposal || trial.estimate.pairs == 0) return false;
    // One that ended with its first look at a pair of processes could not have been accepted.
    return is_live ? trial.process_pairs == 0 : trial.process_pairs > 1;
  });
  return accept_error_probability_after(static_cast<int>(tried));
}

std::optional<TrialPlan> Search::plan_trial(const Proposal& proposed, bool is_second_look) const {
  const Configuration& incumbent = incumbent_->configuration();
  const Configuration candidate = incumbent.with(proposed.change);
  const bool is_live = series_->is_live(incumbent, candidate);
  TrialPlan plan = series_->new_plan(accept_error_probability(is_live),
                                     ComparisonRules{}.reject_error_probability);
  plan.known_one_time_ns = known_one_time_ns(series_->records(), incumbent.change_to(candidate));
  // The confirmation needs processes of its own where this change or one before does.
  const nanoseconds reserve = reserve_for(candidate);
  // The clock of a trial begins behind its first pair, which includes the preparation.
  const nanoseconds remaining = budget_->remaining() - proposed.preparation;
  const nanoseconds usable = remaining - reserve;
  const int fewest = fastest_test(plan.rules.accept_error_probability).fewest_pairs;
  const nanoseconds needed = series_->least_time(fewest + 1, incumbent, candidate);
  // Most changes that need processes end with the first look at them, which takes little.
  const bool may_end_soon = !is_live && !is_second_look;
  // A second look at processes begins with a look like the first one.
  const nanoseconds needed_in_all =
      std::max(needed, series_->least_trial_time(fewest, incumbent, candidate));
  const bool fits = may_end_soon ? remaining - own_reserve() >= series_->first_look_time()
                                 : usable >= needed_in_all;
  if (!fits) return std::nullopt;
  // Nothing else waits for the time of a second look.
  plan.time_share = std::max(
      needed, is_second_look
                  ? usable / kSecondLookShare
                  : std::min(usable / kTrialShare, is_live ? kMaxTrialTime : kMaxProcessTime));
  plan.most_time = usable;
  plan.most_time_for_large_gain = usable / kLargeGainShare;
  const bool is_confirmed_live = series_->is_live(input_->starting, candidate);
  plan.pairs_afterwards = is_confirmed_live ? kConfirmationPairs : 0;
  plan.process_pairs_afterwards = is_confirmed_live ? 0 : kConfirmationProcessPairs;
  plan.time_afterwards = reserve;
  return plan;
}

// Plugins that are asked again may propose more, and the budget may end before: about so many.
void Search::tell_progress(bool is_second_look) {
  const auto waiting = static_cast<int>(proposals_.size()) + (is_second_look ? 1 : 0);
  ledger_->progressed({.trials_done = static_cast<int>(series_->records().size()),
                       .trials_expected = waiting + 1,
                       .budget = budget_->whole(),
                       .budget_spent = budget_->elapsed()});
}

Result<void> Search::run_trial(const Proposal& proposal, TrialPlan plan) {
  const Configuration& incumbent = incumbent_->configuration();
  TrialRecord trial =
      series_->new_trial(TrialKind::proposal, incumbent, incumbent.with(proposal.change));
  trial.plugin = proposal.plugin;
  trial.expected_gain_ratio = proposal.expected_gain_ratio;
  trial.proposal_reason = proposal.reason;
  return series_->run(std::move(trial), std::move(plan));
}

}  // namespace

Result<SearchEnd> search(const SessionInput& input, const Budget& budget, Advisors& advisors,
                         Ledger& ledger, TrialSeries& series, Incumbent& incumbent,
                         Diagnosis& diagnosis) {
  return Search(input, budget, advisors, ledger, series, incumbent, diagnosis).run();
}

SearchState state_of(const SessionInput& input, const TrialSeries& series,
                     const Incumbent& incumbent, const Diagnosis& diagnosis) {
  return {.input = input,
          .incumbent = incumbent.configuration(),
          .past_incumbents = incumbent.past(),
          .trials = series.records(),
          .ceiling = diagnosis.ceiling(),
          .metrics = diagnosis.metrics()};
}

}  // namespace autotuned::tuner
