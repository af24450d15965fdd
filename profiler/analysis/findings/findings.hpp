// SPDX-License-Identifier: Apache-2.0
// Findings: what slows a training job down, and what to do about it, from a table of rules over signals.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "profiler/analysis/findings/signals.hpp"

namespace autotuned::analysis {

// A rule fires if `signal` is above (or, with `is_below`, below) `threshold`. It does not fire if the trace
// does not have the signal.
struct Rule {
  const char* id;
  const char* signal;
  double threshold;
  bool is_below;
  // One sentence with the figures: {signal} is replaced by its value in its unit.
  const char* evidence;
  const char* plugin;  // the plugin that acts on it in `autotuned run`; "" for none
  const char* knob;    // the knob that the plugin turns; "" for none
  const char* advice;  // what to change in a program that uses PyTorch
};

// All rules; those that usually cost most come first.
[[nodiscard]] std::span<const Rule> rules();

// Returns PyTorch code to paste; "" if there is none.
[[nodiscard]] const char* code_of(const Rule& rule);

// How much a finding matters, by the largest share of the step that acting on it can save (high: a fifth or more, medium: a twentieth or
// more, low: less) or by another effect such as running out of memory. A note only describes the recording, or where to look.
enum class Severity { note, low, medium, high };
[[nodiscard]] const char* to_string(Severity severity);
[[nodiscard]] Severity severity_of(double most_saved_ratio);

// An upper bound of what acting on a finding can save. Only a measurement shows how much a change really saves.
struct Gain {
  // Share of the step's time, 0 to 1; nothing if the trace gives no bound.
  std::optional<double> most_saved_ratio;
  std::string reasoning;  // how the bound is computed, or why there is none; may be empty
};

// A rule that fires, with its figures.
struct Finding {
  const Rule* rule = nullptr;
  double value = 0;  // value of the rule's signal
  std::string evidence;
  // The end of `evidence` that names a place in the program; empty if none is known.
  std::string where;
  Severity severity = Severity::note;
  Gain gain;
  const char* code = "";  // code_of(*rule)
};

// The findings of a trace, in the order of rules().
[[nodiscard]] std::vector<Finding> findings_of(const Signals& signals);

// "12.3 %", "4.2 ms", "1.5 GiB", "12": the unit follows from the end of the signal's name.
[[nodiscard]] std::string signal_text(const std::string& name, double value);

// "at most 27.5 % of the step (1.38 x the rate), if …"; only the reasoning if there is no bound; may be
// empty.
[[nodiscard]] std::string gain_text(const Gain& gain);

// "over 5.0 %", "under 50.0 %".
[[nodiscard]] std::string condition_text(const Rule& rule);

}  // namespace autotuned::analysis
