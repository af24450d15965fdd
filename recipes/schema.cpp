// SPDX-License-Identifier: Apache-2.0
// The table of fields as a reference for people and as JSON Schema for editors.
#include "recipes/schema.hpp"

#include <algorithm>
#include <cmath>

#include "base/machine/machine.hpp"
#include "recipes/knobs.hpp"
#include "recipes/schema_table.hpp"

namespace autotuned::recipes {
namespace {

// --- for people -----------------------------------------------------------------------------------

constexpr std::size_t kColumns = 100;

// Adds a paragraph whose lines all start with `indent`.
void add_paragraph(std::string_view words, const std::string& indent, std::string& text) {
  while (!words.empty()) {
    const std::size_t room = kColumns - indent.size();
    std::size_t length = words.size();
    if (length > room) length = std::min(words.rfind(' ', room), length);
    text += indent + std::string(words.substr(0, length)) + "\n";
    words.remove_prefix(std::min(length + 1, words.size()));
  }
}

void describe(const Field& field, const std::string& indent, std::string& text) {
  text += indent + std::string(field.key) + ": " + field.expected();
  if (field.is_required) {
    text += "; required";
  } else if (!field.default_in_words.empty()) {
    text += "; default: " + std::string(field.default_in_words);
  } else if (field.type != FieldType::map) {
    text += "; default " + std::string(field.default_text);
  }
  if (!field.unit.empty()) text += "; in " + std::string(field.unit);
  text += "\n";
  add_paragraph(field.summary, indent + "    ", text);
  for (const Field& inner : field.fields)
    describe(inner, indent + "  ", text);
}

void describe(const std::vector<Variant>& variants, const std::string& heading, std::string& text) {
  text += "\n" + heading + "\n";
  for (const Variant& variant : variants) {
    text += "\n  " + variant.name + "\n";
    add_paragraph(variant.summary, "      ", text);
    for (const Field& field : variant.fields)
      describe(field, "    ", text);
  }
}

// --- for editors ----------------------------------------------------------------------------------

Json schema_of(const Field& field);

Json object_schema(const std::vector<Field>& fields) {
  Json properties = Json::object();
  Json required = Json::array();
  for (const Field& field : fields) {
    const std::string key(field.key);
    properties[key] = schema_of(field);
    if (field.is_required) required.push_back(key);
  }
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

Json typed_schema(const std::vector<Variant>& variants) {
  Json alternatives = Json::array();
  for (const Variant& variant : variants) {
    Json schema = object_schema(variant.fields);
    schema["description"] = variant.summary;
    schema["properties"]["type"] = {{"const", variant.name}};
    if (variant.is_plugin) {
      schema["additionalProperties"] = variant.has_parameters;
      if (!variant.has_parameters) schema["minProperties"] = 1;  // its type or its name
    } else {
      schema["required"].push_back("type");
    }
    alternatives.push_back(std::move(schema));
  }
  return {{"oneOf", std::move(alternatives)}};
}

Json transforms_schema(const std::vector<Variant>& variants) {
  Json alternatives = Json::array();
  for (const Variant& variant : variants) {
    Json parameters = object_schema(variant.fields);
    const bool needs_parameters = !parameters["required"].empty();
    if (!needs_parameters) alternatives.push_back({{"const", variant.name}});
    alternatives.push_back({{"type", "object"},
                            {"description", variant.summary},
                            {"properties", {{variant.name, std::move(parameters)}}},
                            {"required", Json::array({variant.name})},
                            {"additionalProperties", false}});
  }
  return {{"type", "array"}, {"items", {{"oneOf", std::move(alternatives)}}}};
}

Json knobs_schema() {
  const Json value{{"type", Json::array({"boolean", "integer", "number", "string"})}};
  Json properties = Json::object();
  for (const Knob& knob : knobs_of(Machine{})) {
    if (knob.name == "batch_size") continue;  // belongs to train.batch_size
    properties[knob.name] = value;
    properties[knob.name]["description"] = knob.summary;
  }
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"patternProperties", {{"^env\\.[A-Z0-9_]+$", value}}},
          {"additionalProperties", false}};
}

Json numeric_schema(const Field& field, const char* type) {
  Json schema{{"type", type}};
  const Range& range = field.range;
  const auto limit = [&](const char* name, double value) {
    if (!std::isfinite(value)) return;
    if (field.type == FieldType::integer) {
      schema[name] = std::llround(value);
    } else {
      schema[name] = value;
    }
  };
  limit(range.open_minimum ? "exclusiveMinimum" : "minimum", range.minimum);
  limit(range.open_maximum ? "exclusiveMaximum" : "maximum", range.maximum);
  return schema;
}

Json one_of(Json first, Json second) {
  return {{"anyOf", Json::array({std::move(first), std::move(second)})}};
}

Json text_schema(const char* pattern) {
  return {{"type", "string"}, {"pattern", pattern}};
}

Json single_schema(const Field& field) {
  switch (field.type) {
    case FieldType::boolean:
      return {{"type", "boolean"}};
    case FieldType::integer:
      return numeric_schema(field, "integer");
    case FieldType::number:
      return one_of(numeric_schema(field, "number"), text_schema("^-?[0-9.]+/[0-9.]+$"));
    case FieldType::choice:
      return {{"enum", field.choices}};
    case FieldType::device:
      return text_schema("^(auto|cpu|cuda(:[0-9]+)?)$");
    case FieldType::duration:
      return text_schema("^([0-9.]+ *(h|min|s|ms|us|ns) *)+$");
    case FieldType::ratio:
      return one_of(numeric_schema(field, "number"), text_schema("^[0-9.]+ *%$"));
    case FieldType::memory:
      return one_of({{"type", "number"}, {"exclusiveMinimum", 0}},
                    text_schema("^[0-9.]+ *(%|B|KiB|MiB|GiB|TiB)$"));
    case FieldType::map:
      return object_schema(field.fields);
    case FieldType::typed:
      if (field.may_be_name) {
        return one_of({{"enum", names_of(*field.variants)}}, typed_schema(*field.variants));
      }
      return typed_schema(*field.variants);
    case FieldType::transforms:
      return transforms_schema(*field.variants);
    case FieldType::knobs:
      return knobs_schema();
    case FieldType::text:
    case FieldType::name:
    case FieldType::path:
    case FieldType::files:
    case FieldType::folder:
      break;
  }
  return {{"type", "string"}, {"minLength", 1}};
}

Json schema_of(const Field& field) {
  Json schema = single_schema(field);
  if (field.shape != Shape::single) {
    Json list{{"type", "array"}, {"items", schema}};
    if (field.length > 0) list["minItems"] = list["maxItems"] = field.length;
    if (field.shape == Shape::single_or_list && field.length == 0) list["minItems"] = 1;
    schema = field.shape == Shape::list ? list : one_of(std::move(schema), list);
    if (!field.keyword.empty()) schema = one_of({{"const", field.keyword}}, std::move(schema));
  }
  std::string description(field.summary);
  if (!field.unit.empty()) description += " In " + std::string(field.unit) + ".";
  if (!field.default_text.empty()) {
    description += " Default: " + std::string(field.default_text) + ".";
  } else if (!field.default_in_words.empty()) {
    description += " Default: " + std::string(field.default_in_words) + ".";
  }
  schema["description"] = std::move(description);
  return schema;
}

}  // namespace

std::string schema_text() {
  std::string text;
  const std::vector<Field>& fields = recipe_field().fields;
  for (const Field& field : fields)
    describe(field, "", text);
  for (const Field& field : fields) {
    if (field.variants == nullptr) continue;
    const bool is_list = field.type == FieldType::transforms;
    describe(*field.variants,
             (is_list ? "Transforms of " : "Types of ") + std::string(field.key) + ":", text);
  }
  return text;
}

Json schema_json() {
  Json schema = schema_of(recipe_field());
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "autotuned recipe";
  // Exactly one of the two is required, which a list of required keys cannot express.
  schema["properties"]["train"]["oneOf"] = Json::array(
      {{{"required", Json::array({"epochs"})}}, {{"required", Json::array({"steps"})}}});
  return schema;
}

}  // namespace autotuned::recipes
