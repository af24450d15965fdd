// SPDX-License-Identifier: Apache-2.0
#include "recipes/key_place.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace autotuned::recipes {
namespace {

const YamlEntry* entry_of(const YamlNode& map, std::string_view key) {
  const auto found = std::ranges::find_if(
      map.entries, [key](const YamlEntry& entry) { return entry.key.scalar == key; });
  return found == map.entries.end() ? nullptr : &*found;
}

// Follows the next step of the path from `node` and returns the node there; null if the recipe does not have it.
const YamlNode* step(const YamlNode*& node, std::string_view& path) {
  if (path.starts_with('[')) {
    const std::size_t end = path.find(']');
    std::size_t index = 0;
    if (end == path.npos) return nullptr;
    std::from_chars(path.data() + 1, path.data() + end, index);
    if (index >= node->items.size()) return nullptr;
    node = &node->items[index];
    path.remove_prefix(end + 1);
    return node;
  }
  if (path.starts_with('.')) path.remove_prefix(1);
  // Names of knobs contain points.
  const std::string_view first = path.substr(0, path.find_first_of(".["));
  for (const std::string_view key : {path, first}) {
    const YamlEntry* const entry = entry_of(*node, key);
    if (entry == nullptr) continue;
    node = &entry->value;
    path.remove_prefix(key.size());
    return &entry->key;
  }
  return nullptr;
}

}  // namespace

Diagnostic diagnostic_at(std::string_view text, const std::string& file, std::string_view key,
                         std::string message) {
  Diagnostic diagnostic{file, 0, 0, std::move(message)};
  const auto root = parse_yaml(text, file);
  if (!root) return diagnostic;
  const YamlNode* node = &*root;
  while (!key.empty()) {
    const YamlNode* const place = step(node, key);
    if (place == nullptr) break;
    diagnostic.line = place->line;
    diagnostic.column = place->column;
  }
  return diagnostic;
}

}  // namespace autotuned::recipes
