// SPDX-License-Identifier: Apache-2.0
// The part of the checker that reads the parameters of a plugin, which the schema does not know.
#include <algorithm>
#include <utility>

#include "recipes/checker.hpp"
#include "recipes/scalars.hpp"

namespace autotuned::recipes {
namespace {

// Converts a value by its looks: a quoted scalar is text; another one is a boolean or a number if it can be read as one.
Json value_of(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return {};
    case YamlNode::Kind::sequence: {
      Json list = Json::array();
      for (const YamlNode& item : node.items)
        list.push_back(value_of(item));
      return list;
    }
    case YamlNode::Kind::map: {
      Json map = Json::object();
      for (const auto& [key, value] : node.entries)
        map[key.scalar] = value_of(value);
      return map;
    }
    case YamlNode::Kind::scalar:
      break;
  }
  if (!node.is_quoted) {
    if (const auto flag = read_boolean(node.scalar)) return *flag;
    if (const auto integer = read_integer(node.scalar)) return *integer;
    if (const auto number = read_number(node.scalar)) return *number;
  }
  return node.scalar;
}

}  // namespace

Json Checker::check_plugin(const Variant& variant, const YamlNode& node, const std::string& where) {
  YamlNode ours = node;
  Json parameters = Json::object();
  std::erase_if(ours.entries, [&](const YamlEntry& entry) {
    const std::string& key = entry.key.scalar;
    if (key == "type") return true;
    if (!variant.has_parameters || find_field(variant.fields, key) != nullptr) return false;
    parameters[key] = value_of(entry.value);
    return true;
  });
  Json values = check_map(variant.fields, variant.rule, ours, where, false);
  const YamlNode* name = node.find(kPluginType);
  values["type"] = kPluginType;
  if (variant.has_parameters) {
    values["parameters"] = std::move(parameters);
  } else if (name == nullptr) {
    return values;  // the plugin is named by another part of the recipe
  }
  values["line"] = name != nullptr ? name->line : node.line;
  values["column"] = name != nullptr ? name->column : node.column;
  return values;
}

}  // namespace autotuned::recipes
