// SPDX-License-Identifier: Apache-2.0
// For each rule: what acting on its finding can save at most, and PyTorch code that acts on it.
#pragma once

#include <span>
#include <string>

#include "profiler/analysis/findings/findings.hpp"

namespace autotuned::analysis {

// A value of Remedy::of: the share of the step that the operators themselves take.
inline constexpr const char* kOfOperators = "operators";

// How to act on the finding of a rule, and what this can save.
struct Remedy {
  const char* rule;  // Rule::id
  // The largest share of the step's time that can be saved: the value of the signal `share` (with `is_rest`:
  // 1 less the value), times the signal `of` if one is named. "": no figure of a trace bounds it.
  const char* share = "";
  const char* of = "";
  bool is_rest = false;
  // The severity if there is no bound, or if this trace cannot give it.
  Severity otherwise = Severity::note;
  // The end of the sentence "at most … of the step, …": the condition under which all of it would be saved.
  // {signal} is replaced by its value. Without `share` it is a sentence of its own, or "".
  const char* reasoning = "";
  const char* code = "";  // to paste, several lines; "" for none
};

[[nodiscard]] std::span<const Remedy> remedies();
[[nodiscard]] std::span<const Remedy> input_remedies();  // the part of remedies() about input

// The remedy of a rule. Every rule has one, which a test checks.
[[nodiscard]] const Remedy& remedy_of(const Rule& rule);

// Returns the bound, 0 to 1; nothing if the remedy has no bound or the trace lacks one of its signals.
[[nodiscard]] std::optional<double> most_saved_ratio(const Remedy& remedy, const Signals& signals);

}  // namespace autotuned::analysis
