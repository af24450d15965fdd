// SPDX-License-Identifier: Apache-2.0
// Recipes: a person's file, or one that a person was sent.
#include <algorithm>
#include <string>
#include <vector>

#include "recipes/knobs.hpp"
#include "recipes/recipe_yaml.hpp"
#include "tests/fuzz/target.hpp"

namespace {

using autotuned::recipes::Diagnostic;

const std::vector<autotuned::recipes::Knob>& knobs() {
  static const auto* const kKnobs = [] {
    autotuned::Machine machine;
    machine.cpus_allowed = 8;
    machine.physical_cores = 4;
    machine.gpu_reason = "no NVIDIA driver";
    return new std::vector(autotuned::recipes::knobs_of(machine));
  }();
  return *kKnobs;
}

bool is_printable(const std::string& text) {
  return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace autotuned;
  using namespace autotuned::recipes;
  const auto recipe = parse_recipe(fuzz::text_of(data, size), "recipe.yaml", knobs());
  if (recipe) {
    // What was accepted holds together: it survives both ways of writing it.
    const Json json = recipe->to_json();
    const auto copy = Recipe::from_json(json);
    FUZZ_CHECK(copy && copy->to_json() == json);
    const auto again = parse_recipe(to_yaml(*recipe, ""), "recipe.yaml", knobs());
    FUZZ_CHECK(again && again->to_json() == json);
    return 0;
  }
  FUZZ_CHECK(!recipe.error().empty() && recipe.error().size() <= 200);
  for (const Diagnostic& problem : recipe.error()) {
    FUZZ_CHECK(!problem.message.empty() && problem.message.size() <= 1000);
    FUZZ_CHECK(problem.line >= 0 && is_printable(problem.message));
  }
  return 0;
}
