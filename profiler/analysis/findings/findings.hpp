// SPDX-License-Identifier: Apache-2.0
// What slows a training job down, and what to do about it: a table of rules over signals.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "profiler/analysis/findings/signals.hpp"

namespace autotuned::analysis {

// Fires when `signal` is over (or, `is_below`, under) `threshold`. A rule whose signal a trace cannot tell
// does not fire.
struct Rule {
  const char* id;
  const char* signal;
  double threshold;
  bool is_below;
  // One sentence with the figures: {signal} is replaced by its value in its unit.
  const char* evidence;
  const char* plugin;  // that acts on it by itself in `autotuned run`; "" where none does
  const char* knob;    // that the plugin turns; "" where there is none
  const char* advice;  // what to change in a program that uses PyTorch
};

// Those that cost most, as a rule, come first.
[[nodiscard]] std::span<const Rule> rules();

// Of PyTorch, to paste; "" where there is none.
[[nodiscard]] const char* code_of(const Rule& rule);

// How much a finding matters: by what acting on it can save at most (high: a fifth of the step or more, medium: a twentieth
// or more, low: less), or by what it does besides, such as running out of memory. A note only says something of the
// recording or of where to look.
enum class Severity { note, low, medium, high };
[[nodiscard]] const char* to_string(Severity severity);
[[nodiscard]] Severity severity_of(double most_saved_ratio);

// What acting on a finding can give. An upper bound: how much of it a change really gives only a measurement tells.
struct Gain {
  std::optional<double>
      most_saved_ratio;   // of the step's time; nothing where the trace bounds it by nothing
  std::string reasoning;  // how it is computed, or why there is none; may be empty
};

struct Finding {
  const Rule* rule = nullptr;
  double value = 0;  // of the rule's signal
  std::string evidence;
  std::string
      where;  // the end of the evidence that names a place in the program; empty where none is known
  Severity severity = Severity::note;
  Gain gain;
  const char* code = "";  // code_of(*rule)
};

// In the order of the table.
[[nodiscard]] std::vector<Finding> findings_of(const Signals& signals);

// "12.3 %", "4.2 ms", "1.5 GiB", "12": by the end of the signal's name.
[[nodiscard]] std::string signal_text(const std::string& name, double value);

// "at most 27.5 % of the step (1.38 x the rate), if …"; the reasoning alone where nothing bounds it; may be empty.
[[nodiscard]] std::string gain_text(const Gain& gain);

// "over 5.0 %", "under 50.0 %".
[[nodiscard]] std::string condition_text(const Rule& rule);

}  // namespace autotuned::analysis
