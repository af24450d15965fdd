// SPDX-License-Identifier: Apache-2.0
// Writes a checked recipe in the form that a person would write, by the table of fields.
#include "recipes/recipe_yaml.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "recipes/schema_table.hpp"

namespace autotuned::recipes {
namespace {

// Whether the string needs no quotation marks anywhere in YAML.
bool is_plain(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (text.empty() || !(is_letter(text.front()) || text.front() == '/')) return false;
  if (text == "null" || text == "Null" || text == "NULL") return false;
  return std::ranges::all_of(text, [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '/' || c == '-';
  });
}

// JSON is YAML. The recipe may come from a stranger, and this text is printed on terminals.
std::string quoted_text(const Json& value) {
  return printable_quoted(to_line(value));
}

std::string flow(const Json& value) {
  if (value.is_string() && is_plain(value.get_ref<const std::string&>())) return value;
  if (!value.is_array()) return quoted_text(value);
  std::string items;
  for (const Json& item : value)
    items += (items.empty() ? "" : ", ") + flow(item);
  return "[" + items + "]";
}

// A value whose type follows only from its looks, so text is always quoted.
std::string untyped(const Json& value) {
  if (!value.is_structured()) return quoted_text(value);
  std::string text;
  for (const auto& [key, item] : value.items()) {
    text += (text.empty() ? "" : ", ") +
            (value.is_object() ? quoted_text(key) + ": " : std::string()) + untyped(item);
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

// A share is written without an exponent.
std::string share_text(double ratio) {
  if (ratio == 1) return "100%";
  std::array<char, 512> buffer;
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), ratio, std::chars_format::fixed);
  assert(error == std::errc{});
  return {buffer.data(), end};
}

std::string scalar_text(const Field& field, const Json& value) {
  if (field.type == FieldType::duration) {
    return format_exact_duration(std::chrono::nanoseconds(value.get<std::int64_t>()));
  }
  if (field.type == FieldType::ratio) return share_text(value);
  return flow(value);
}

// `key: value` for every field that has a value, each behind `separator`.
std::string flow_fields(const std::vector<Field>& fields, const Json& values,
                        const std::string& separator) {
  std::string text;
  for (const Field& field : fields) {
    const Json& value = member(values, field.checked_key().c_str());
    if (value.is_null()) continue;
    text += separator + std::string(field.key) + ": " + scalar_text(field, value);
  }
  return text;
}

std::string typed_text(const Field& field, const Json& value) {
  const Variant* variant = find_variant(*field.variants, value.at("type").get<std::string>());
  assert(variant != nullptr);
  if (variant->is_plugin) {
    std::string text = flow_fields(variant->fields, value, ", ");
    for (const auto& [key, parameter] : member(value, "parameters").items())
      text += ", " + quoted_text(key) + ": " + untyped(parameter);
    return "{" + text.substr(2) + "}";
  }
  return "{type: " + variant->name + flow_fields(variant->fields, value, ", ") + "}";
}

std::string transforms_text(const Field& field, const Json& list, const std::string& indent) {
  std::string text;
  for (const Json& value : list) {
    const Variant* variant = find_variant(*field.variants, value.at("type").get<std::string>());
    assert(variant != nullptr);
    std::string parameters = flow_fields(variant->fields, value, ", ");
    text += "\n" + indent + "  - " + variant->name;
    if (!parameters.empty()) text += ": {" + parameters.substr(2) + "}";
  }
  return text.empty() ? " []" : text;
}

std::string knobs_text(const Json& values, const std::string& indent) {
  std::string text;
  for (const auto& [name, value] : values.items()) {
    text += "\n" + indent + "  " + name + ": ";
    text += value.is_boolean() ? (value == true ? "on" : "off") : flow(value);
  }
  return text.empty() ? " {}" : text;
}

std::string block(const std::vector<Field>& fields, const Json& values, const std::string& indent) {
  std::string text;
  for (const Field& field : fields) {
    const std::string key(field.key);
    const std::string head = "\n" + indent + key + ":";
    if (field.type == FieldType::memory) {
      const Json& bytes = member(values, (key + "_bytes").c_str());
      const Json& ratio = member(values, (key + "_ratio").c_str());
      text += head + " " + (bytes.is_null() ? share_text(ratio) : flow(bytes));
      continue;
    }
    const Json& value = member(values, field.checked_key().c_str());
    if (value.is_null()) continue;
    text += head;
    switch (field.type) {
      case FieldType::map:
        text += block(field.fields, value, indent + "  ");
        break;
      case FieldType::typed:
        text += " " + (value.is_string() ? flow(value) : typed_text(field, value));
        break;
      case FieldType::transforms:
        text += transforms_text(field, value, indent);
        break;
      case FieldType::knobs:
        text += knobs_text(value, indent);
        break;
      default:
        text += " " + scalar_text(field, value);
    }
  }
  return text;
}

}  // namespace

Recipe with_configuration(const Recipe& recipe, const Configuration& best,
                          const std::vector<Knob>& knobs) {
  Recipe result = recipe;
  if (best.find("batch_size") != nullptr) {
    const std::int64_t batch_size = best.integer("batch_size");
    result.optimizer.parameters["lr"] = recipe.learning_rate_at(batch_size);
    result.train.batch_size = batch_size;
    if (recipe.train.steps) {
      const std::int64_t samples = *recipe.train.steps * recipe.train.batch_size;
      result.train.steps = (samples + batch_size - 1) / batch_size;
    }
    if (recipe.save_every_steps) {
      const std::int64_t samples = *recipe.save_every_steps * recipe.train.batch_size;
      result.save_every_steps = (samples + batch_size - 1) / batch_size;
    }
    // A warm-up keeps its number of samples, too.
    if (const auto steps = get_integer(recipe.schedule.parameters, "warmup_steps")) {
      const std::int64_t samples = *steps * recipe.train.batch_size;
      result.schedule.parameters["warmup_steps"] = (samples + batch_size - 1) / batch_size;
    }
  }
  result.start = Configuration();
  for (const auto& [name, value] : best.values()) {
    const std::optional<Knob> knob = find_knob(knobs, name);
    if (name == "batch_size" || (knob && value == knob->default_value)) continue;
    result.start.set(name, value);
  }
  return result;
}

std::string to_yaml(const Recipe& recipe, const std::string& comment) {
  std::string text;
  for (std::size_t start = 0; start < comment.size();) {
    const std::size_t end = std::min(comment.find('\n', start), comment.size());
    text += "# " + printable(comment.substr(start, end - start)) + "\n";
    start = end + 1;
  }
  const std::string fields = block(recipe_field().fields, recipe.to_json(), "");
  return text + fields.substr(1) + "\n";
}

}  // namespace autotuned::recipes
