// SPDX-License-Identifier: Apache-2.0
// Decimal commas: in a map in braces, YAML takes the text after a comma for the next key.
#include "base/utf8.hpp"
#include "recipes/checker.hpp"
#include "recipes/scalars.hpp"

namespace autotuned::recipes {

bool Checker::report_decimal_comma(const YamlNode& map, const YamlEntry& entry,
                                   const std::string& where) {
  if (entry.value.kind != YamlNode::Kind::null) return false;
  const YamlEntry* before = nullptr;
  for (const YamlEntry& one : map.entries) {
    if (one.key.line == entry.key.line && one.key.column == entry.key.column) break;
    before = &one;
  }
  if (before == nullptr || before->value.kind != YamlNode::Kind::scalar) return false;
  const auto number = without_decimal_comma(before->value.scalar + "," + entry.key.scalar);
  if (!number) return false;
  const std::string key = (where.empty() ? "" : where + ".") + before->key.scalar;
  report(before->value, key + ": a comma in braces ends the value, so YAML reads " +
                            quote_for_message(before->value.scalar) + " and a key " +
                            quote_for_message(entry.key.scalar) + "; write a point: " + *number);
  return true;
}

}  // namespace autotuned::recipes
