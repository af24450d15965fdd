// SPDX-License-Identifier: Apache-2.0
#include "daemon/recipe_reading.hpp"

#include <iostream>

namespace autotuned::daemon {

std::optional<recipes::Recipe> read_recipe_or_report(const std::filesystem::path& file,
                                                     const std::vector<recipes::Knob>& knobs,
                                                     bool as_json) {
  auto recipe = recipes::read_recipe(file, knobs);
  if (recipe) return std::move(*recipe);
  Json list = Json::array();
  for (const recipes::Diagnostic& diagnostic : recipe.error()) {
    if (as_json) {
      list.push_back({{"file", diagnostic.file},
                      {"line", diagnostic.line},
                      {"column", diagnostic.column},
                      {"message", diagnostic.message}});
    } else {
      std::cerr << diagnostic.text() << "\n";
    }
  }
  if (as_json) std::cout << to_line({{"ok", false}, {"diagnostics", list}}) << "\n";
  return std::nullopt;
}

}  // namespace autotuned::daemon
