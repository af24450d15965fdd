// SPDX-License-Identifier: Apache-2.0
#include "daemon/scripts/script_knobs.hpp"

#include <algorithm>
#include <utility>

namespace autotuned::daemon {
namespace {

tl::unexpected<Error> wrong(const std::string& name, const std::string& what) {
  return fail(ErrorKind::invalid, "the script's knob '" + name + "' " + what);
}

// In the form of Knob::to_json().
Result<recipes::Knob> knob_from(const Json& told) {
  recipes::Knob knob;
  const auto text = [&](const char* field) { return get_string(told, field).value_or(""); };
  knob.name = text("name");
  if (knob.name.empty()) return fail(ErrorKind::invalid, "a knob of the script has no name");
  const auto type = recipes::knob_type_from(text("type"));
  const auto risk = recipes::risk_class_from(text("risk"));
  if (!type) return wrong(knob.name, "has no type that is known");
  if (!risk) return wrong(knob.name, "has no risk class that is known");
  knob.type = *type;
  knob.risk = *risk;
  knob.minimum = get_integer(told, "minimum").value_or(0);
  knob.maximum = get_integer(told, "maximum").value_or(0);
  for (const Json& choice : member(told, "choices")) {
    if (choice.is_string()) knob.choices.push_back(choice.get<std::string>());
  }
  auto value = knob_value_from(member(told, "default"));
  if (!value) return wrong(knob.name, "has no default");
  knob.default_value = *std::move(value);
  knob.unit = text("unit");
  knob.how = text("switch") == recipes::to_string(recipes::KnobSwitch::restart)
                 ? recipes::KnobSwitch::restart
                 : recipes::KnobSwitch::live;
  knob.warmup_steps = static_cast<int>(
      std::clamp<std::int64_t>(get_integer(told, "warmup_steps").value_or(1), 0, 100));
  knob.one_time_cost = text("one_time_cost");
  knob.unavailable = text("unavailable");
  const Json& reasons = member(told, "unavailable_choices");
  if (reasons.is_object()) {
    for (const auto& [choice, reason] : reasons.items()) {
      knob.unavailable_choices[choice] =
          reason.is_string() ? reason.get<std::string>() : std::string("cannot be had here");
    }
  }
  knob.summary = text("summary");
  if (auto checked = recipes::check_value(knob, knob.default_value); !checked) {
    return wrong(knob.name, "has a default that it cannot have: " + checked.error().message());
  }
  return knob;
}

}  // namespace

ScriptKnobs script_knobs(const Json& facts) {
  ScriptKnobs found;
  for (const Json& told : member(facts, "knobs")) {
    auto knob = knob_from(told);
    if (!knob) {
      found.notes.push_back(knob.error().message());
      continue;
    }
    if (knob->how == recipes::KnobSwitch::restart) continue;
    if (recipes::find_knob(found.knobs, knob->name)) continue;
    found.knobs.push_back(*std::move(knob));
  }
  std::ranges::sort(found.knobs, {}, &recipes::Knob::name);
  const Json& own = member(facts, "configuration");
  for (const recipes::Knob& knob : found.knobs) {
    const auto value = knob_value_from(member(own, knob.name.c_str()));
    const bool is_told = value && recipes::check_value(knob, *value);
    found.starting.set(knob.name, is_told ? *value : knob.default_value);
  }
  return found;
}

}  // namespace autotuned::daemon
