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

#include "plugins/sdk/json_parts.hpp"

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

// A knob that this trainer obeys.
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
  // What it was compared with, every knob; null when not told. Trials against the same share it.
  std::shared_ptr<const Json> reference;
  std::string verdict;  // accepted | rejected | failed | interrupted
  std::string failure;  // out_of_memory, crashed, timeout, …; empty unless failed
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

// A value type; owns what it reads. One thread at a time, also for reading.
class Situation {
 public:
  explicit Situation(Json json) : json_(std::move(json)) {}
  // Of JSON text, which is read part by part, when somebody asks. Throws where it is none; what lies inside
  // a part may throw later, from the functions that read it.
  [[nodiscard]] static Situation read(std::string text);

  // Of what somebody else owns, who keeps it as long as this and its copies live.
  [[nodiscard]] static Situation of(const Json& json) {
    Situation situation{Json()};
    situation.others_ = &json;
    return situation;
  }

  // The whole of it, for what has no function here.
  [[nodiscard]] const Json& json() const {
    while (!unread_.empty())
      read_section(unread_.size() - 1);
    return others_ != nullptr ? *others_ : json_;
  }
  [[nodiscard]] const Json& section(std::string_view name) const {
    for (std::size_t i = 0; i < unread_.size(); ++i) {
      if (unread_[i].name == name) return read_section(i);
    }
    return member(others_ != nullptr ? *others_ : json_, name);
  }

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
  // Why there is none on this machine.
  [[nodiscard]] std::string gpu_reason() const { return text("environment", "gpu_reason"); }
  [[nodiscard]] bool is_on_gpu() const { return text("job", "device").starts_with("cuda"); }

  [[nodiscard]] std::optional<Knob> knob(std::string_view name) const;
  // The incumbent's value of a knob: empty when it does not have that knob with that type.
  template <class T>
  [[nodiscard]] std::optional<T> incumbent(std::string_view knob) const {
    return as<T>(member(section("incumbent"), knob));
  }
  // For a script that is tuned while it trains the options of the command speak, else the recipe.
  [[nodiscard]] bool is_script() const { return !text("permissions", "option").empty(); }
  [[nodiscard]] bool permits(const Knob& knob) const;
  // Why a knob cannot be changed here and now, as a clause; empty: it can.
  [[nodiscard]] std::string obstacle(std::string_view knob) const;
  // The same of one of its choices.
  [[nodiscard]] std::string obstacle(std::string_view knob, const std::string& choice) const;

  // This plugin's own trials in this run, oldest first, and in earlier runs.
  [[nodiscard]] std::vector<Trial> trials() const { return trials_of("trials", nullptr); }
  [[nodiscard]] std::vector<Trial> history() const { return trials_of("history", nullptr); }
  // Whether `trial` compared with what is the incumbent now, leaving out the knob `except`.
  [[nodiscard]] bool is_against_incumbent(const Trial& trial, std::string_view except = {}) const;
  // Whether this change was tried in this run against this very incumbent and did not win. History does
  // not count here: it may be of another job, or of a run whose budget left the question open.
  [[nodiscard]] bool has_lost(const Json& change) const;
  // What to expect of a change: the ratio that it gave against this very incumbent in an earlier run
  // here, where there is one (not below 1: it may be tried, but late), else `predicted`.
  [[nodiscard]] double expected_gain(const Json& change, double predicted) const;

  [[nodiscard]] std::int64_t integer(std::string_view part, std::string_view name) const {
    return as<std::int64_t>(entry(part, name)).value_or(0);
  }
  [[nodiscard]] std::string text(std::string_view part, std::string_view name) const {
    return as<std::string>(entry(part, name)).value_or("");
  }

 private:
  [[nodiscard]] Json parsed(const detail::JsonPart& part) const {
    return Json::parse(text_.begin() + static_cast<std::ptrdiff_t>(part.begin),
                       text_.begin() + static_cast<std::ptrdiff_t>(part.begin + part.size));
  }
  const Json& read_section(std::size_t unread) const {
    const detail::JsonPart part = unread_[unread];
    Json& read = json_[part.name] = parsed(part);
    unread_.erase(unread_.begin() + static_cast<std::ptrdiff_t>(unread));
    return read;
  }
  // A section that nobody has read, so that a part of it can be read alone; else null.
  [[nodiscard]] const detail::JsonPart* unread(std::string_view name) const {
    const auto found = std::ranges::find(unread_, name, &detail::JsonPart::name);
    return found == unread_.end() ? nullptr : &*found;
  }
  // The parts of what begins there; looked for once.
  [[nodiscard]] const std::vector<detail::JsonPart>& parts_at(std::size_t begin) const {
    const auto found = parts_.find(begin);
    if (found != parts_.end()) return found->second;
    return parts_.emplace(begin, detail::json_parts(text_, begin)).first->second;
  }
  // A member of a section.
  [[nodiscard]] Json entry(std::string_view section_name, std::string_view name) const;

  // A trial of which only the change has been read: most questions are about those of one change.
  struct Listed {
    Json change;
    std::size_t index = 0;  // in its section
    detail::JsonPart part;  // in the text, where it is to be read from there
  };
  [[nodiscard]] const std::vector<Listed>& listed(std::string_view name) const;
  [[nodiscard]] Trial read_trial(std::string_view name, const Listed& one) const;
  // Configurations are long, and many trials have the same one.
  [[nodiscard]] std::shared_ptr<const Json> shared(const detail::JsonPart& part) const;
  [[nodiscard]] std::shared_ptr<const Json> shared(const Json& reference) const;
  // Those of this change, or all for null.
  [[nodiscard]] std::vector<Trial> trials_of(std::string_view name, const Json* change) const;

  struct Reference {
    detail::JsonPart part;  // where it stood in the text; of no size: in JSON
    std::shared_ptr<const Json> json;
  };

  mutable Json json_;  // what was read
  std::string text_;
  mutable std::vector<detail::JsonPart> unread_;  // sections of the text
  mutable std::map<std::size_t, std::vector<detail::JsonPart>> parts_;
  mutable std::map<std::string, std::vector<Listed>, std::less<>> listed_;
  mutable std::vector<Reference> references_;
  const Json* others_ = nullptr;  // instead of json_
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

inline Situation Situation::read(std::string text) {
  Situation situation(Json::object());
  situation.text_ = std::move(text);
  if (detail::JsonWalk(situation.text_, 0).next() != '{') {
    return Situation(Json::parse(situation.text_));
  }
  situation.unread_ = detail::json_parts(situation.text_, 0);
  return situation;
}

inline Json Situation::entry(std::string_view section_name, std::string_view name) const {
  const detail::JsonPart* const part = unread(section_name);
  if (part == nullptr) return member(section(section_name), name);
  if (text_[part->begin] != '{') return {};
  for (const detail::JsonPart& one : parts_at(part->begin)) {
    if (one.name == name) return parsed(one);
  }
  return {};
}

inline std::optional<Gpu> Situation::gpu() const {
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

inline std::optional<Knob> Situation::knob(std::string_view name) const {
  Json json = entry("knobs", name);
  // One entry stands for every variable of the trainer's environment.
  if (json.is_null() && name.starts_with("env.")) json = entry("knobs", "env.*");
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

inline bool Situation::permits(const Knob& knob) const {
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

inline std::string Situation::obstacle(std::string_view name) const {
  const std::optional<Knob> found = knob(name);
  if (!found && is_script()) return "what it changes can only be changed in a recipe";
  if (!found) return "the trainer has no knob " + std::string(name);
  if (!found->unavailable.empty()) return found->name + ": " + found->unavailable;
  if (permits(*found)) return {};
  return "changes of " + found->name + " are not permitted (" + (is_script() ? "--" : "tune.") +
         "allow: " + found->risk + " or " + found->name + ")";
}

inline std::string Situation::obstacle(std::string_view name, const std::string& choice) const {
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
inline bool is_same_but(const Json& a, const Json& b, std::string_view left_out) {
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

inline bool Situation::is_against_incumbent(const Trial& trial, std::string_view except) const {
  if (trial.reference == nullptr || trial.reference->empty()) return true;
  return detail::is_same_but(*trial.reference, section("incumbent"), except);
}

inline bool Situation::has_lost(const Json& change) const {
  return std::ranges::any_of(trials_of("trials", &change), [&](const Trial& trial) {
    return (trial.is_rejected() || trial.is_failed()) && is_against_incumbent(trial);
  });
}

inline double Situation::expected_gain(const Json& change, double predicted) const {
  for (const Trial& trial : trials_of("history", &change)) {
    const bool is_told = trial.reference != nullptr && !trial.reference->empty();
    const bool is_same = trial.ratio > 0.0 && is_told && is_against_incumbent(trial);
    if (is_same) predicted = std::max(1.0, trial.ratio);
  }
  return predicted;
}

inline std::shared_ptr<const Json> Situation::shared(const detail::JsonPart& part) const {
  const std::string_view text = text_;
  for (const Reference& known : references_) {
    if (known.part.size == part.size && part.size > 0 &&
        text.substr(known.part.begin, part.size) == text.substr(part.begin, part.size))
      return known.json;
  }
  references_.push_back({part, std::make_shared<const Json>(parsed(part))});
  return references_.back().json;
}

inline std::shared_ptr<const Json> Situation::shared(const Json& reference) const {
  for (const Reference& known : references_) {
    if (*known.json == reference) return known.json;
  }
  references_.push_back({{}, std::make_shared<const Json>(reference)});
  return references_.back().json;
}

inline const std::vector<Situation::Listed>& Situation::listed(std::string_view name) const {
  if (const auto known = listed_.find(name); known != listed_.end()) return known->second;
  std::vector<Listed> list;
  if (const detail::JsonPart* const part = unread(name); part != nullptr) {
    if (text_[part->begin] == '[') {
      for (const detail::JsonPart& one : detail::json_parts(text_, part->begin)) {
        list.push_back({Json(), list.size(), one});
        for (const detail::JsonPart& field : parts_at(one.begin)) {
          if (field.name == "change") list.back().change = parsed(field);
        }
      }
    }
  } else if (const Json& section_of = section(name); section_of.is_array()) {
    for (const Json& json : section_of)
      list.push_back({member(json, "change"), list.size(), {}});
  }
  return listed_.emplace(name, std::move(list)).first->second;
}

inline Trial Situation::read_trial(std::string_view name, const Listed& one) const {
  const bool is_text = one.part.size > 0;
  const Json* const json = is_text ? nullptr : &section(name)[one.index];
  const auto field = [&](std::string_view field_name) -> Json {
    if (!is_text) return member(*json, field_name);
    for (const detail::JsonPart& part : parts_at(one.part.begin)) {
      if (part.name == field_name) return parsed(part);
    }
    return {};
  };
  const auto number = [&](const char* field_name) {
    return as<double>(field(field_name)).value_or(0.0);
  };
  Trial trial{.reference = nullptr,
              .verdict = as<std::string>(field("verdict")).value_or(""),
              .failure = as<std::string>(field("failure")).value_or(""),
              .ratio = number("ratio"),
              .ratio_low = number("ratio_low"),
              .ratio_high = number("ratio_high"),
              .candidate_samples_per_second = number("candidate_samples_per_second"),
              .peak_memory_bytes = as<std::int64_t>(field("peak_memory_bytes")).value_or(0)};
  if (one.change.is_object()) trial.change = one.change;
  if (!is_text) {
    if (const Json& reference = member(*json, "reference"); reference.is_object()) {
      trial.reference = shared(reference);
    }
    return trial;
  }
  for (const detail::JsonPart& part : parts_at(one.part.begin)) {
    if (part.name == "reference" && text_[part.begin] == '{') trial.reference = shared(part);
  }
  return trial;
}

inline std::vector<Trial> Situation::trials_of(std::string_view name, const Json* change) const {
  std::vector<Trial> trials;
  for (const Listed& one : listed(name)) {
    if (change == nullptr || one.change == *change) trials.push_back(read_trial(name, one));
  }
  return trials;
}

}  // namespace autotuned::sdk
