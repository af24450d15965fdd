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

// The value of a list is the first of `choices`, or some of the others and names (letters, digits, '_', '-', '.'), separated by commas.
enum class KnobType { boolean, integer, choice, text, list };

// When a trainer can change the value: between two blocks, or only when it starts.
enum class KnobSwitch { live, restart };

// How a change may affect the training: not at all, by rounding, or by design. This decides which check it must pass
// (docs/architecture.md).
enum class RiskClass { exact, numerics, semantics };

[[nodiscard]] std::string_view to_string(KnobType type);
[[nodiscard]] std::optional<KnobType> knob_type_from(std::string_view name);
[[nodiscard]] std::string_view to_string(KnobSwitch how);
[[nodiscard]] std::string_view to_string(RiskClass risk);
[[nodiscard]] std::optional<RiskClass> risk_class_from(std::string_view name);

// A setting that may be tuned, with its values.
struct Knob {
  std::string name;
  KnobType type = KnobType::boolean;
  std::int64_t minimum = 0;          // integer
  std::int64_t maximum = 0;          // integer
  std::vector<std::string> choices;  // choice, list
  KnobValue default_value;           // the behaviour of PyTorch without tuning
  std::string unit;                  // "threads", "batches", "samples"; empty for none
  RiskClass risk = RiskClass::exact;
  KnobSwitch how = KnobSwitch::live;
  int warmup_steps = 1;       // steps to drop after a switch to another value
  std::string one_time_cost;  // one-time work of a switch, in words; empty for none
  bool is_of_gpu = false;     // only a CUDA GPU obeys it
  std::string unavailable;    // why the knob cannot be changed on this machine; empty if it can
  // For each choice that this machine cannot have: why.
  std::map<std::string, std::string> unavailable_choices;
  std::string summary;  // one sentence

  [[nodiscard]] Json to_json() const;
};

// Returns the built-in knobs with their domains on `machine`, sorted by name. The list has no knob `env.NAME`: every name "env." with
// [A-Z0-9_]+ after it is a text knob that needs a restart.
[[nodiscard]] std::vector<Knob> knobs_of(const Machine& machine);

// Whether the knob concerns the exchange between ranks.
[[nodiscard]] bool is_of_ranks(std::string_view knob);

// Returns the knobs of a job with `ranks` ranks. Each rank may use its part of the CPUs. With one rank the knobs of ranks are
// unavailable, with several cuda.graph. With more than two ranks the bucket size changes the order of sums, so its class is numerics.
[[nodiscard]] std::vector<Knob> with_ranks(std::vector<Knob> knobs, int ranks);

// Returns the knob, also for env.NAME; nothing for an unknown name.
[[nodiscard]] std::optional<Knob> find_knob(const std::vector<Knob>& knobs, std::string_view name);

// Whether this name, which is not among `knobs`, may be a knob of an extension that was not found: EXTENSION.WORD, and
// no known knob begins like it.
[[nodiscard]] bool may_be_of_extension(const std::vector<Knob>& knobs, std::string_view name);
// What makes the knobs of an extension known, as a part of a message.
inline constexpr std::string_view kExtensionRemedy =
    "if it is a knob of a plugin, add --plugin-dir FOLDER";

// Checks that the knob may have `value` on this machine. ErrorKind::invalid: the value is outside its domain.
// ErrorKind::unsupported: the knob cannot be changed here and `value` is not its default, or this machine cannot have that choice.
[[nodiscard]] Result<void> check_value(const Knob& knob, const KnobValue& value);

// Checks what holds on every machine: a built-in knob and env.NAME have a value of their type, and an integer is not below the least
// one. Other names may have any value: a plugin, a script or another version declares them. ErrorKind::invalid names the first knob with
// another value.
[[nodiscard]] Result<void> check_types(const Configuration& configuration);

// Reads a value that a person wrote: on/off/true/false, a number, a choice.
[[nodiscard]] Result<KnobValue> parse_value(const Knob& knob, std::string_view text);

// Returns the configuration in which every knob has its default.
[[nodiscard]] Configuration default_configuration(const std::vector<Knob>& knobs);

// Returns the class of a change: that of its riskiest knob. An unknown knob counts as semantics.
[[nodiscard]] RiskClass risk_of(const std::vector<Knob>& knobs, const Configuration& change);
// Whether a knob of the change needs a new trainer process. An unknown knob counts as one that does.
[[nodiscard]] bool needs_restart(const std::vector<Knob>& knobs, const Configuration& change);

}  // namespace autotuned::recipes
