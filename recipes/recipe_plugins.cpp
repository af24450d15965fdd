// SPDX-License-Identifier: Apache-2.0
#include "recipes/recipe_plugins.hpp"

#include <algorithm>

#include "base/utf8.hpp"
#include "recipes/checker.hpp"

namespace autotuned::recipes {

std::vector<Diagnostic> unknown_plugins(std::string_view text, const std::filesystem::path& file,
                                        const std::vector<std::string>& known) {
  const YamlReading reading = read_as_far_as_possible(text, file.string());
  std::vector<Diagnostic> problems;
  const YamlNode* tune = reading.root ? reading.root->find("tune") : nullptr;
  const YamlNode* list = tune != nullptr ? tune->find("plugins") : nullptr;
  if (list == nullptr) return problems;
  Checker checker(file.string(), "/", problems);
  for (const YamlNode& item : list->items) {
    if (item.kind != YamlNode::Kind::scalar || item.scalar.empty()) continue;
    if (std::ranges::find(known, item.scalar) != known.end()) continue;
    checker.report(item, "tune.plugins: there is no plugin " + quote_for_message(item.scalar) +
                             checker.suggestion(item.scalar, known));
  }
  return problems;
}

}  // namespace autotuned::recipes
