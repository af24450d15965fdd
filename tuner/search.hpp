// SPDX-License-Identifier: Apache-2.0
// The search: ask the plugins, try the most promising proposal, and again.
#pragma once

#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/result.hpp"
#include "tuner/advisors.hpp"
#include "tuner/budget.hpp"
#include "tuner/candidates.hpp"
#include "tuner/context.hpp"
#include "tuner/diagnosis.hpp"
#include "tuner/incumbent.hpp"
#include "tuner/ledger.hpp"
#include "tuner/trial_series.hpp"

namespace autotuned::tuner {

// A proposal that waited for a trial when the budget was spent.
struct UntriedProposal {
  std::string plugin;
  Configuration reference;  // what it was to be compared with
  Configuration change;
};

struct SearchEnd {
  bool is_budget_spent = false;               // for something that was left to try
  bool is_complete = false;                   // no proposal was left untried
  std::vector<UntriedProposal> untried = {};  // the most promising first
};

// Leaves in `incumbent` what trials accepted, with its diagnosis. Ends when nothing is left to try or the budget is
// spent, but for what a confirmation takes. Errors: those of trials, of the diagnosis and of the ledger; a plugin that
// fails is left out.
[[nodiscard]] Result<SearchEnd> search(const SessionInput& input, const Budget& budget,
                                       Advisors& advisors, Ledger& ledger, TrialSeries& series,
                                       Incumbent& incumbent, Diagnosis& diagnosis);

// What candidates are screened against; refers to all of these.
[[nodiscard]] SearchState state_of(const SessionInput& input, const TrialSeries& series,
                                   const Incumbent& incumbent, const Diagnosis& diagnosis);

}  // namespace autotuned::tuner
