// SPDX-License-Identifier: Apache-2.0
// What acting on a finding can give at most, and the code of PyTorch that acts on it: one remedy for each rule.
#pragma once

#include <span>
#include <string>

#include "profiler/analysis/findings/findings.hpp"

namespace autotuned::analysis {

// The operators' own share of a step, as Remedy::of.
inline constexpr const char* kOfOperators = "operators";

struct Remedy {
  const char* rule;  // Rule::id
  // The share of the step's time that can be saved at most: the signal `share` (or, `is_rest`, what it leaves of 1),
  // times the signal `of` where one is named. "": no figure of a trace is such a bound.
  const char* share = "";
  const char* of = "";
  bool is_rest = false;
  // Where there is no bound, or this trace cannot tell it.
  Severity otherwise = Severity::note;
  // Ends the sentence "at most … of the step, …", and says under which condition it would be as much. {signal} is replaced.
  // Without `share` it stands alone, or is "".
  const char* reasoning = "";
  const char* code = "";  // to paste, several lines; "" where there is nothing to paste
};

[[nodiscard]] std::span<const Remedy> remedies();
[[nodiscard]] std::span<const Remedy> input_remedies();  // a part of them

// Never null: every rule has one, and a test sees to it.
[[nodiscard]] const Remedy& remedy_of(const Rule& rule);

// Nothing where the remedy has no bound, or where the trace does not have one of its signals. From 0 to 1.
[[nodiscard]] std::optional<double> most_saved_ratio(const Remedy& remedy, const Signals& signals);

}  // namespace autotuned::analysis
