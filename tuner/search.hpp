// SPDX-License-Identifier: Apache-2.0
// The search: ask the plugins, try the most promising proposal, repeat.
#pragma once

#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/result.hpp"
#include "tuner/advisors.hpp"
#include "tuner/budget.hpp"
#include "tuner/context.hpp"
#include "tuner/diagnosis.hpp"
#include "tuner/incumbent.hpp"
#include "tuner/ledger.hpp"
#include "tuner/proposals.hpp"
#include "tuner/trial_series.hpp"

namespace autotuned::tuner {

// A proposal that had no trial when the budget was spent.
struct UntriedProposal {
  std::string plugin;
  Configuration reference;  // the incumbent that it would have been compared with
  Configuration change;
};

struct SearchEnd {
  bool is_budget_spent = false;  // something was left to try, but no budget
  // No proposal was left untried, no plugin was left out because it failed, and the last profile is not missing by chance.
  bool is_complete = false;
  std::vector<UntriedProposal> untried = {};  // the most promising first
};

// Runs the search. On return, `incumbent` has the accepted changes and `diagnosis` is that of the incumbent.
// Ends when nothing is left to try, or when the budget is spent except for the time of a confirmation.
// Errors: of trials, of the diagnosis and of the ledger. A plugin that fails is not asked again.
[[nodiscard]] Result<SearchEnd> search(const SessionInput& input, const Budget& budget,
                                       Advisors& advisors, Ledger& ledger, TrialSeries& series,
                                       Incumbent& incumbent, Diagnosis& diagnosis);

// The input of screen(). Refers to all four arguments.
[[nodiscard]] SearchState state_of(const SessionInput& input, const TrialSeries& series,
                                   const Incumbent& incumbent, const Diagnosis& diagnosis);

}  // namespace autotuned::tuner
