// SPDX-License-Identifier: Apache-2.0
// A small recipe, the knobs of an imagined machine, and short ways to read recipes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/machine/machine.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::recipes {

// Valid, without files.
extern const std::string_view kQuickRecipe;

// Eight CPUs on four cores, no GPU.
[[nodiscard]] Machine sample_machine();
[[nodiscard]] const std::vector<Knob>& sample_knobs();

// `text` with the only occurrence of `from` replaced.
[[nodiscard]] std::string changed(std::string_view text, std::string_view from,
                                  std::string_view to);

// As if it came from ./recipe.yaml: the recipe, which must be right, or every diagnostic as text.
[[nodiscard]] Recipe right(std::string_view text);
[[nodiscard]] std::vector<std::string> problems(std::string_view text);

// Recipes that are wrong, and what is said of them, for a golden file.
class WrongRecipes {
 public:
  void add(const std::string& given, std::string_view text);
  [[nodiscard]] const std::string& told() const { return told_; }

 private:
  std::string told_;
};

}  // namespace autotuned::recipes
