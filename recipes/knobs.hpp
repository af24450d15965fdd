// SPDX-License-Identifier: Apache-2.0
// The knobs: every setting of a training job that may be tuned, declared once.
//
// The recipe checker, the trainer, the plugins, `autotuned knobs` and the docs read this table.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/result.hpp"

namespace autotuned::recipes {

// A list is the first of `choices`, or others of them and names (letters, digits, '_', '-', '.'), separated
// by commas.
enum class KnobType { boolean, integer, choice, text, list };

// How a trainer takes on another value: between two blocks, or only when it starts.
enum class KnobSwitch { live, restart };

// What a change claims, and so which check it must pass before it is accepted (docs/architecture.md).
enum class RiskClass { exact, numerics, semantics };

[[nodiscard]] std::string_view to_string(KnobType type);
[[nodiscard]] std::optional<KnobType> knob_type_from(std::string_view name);
[[nodiscard]] std::string_view to_string(KnobSwitch how);
[[nodiscard]] std::string_view to_string(RiskClass risk);
[[nodiscard]] std::optional<RiskClass> risk_class_from(std::string_view name);

struct Knob {
  std::string name;
  KnobType type = KnobType::boolean;
  std::int64_t minimum = 0;          // integer
  std::int64_t maximum = 0;          // integer
  std::vector<std::string> choices;  // choice, list
  KnobValue default_value;           // what PyTorch does when nobody tunes it
  std::string unit;                  // "threads", "batches", "samples"; empty for none
  RiskClass risk = RiskClass::exact;
  KnobSwitch how = KnobSwitch::live;
  int warmup_steps = 1;       // steps to drop after a switch to another value
  std::string one_time_cost;  // what a switch pays once, in words; empty for nothing
  bool is_of_gpu = false;     // only a CUDA GPU obeys it
  std::string unavailable;    // why it cannot be changed on this machine; empty: it can
  // Of these choices: why this machine cannot have them.
  std::map<std::string, std::string> unavailable_choices;
  std::string summary;  // one sentence

  [[nodiscard]] Json to_json() const;
};

// The built-in knobs with their domains on `machine`, sorted by name. `env.NAME` is not in the list:
// any name that starts with "env." and goes on with [A-Z0-9_]+ is a text knob that needs a restart.
[[nodiscard]] std::vector<Knob> knobs_of(const Machine& machine);

// Whether a knob is about what several ranks exchange.
[[nodiscard]] bool is_of_ranks(std::string_view knob);

// The knobs as a job of so many ranks has them: each rank may use its part of the CPUs. With one rank those of ranks
// are unavailable; with more than two another bucket size is another order of sums, so its class is numerics.
[[nodiscard]] std::vector<Knob> with_ranks(std::vector<Knob> knobs, int ranks);

// Also answers for env.NAME. Nothing for an unknown name.
[[nodiscard]] std::optional<Knob> find_knob(const std::vector<Knob>& knobs, std::string_view name);

// Ok when `value` is in the knob's domain on this machine; else ErrorKind::invalid (outside) or
// ErrorKind::unsupported (the knob cannot be changed here and `value` is not its default, or this machine
// cannot have that choice).
[[nodiscard]] Result<void> check_value(const Knob& knob, const KnobValue& value);

// Reads a value that a person wrote: on/off/true/false, a number, a choice.
[[nodiscard]] Result<KnobValue> parse_value(const Knob& knob, std::string_view text);

// The default of every built-in knob.
[[nodiscard]] Configuration default_configuration(const std::vector<Knob>& knobs);

// The class of a change is that of its riskiest knob.
[[nodiscard]] RiskClass risk_of(const std::vector<Knob>& knobs, const Configuration& change);
[[nodiscard]] bool needs_restart(const std::vector<Knob>& knobs, const Configuration& change);

}  // namespace autotuned::recipes
