// SPDX-License-Identifier: Apache-2.0
// The part of the checker that chooses among named types.
#include "base/utf8.hpp"
#include "recipes/checker.hpp"

namespace autotuned::recipes {

const Variant* Checker::variant_of(const Field& field, const YamlNode& name,
                                   const std::string& where) {
  const Variant* variant = find_variant(*field.variants, name.scalar);
  if (variant == nullptr) {
    const std::vector<std::string> known = names_of(*field.variants);
    report(name, where + ": unknown type " + quote_for_message(name.scalar) +
                     suggestion(name.scalar, known));
  }
  return variant;
}

std::optional<Json> Checker::check_typed(const Field& field, const YamlNode& node,
                                         const std::string& where) {
  const std::string known = joined(names_of(*field.variants));
  if (field.may_be_name && node.kind == YamlNode::Kind::scalar) {
    YamlNode map{.kind = YamlNode::Kind::map, .line = node.line, .column = node.column};
    map.entries.push_back({YamlNode{.kind = YamlNode::Kind::scalar, .scalar = "type"}, node});
    return check_typed(field, map, where);
  }
  if (node.kind != YamlNode::Kind::map) return unexpected(field, node, where);
  const YamlNode* type = node.find("type");
  const Variant* of_plugin = find_variant(*field.variants, kPluginType);
  if (of_plugin != nullptr && of_plugin->is_plugin && node.find(kPluginType) != nullptr &&
      (type == nullptr || type->scalar == kPluginType)) {
    return check_plugin(*of_plugin, node, where);
  }
  if (type == nullptr) {
    report(node, "\"type\" is missing in " + where + ": expected one of " + known);
    return std::nullopt;
  }
  if (type->kind != YamlNode::Kind::scalar) {
    report(*type, where + ".type: expected one of " + known + ", found " + found_text(*type));
    return std::nullopt;
  }
  const Variant* variant = variant_of(field, *type, where);
  if (variant == nullptr) return std::nullopt;
  if (variant->is_plugin) return check_plugin(*variant, node, where);
  Json values = check_map(variant->fields, variant->rule, node, where, true);
  values["type"] = variant->name;
  return values;
}

std::optional<Json> Checker::check_transforms(const Field& field, const YamlNode& node,
                                              const std::string& where) {
  if (node.kind != YamlNode::Kind::sequence) return unexpected(field, node, where);
  Json list = Json::array();
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const YamlNode& item = node.items[i];
    const std::string item_where = where + "[" + std::to_string(i) + "]";
    const bool is_map = item.kind == YamlNode::Kind::map && item.entries.size() == 1;
    if (!is_map && item.kind != YamlNode::Kind::scalar) {
      report(item, item_where + ": expected NAME or NAME: {parameters}, found " +
                       (item.kind == YamlNode::Kind::map
                            ? "a map of " + std::to_string(item.entries.size())
                            : found_text(item)));
      continue;
    }
    const YamlNode& name = is_map ? item.entries.front().key : item;
    const Variant* variant = variant_of(field, name, item_where);
    if (variant == nullptr) continue;

    YamlNode none;
    none.kind = YamlNode::Kind::map;
    none.line = name.line;
    none.column = name.column;
    const YamlNode* parameters = is_map ? &item.entries.front().value : &none;
    if (parameters->kind == YamlNode::Kind::null) parameters = &none;
    const std::string parameters_where = item_where + "." + variant->name;
    if (parameters->kind != YamlNode::Kind::map) {
      report(*parameters, parameters_where + ": expected a map of parameters, found " +
                              found_text(*parameters) + map_remedy(variant->fields, *parameters));
      continue;
    }
    Json values = check_map(variant->fields, variant->rule, *parameters, parameters_where, false);
    values["type"] = variant->name;
    list.push_back(std::move(values));
  }
  return list;
}

}  // namespace autotuned::recipes
