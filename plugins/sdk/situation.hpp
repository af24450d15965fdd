// SPDX-License-Identifier: Apache-2.0
// Typed reading of a situation (README.md). Whatever is missing or of another type is unknown: an empty
// optional, an empty text, zero. Nothing here throws, except for want of memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// Long functions are compiled by each plugin that includes this, but once for all built-in plugins: sdk.cpp compiles them,
// and with AUTOTUNED_SDK_IS_COMPILED they are only declared.
#ifndef AUTOTUNED_SDK_INLINE
#define AUTOTUNED_SDK_INLINE inline
#endif

namespace autotuned::sdk {

using Json = nlohmann::json;

// The member, or null (a static value) when `object` is no object or lacks it.
[[nodiscard]] inline const Json& member(const Json& object, std::string_view name) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

// `value` as bool, std::int64_t, double or std::string, when it is one.
template <class T>
[[nodiscard]] std::optional<T> as(const Json& value) {
  if constexpr (std::is_same_v<T, bool>) {
    if (value.is_boolean()) return value.get<bool>();
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    if (value.is_number_integer()) return value.get<std::int64_t>();
  } else if constexpr (std::is_same_v<T, double>) {
    if (value.is_number()) return value.get<double>();
  } else {
    static_assert(std::is_same_v<T, std::string>);
    if (value.is_string()) return value.get<std::string>();
  }
  return std::nullopt;
}

// A knob that this trainer has.
struct Knob {
  std::string name;
  std::string type;          // boolean | integer | choice | text | list
  std::int64_t minimum = 0;  // integer
  std::int64_t maximum = 0;  // integer
  std::vector<std::string> choices;
  std::string risk;         // exact | numerics | semantics
  std::string unavailable;  // why it cannot be changed on this machine; empty: it can
  std::map<std::string, std::string> unavailable_choices;  // of these choices: why
};

struct Gpu {
  std::string name;
  int compute_capability_major = 0;
  int compute_capability_minor = 0;
  std::int64_t memory_bytes = 0;
};

// An earlier trial of this plugin.
struct Trial {
  Json change = Json::object();
  // What it was compared with, every knob; null when not told. Lies in the situation's document and keeps it alive.
  std::shared_ptr<const Json> reference;
  std::string verdict;  // accepted | rejected | failed | interrupted
  std::string failure;  // out_of_memory, crashed, timeout, …; empty unless failed or disturbed
  double ratio = 0.0;   // 0 when nothing was measured
  double ratio_low = 0.0;
  double ratio_high = 0.0;
  double candidate_samples_per_second = 0.0;
  std::int64_t peak_memory_bytes = 0;  // 0: unknown

  [[nodiscard]] bool is_accepted() const { return verdict == "accepted"; }
  [[nodiscard]] bool is_rejected() const { return verdict == "rejected"; }
  [[nodiscard]] bool is_failed() const { return verdict == "failed"; }
  // The value of a knob in what it was compared with; empty when not told.
  template <class T>
  [[nodiscard]] std::optional<T> compared_with(std::string_view knob) const {
    return reference == nullptr ? std::nullopt : as<T>(member(*reference, knob));
  }
};

// Where in the model certain operators spend most of their time.
struct Place {
  std::string module;        // its path
  double share_ratio = 0.0;  // of their time
};

// An immutable value; copies share the document. Any thread.
class Situation {
 public:
  explicit Situation(Json json) : json_(std::make_shared<const Json>(std::move(json))) {}
  // Throws if the text is no JSON.
  [[nodiscard]] static Situation read(std::string_view text) {
    return Situation(Json::parse(text));
  }
  // A situation over a document that the caller owns. The caller must keep it as long as the situation, its copies and
  // their trials live.
  [[nodiscard]] static Situation of(const Json& json) {
    return Situation(std::shared_ptr<const Json>(std::shared_ptr<const Json>(), &json));
  }

  // The whole document, for members that have no function here.
  [[nodiscard]] const Json& json() const { return *json_; }
  [[nodiscard]] const Json& section(std::string_view name) const { return member(*json_, name); }

  // A figure of the incumbent's last profile (docs/metrics.md); empty when it was not measured.
  [[nodiscard]] std::optional<double> metric(std::string_view name) const {
    const std::optional<double> value = as<double>(member(section("metrics"), name));
    return value && std::isfinite(*value) ? value : std::nullopt;
  }

  // The first of these that was measured.
  [[nodiscard]] std::optional<double> first_metric(
      std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names) {
      if (const auto value = metric(name)) return value;
    }
    return std::nullopt;
  }
  // The module that the operators of a signal of a trace run in most, as the last trace of this run knows it.
  [[nodiscard]] std::optional<Place> place(std::string_view signal) const {
    const Json& found = member(section("places"), signal);
    std::optional<std::string> module = as<std::string>(member(found, "module"));
    if (!module || module->empty()) return std::nullopt;
    return Place{std::move(*module), as<double>(member(found, "share_ratio")).value_or(0.0)};
  }

  [[nodiscard]] std::int64_t cpus_allowed() const {
    return std::max<std::int64_t>(1, integer("environment", "cpus_allowed"));
  }
  [[nodiscard]] bool has_cpu_feature(std::string_view name) const {
    const Json& features = member(section("environment"), "cpu_features");
    return features.is_array() && std::ranges::any_of(features, [&](const Json& feature) {
             return feature.is_string() && feature.get_ref<const std::string&>() == name;
           });
  }
  // The GPU that the job runs on; empty when it runs on the CPU.
  [[nodiscard]] std::optional<Gpu> gpu() const;
  // Why this machine has no usable GPU; empty if it has one.
  [[nodiscard]] std::string gpu_reason() const { return text("environment", "gpu_reason"); }
  [[nodiscard]] bool is_on_gpu() const { return text("job", "device").starts_with("cuda"); }

  [[nodiscard]] std::optional<Knob> knob(std::string_view name) const;
  // The incumbent's value of a knob: empty when it does not have that knob with that type.
  template <class T>
  [[nodiscard]] std::optional<T> incumbent(std::string_view knob) const {
    return as<T>(member(section("incumbent"), knob));
  }
  // Whether the job is a script that is tuned while it trains. Its permissions come from the command's options, those
  // of other jobs from the recipe.
  [[nodiscard]] bool is_script() const { return !text("permissions", "option").empty(); }
  [[nodiscard]] bool permits(const Knob& knob) const;
  // Why a knob cannot be changed here and now, as a clause; empty: it can.
  [[nodiscard]] std::string obstacle(std::string_view knob) const;
  // The same for one of the knob's choices.
  [[nodiscard]] std::string obstacle(std::string_view knob, const std::string& choice) const;

  // This plugin's own trials in this run, oldest first, and in earlier runs.
  [[nodiscard]] std::vector<Trial> trials() const { return trials_of("trials"); }
  [[nodiscard]] std::vector<Trial> history() const { return trials_of("history"); }
  // Whether `trial` compared with what is the incumbent now, leaving out the knob `except`.
  [[nodiscard]] bool is_against_incumbent(const Trial& trial, std::string_view except = {}) const;
  // Whether this change was tried in this run against this very incumbent and did not win. History does
  // not count here: it may be of another job, or of a run whose budget left the question open.
  [[nodiscard]] bool has_lost(const Json& change) const;
  // What to expect of a change: the ratio that it gave against this very incumbent in an earlier run
  // here, where there is one (not below 1: it may be tried, but late), else `predicted`.
  [[nodiscard]] double expected_gain(const Json& change, double predicted) const;

  [[nodiscard]] std::int64_t integer(std::string_view part, std::string_view name) const {
    return as<std::int64_t>(member(section(part), name)).value_or(0);
  }
  [[nodiscard]] std::string text(std::string_view part, std::string_view name) const {
    return as<std::string>(member(section(part), name)).value_or("");
  }

 private:
  explicit Situation(std::shared_ptr<const Json> json) : json_(std::move(json)) {}
  // The trials in this section of the document; with `change`, only those of that change.
  [[nodiscard]] std::vector<Trial> trials_of(std::string_view name,
                                             const Json* change = nullptr) const;

  std::shared_ptr<const Json> json_;
};

// The ratio of rates when `share` of the step's time goes away: 0.5 → 2. At most 20.
[[nodiscard]] inline double gain_without(double share) {
  return 1.0 / (1.0 - std::clamp(share, 0.0, 0.95));
}

// A share for people: 0.314 → "31 %", 0.004 → "0.4 %".
[[nodiscard]] inline std::string percent(double share) {
  const double value = share * 100.0;
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, std::abs(value) < 9.95 ? "%.1f %%" : "%.0f %%", value);
  return buffer;
}

// A whole number for people: 9830.4 → "9,830".
[[nodiscard]] inline std::string count_text(double count) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.0f", std::clamp(count, -1e18, 1e18));
  std::string text = buffer;
  const std::size_t first = text.front() == '-' ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

// Bytes for people: 1.5 * 2^20 → "1.5 MiB".
[[nodiscard]] inline std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  double value = bytes / 1024;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit)
    value /= 1024;
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.1f %s", value, kUnits[unit]);
  return buffer;
}

#ifndef AUTOTUNED_SDK_IS_COMPILED

AUTOTUNED_SDK_INLINE std::optional<Gpu> Situation::gpu() const {
  if (!is_on_gpu()) return std::nullopt;
  const std::string device = text("job", "device");
  const std::size_t colon = device.find(':');
  const std::size_t index =
      colon == std::string::npos ? 0 : std::strtoul(device.c_str() + colon + 1, nullptr, 10);
  const Json& gpus = member(section("environment"), "gpus");
  if (!gpus.is_array()) return std::nullopt;
  // CUDA's numbers need not be those of the list: where the trainer tells which one it is, that counts.
  const std::string uuid = text("job", "device_uuid");
  const auto named = std::find_if(gpus.begin(), gpus.end(), [&](const Json& one) {
    return as<std::string>(member(one, "uuid")) == "GPU-" + uuid;
  });
  if (named == gpus.end() && (!uuid.empty() || index >= gpus.size())) return std::nullopt;
  const Json& json = named != gpus.end() ? *named : gpus[index];
  Gpu gpu{.name = as<std::string>(member(json, "name")).value_or(""),
          .memory_bytes = as<std::int64_t>(member(json, "memory_bytes")).value_or(0)};
  const std::string capability =
      as<std::string>(member(json, "compute_capability")).value_or("");  // "9.0"
  std::sscanf(capability.c_str(), "%d.%d", &gpu.compute_capability_major,
              &gpu.compute_capability_minor);
  return gpu;
}

AUTOTUNED_SDK_INLINE std::optional<Knob> Situation::knob(std::string_view name) const {
  const Json& knobs = section("knobs");
  // One entry stands for every variable of the trainer's environment.
  const bool is_variable = name.starts_with("env.") && member(knobs, name).is_null();
  const Json& json = member(knobs, is_variable ? "env.*" : name);
  if (!json.is_object()) return std::nullopt;
  Knob knob{.name = std::string(name),
            .type = as<std::string>(member(json, "type")).value_or(""),
            .minimum = as<std::int64_t>(member(json, "minimum")).value_or(0),
            .maximum = as<std::int64_t>(member(json, "maximum")).value_or(0),
            .choices = {},
            .risk = as<std::string>(member(json, "risk")).value_or(""),
            .unavailable = as<std::string>(member(json, "unavailable")).value_or(""),
            .unavailable_choices = {}};
  if (const Json& choices = member(json, "choices"); choices.is_array()) {
    for (const Json& choice : choices) {
      if (choice.is_string()) knob.choices.push_back(choice.get<std::string>());
    }
  }
  if (const Json& reasons = member(json, "unavailable_choices"); reasons.is_object()) {
    for (const auto& [choice, reason] : reasons.items())
      knob.unavailable_choices[choice] = as<std::string>(reason).value_or("cannot be had here");
  }
  return knob;
}

AUTOTUNED_SDK_INLINE bool Situation::permits(const Knob& knob) const {
  const Json& permissions = section("permissions");
  const auto allows = [&](const char* risk) {
    return as<bool>(member(permissions, risk)).value_or(false);
  };
  if (knob.risk == "exact" || allows("semantics")) return true;
  if (knob.risk == "numerics" && allows("numerics")) return true;
  const Json& knobs = member(permissions, "knobs");
  return knobs.is_array() && std::ranges::any_of(knobs, [&](const Json& name) {
           return name.is_string() && name.get_ref<const std::string&>() == knob.name;
         });
}

AUTOTUNED_SDK_INLINE std::string Situation::obstacle(std::string_view name) const {
  const std::optional<Knob> found = knob(name);
  if (!found && is_script()) return "what it changes can only be changed in a recipe";
  if (!found) return "the trainer has no knob " + std::string(name);
  if (!found->unavailable.empty()) return found->name + ": " + found->unavailable;
  if (permits(*found)) return {};
  return "changes of " + found->name + " are not permitted (" + (is_script() ? "--" : "tune.") +
         "allow: " + found->risk + " or " + found->name + ")";
}

AUTOTUNED_SDK_INLINE std::string Situation::obstacle(std::string_view name,
                                                     const std::string& choice) const {
  std::string reason = obstacle(name);
  if (!reason.empty()) return reason;
  const Knob found = *knob(name);
  if (std::ranges::find(found.choices, choice) == found.choices.end()) {
    return found.name + " cannot be " + choice;
  }
  const auto missing = found.unavailable_choices.find(choice);
  return missing == found.unavailable_choices.end() ? std::string()
                                                    : choice + ": " + missing->second;
}

namespace detail {

// Whether both have the same members with the same values, leaving out one.
AUTOTUNED_SDK_INLINE bool is_same_but(const Json& a, const Json& b, std::string_view left_out) {
  if (!a.is_object() || !b.is_object()) return a == b;
  auto one = a.begin();
  auto other = b.begin();
  while (true) {
    if (one != a.end() && one.key() == left_out) ++one;
    if (other != b.end() && other.key() == left_out) ++other;
    if (one == a.end() || other == b.end()) return one == a.end() && other == b.end();
    if (one.key() != other.key() || *one != *other) return false;
    ++one;
    ++other;
  }
}

}  // namespace detail

AUTOTUNED_SDK_INLINE bool Situation::is_against_incumbent(const Trial& trial,
                                                          std::string_view except) const {
  if (trial.reference == nullptr || trial.reference->empty()) return true;
  return detail::is_same_but(*trial.reference, section("incumbent"), except);
}

AUTOTUNED_SDK_INLINE bool Situation::has_lost(const Json& change) const {
  return std::ranges::any_of(trials_of("trials", &change), [&](const Trial& trial) {
    return (trial.is_rejected() || trial.is_failed()) && is_against_incumbent(trial);
  });
}

AUTOTUNED_SDK_INLINE double Situation::expected_gain(const Json& change, double predicted) const {
  for (const Trial& trial : trials_of("history", &change)) {
    const bool is_told = trial.reference != nullptr && !trial.reference->empty();
    const bool is_same = trial.ratio > 0.0 && is_told && is_against_incumbent(trial);
    if (is_same) predicted = std::max(1.0, trial.ratio);
  }
  return predicted;
}

AUTOTUNED_SDK_INLINE std::vector<Trial> Situation::trials_of(std::string_view name,
                                                             const Json* change) const {
  std::vector<Trial> trials;
  const Json& list = section(name);
  if (!list.is_array()) return trials;
  for (const Json& json : list) {
    const Json& its_change = member(json, "change");
    if (change != nullptr && its_change != *change) continue;
    const auto number = [&](const char* field) {
      return as<double>(member(json, field)).value_or(0.0);
    };
    Trial& trial = trials.emplace_back();
    if (its_change.is_object()) trial.change = its_change;
    if (const Json& reference = member(json, "reference"); reference.is_object()) {
      trial.reference = std::shared_ptr<const Json>(json_, &reference);
    }
    trial.verdict = as<std::string>(member(json, "verdict")).value_or("");
    trial.failure = as<std::string>(member(json, "failure")).value_or("");
    trial.ratio = number("ratio");
    trial.ratio_low = number("ratio_low");
    trial.ratio_high = number("ratio_high");
    trial.candidate_samples_per_second = number("candidate_samples_per_second");
    trial.peak_memory_bytes = as<std::int64_t>(member(json, "peak_memory_bytes")).value_or(0);
  }
  return trials;
}

#endif

}  // namespace autotuned::sdk
