// SPDX-License-Identifier: Apache-2.0
// Finds where in a recipe a key belongs, for a message about a key at a wrong place.
#include <algorithm>

#include "recipes/schema.hpp"
#include "recipes/schema_table.hpp"

namespace autotuned::recipes {
namespace {

constexpr std::size_t kMaxPaths = 4;

void collect(const std::vector<Field>& fields, const std::string& where, std::string_view key,
             std::vector<std::string>& found) {
  for (const Field& field : fields) {
    const std::string path = (where.empty() ? "" : where + ".") + std::string(field.key);
    if ((field.key == key || path == key) && found.size() < kMaxPaths &&
        std::ranges::find(found, path) == found.end()) {
      found.push_back(path);
    }
    collect(field.fields, path, key, found);
    // Transforms are a list, so their keys have no path of their own.
    if (field.type != FieldType::typed) continue;
    for (const Variant& variant : *field.variants)
      collect(variant.fields, path, key, found);
  }
}

}  // namespace

std::vector<std::string> paths_of_key(std::string_view key) {
  std::vector<std::string> found;
  collect(recipe_field().fields, "", key, found);
  return found;
}

}  // namespace autotuned::recipes
