// SPDX-License-Identifier: Apache-2.0
#include "recipes/knob_json.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace autotuned::recipes {
namespace {

constexpr std::int64_t kMaxWarmupSteps = 100;

tl::unexpected<Error> wrong(const Knob& knob, const std::string& what) {
  return fail(ErrorKind::invalid, "knob '" + knob.name + "': " + what);
}

// Refuses fields that do not belong to a knob of this type.
Result<void> check_fields(const Knob& knob, const Json& value) {
  constexpr std::array<std::string_view, 7> kCommon = {"name", "type",    "risk",        "switch",
                                                       "unit", "summary", "warmup_steps"};
  const auto is_known = [&](std::string_view field) {
    if (std::ranges::find(kCommon, field) != kCommon.end() || field == "default") return true;
    if (knob.type == KnobType::integer) return field == "minimum" || field == "maximum";
    return knob.type == KnobType::choice && field == "choices";
  };
  for (const auto& [field, unused] : value.items()) {
    if (!is_known(field)) return wrong(knob, "unknown field '" + field + "'");
  }
  return {};
}

Result<void> read_domain(const Json& value, Knob& knob) {
  const Json& by_default = member(value, "default");
  if (knob.type == KnobType::boolean) {
    if (!by_default.is_null() && by_default != false) return wrong(knob, "default: expected false");
    knob.default_value = false;
    return {};
  }
  if (knob.type == KnobType::integer) {
    const auto minimum = get_integer(value, "minimum");
    const auto maximum = get_integer(value, "maximum");
    const auto start = get_integer(value, "default");
    for (const auto* one : {&minimum, &maximum, &start}) {
      if (!*one) return wrong(knob, one->error().message());
    }
    if (*minimum > *start || *start > *maximum) {
      return wrong(knob, "expected minimum <= default <= maximum");
    }
    knob.minimum = *minimum;
    knob.maximum = *maximum;
    knob.default_value = *start;
    return {};
  }
  const Json& choices = member(value, "choices");
  const bool is_list =
      choices.is_array() && choices.size() >= 2 && std::ranges::all_of(choices, &Json::is_string);
  if (!is_list) return wrong(knob, "expected choices, a list of two or more texts");
  knob.choices.assign(choices.begin(), choices.end());
  const std::string start =
      by_default.is_string() ? by_default.get<std::string>() : knob.choices.front();
  if (std::ranges::find(knob.choices, start) == knob.choices.end()) {
    return wrong(knob, "default: expected one of the choices");
  }
  knob.default_value = start;
  return {};
}

}  // namespace

Json Knob::to_json() const {
  Json json{{"name", name},
            {"type", to_string(type)},
            {"default", autotuned::to_json(default_value)},
            {"unit", unit},
            {"risk", to_string(risk)},
            {"switch", to_string(how)},
            {"warmup_steps", warmup_steps},
            {"one_time_cost", one_time_cost},
            {"available", unavailable.empty()},
            {"summary", summary}};
  if (type == KnobType::integer) {
    json["minimum"] = minimum;
    json["maximum"] = maximum;
  }
  if (!choices.empty()) json["choices"] = choices;
  if (!unavailable.empty()) json["unavailable"] = unavailable;
  if (!unavailable_choices.empty()) json["unavailable_choices"] = unavailable_choices;
  return json;
}

Result<Knob> knob_from_json(const Json& value) {
  Knob knob;
  auto name = get_string(value, "name");
  if (!name) return fail(ErrorKind::invalid, "a knob: " + name.error().message());
  knob.name = std::move(*name);
  const auto text = [&](const char* field) { return get_string(value, field).value_or(""); };
  const std::string type = text("type");
  if (type == "integer") {
    knob.type = KnobType::integer;
  } else if (type == "choice") {
    knob.type = KnobType::choice;
  } else if (type != "boolean") {
    return wrong(knob, "type: expected boolean, integer or choice, found '" + type + "'");
  }
  const auto risk = risk_class_from(text("risk"));
  if (!risk) {
    return wrong(knob, "risk: expected exact, numerics or semantics, found '" + text("risk") + "'");
  }
  knob.risk = *risk;
  const Json& how = member(value, "switch");
  if (how == "restart") {
    knob.how = KnobSwitch::restart;
  } else if (!how.is_null() && how != "live") {
    return wrong(knob, "switch: expected live or restart");
  }
  knob.summary = text("summary");
  if (knob.summary.empty()) return wrong(knob, "summary: expected one sentence");
  knob.unit = text("unit");
  if (!member(value, "warmup_steps").is_null()) {
    const auto steps = get_integer(value, "warmup_steps");
    if (!steps || *steps < 0 || *steps > kMaxWarmupSteps) {
      return wrong(knob, "warmup_steps: expected an integer from 0 to 100");
    }
    knob.warmup_steps = static_cast<int>(*steps);
  }
  if (auto read = read_domain(value, knob); !read) return tl::unexpected(std::move(read.error()));
  if (auto checked = check_fields(knob, value); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  return knob;
}

}  // namespace autotuned::recipes
