// SPDX-License-Identifier: Apache-2.0
// Whatever a file holds, reading it ends in a recipe or in diagnostics. The sanitizers of the asan
// preset watch what the assertions cannot see. Deterministic: a failure names its round.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include "recipes/recipe_yaml.hpp"
#include "tests/places.hpp"
#include "tests/recipes/samples.hpp"

namespace autotuned::recipes {
namespace {

constexpr int kRounds = 4000;

// Pieces that have meaning to YAML or to a recipe.
constexpr std::string_view kPieces[] = {
    "*a",       "&a ",        "!!str ", "!x ",     "---\n",     "...\n",     "? ",
    ": ",       "- ",         "[",      "]",       "{",         "}",         ",",
    "\n",       "\n  ",       "\t",     "#",       "'",         "\"",        "|\n",
    ">-\n",     "\\x00",      "\\u",    "%YAML",   "%TAG ! x:", "<<: ",      "~",
    "null",     "1e3",        "-1",     "0/0",     "1e999",     "nan",       "99999999999999999999",
    "0x1",      "10min",      "100%",   "6GiB",    "type",      "type: idx", "epochs",
    "steps: 1", "batch_size", "start",  "env.A: ", "auto",      "\xff",      "\xc3",
    "ü",        "\r",         "true",   "exact",   "numerics",  "allow: [",  "loader.workers: 1",
    "/",
};

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  std::string mutate(std::string text) {
    for (std::size_t changes = 1 + below(8); changes > 0; --changes)
      change_once(text);
    return text;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  void change_once(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = std::min(below(20), text.size() - at);
    switch (below(6)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      case 2:
        text.replace(at, length, kPieces[below(std::size(kPieces))]);
        break;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 4:
        text.insert(below(text.size() + 1), text.substr(at, length));
        break;
      default: {
        const std::string_view piece = kPieces[below(std::size(kPieces))];
        for (std::size_t i = below(60); i > 0; --i)
          text.insert(at, piece);
      }
    }
  }

  std::minstd_rand random_;
};

void read(const std::string& text) {
  const auto recipe = parse_recipe(text, "recipe.yaml", sample_knobs());
  if (recipe) {
    // What was accepted holds together: it survives both ways of writing it.
    const Json json = recipe->to_json();
    ASSERT_EQ(Recipe::from_json(json).value().to_json(), json) << text;
    const auto again = parse_recipe(to_yaml(*recipe, ""), "recipe.yaml", sample_knobs());
    ASSERT_TRUE(again) << text << to_yaml(*recipe, "") << again.error().front().text();
    ASSERT_EQ(again->to_json(), json) << text;
    return;
  }
  ASSERT_FALSE(recipe.error().empty()) << text;
  ASSERT_LE(recipe.error().size(), 200U) << text;
  for (const Diagnostic& problem : recipe.error()) {
    ASSERT_FALSE(problem.message.empty()) << text;
    ASSERT_GE(problem.line, 0) << text;
    ASSERT_LE(problem.message.size(), 1000U) << problem.text();
    ASSERT_TRUE(std::ranges::none_of(problem.message, [](char c) {
      return static_cast<unsigned char>(c) < 0x20;
    })) << problem.text();
  }
}

std::string main_job() {
  std::ifstream file(tests::source_folder() / "recipes/fashion_cnn.yaml");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(RecipeFuzz, MutatedRecipesEndInARecipeOrInDiagnostics) {
  const std::string seeds[] = {std::string(kQuickRecipe), main_job()};
  for (const std::string& seed : seeds)
    ASSERT_FALSE(seed.empty());
  for (unsigned round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    read(Mutator(round + 1).mutate(seeds[round % std::size(seeds)]));
    if (HasFatalFailure()) return;
  }
}

TEST(RecipeFuzz, EveryBeginningOfARecipe) {
  const std::string text = main_job();
  for (std::size_t length = 0; length < text.size(); length += 3) {
    SCOPED_TRACE(length);
    read(text.substr(0, length));
    if (HasFatalFailure()) return;
  }
}

TEST(RecipeFuzz, JsonOfAnotherProgram) {
  const std::string text =
      to_line(parse_recipe(kQuickRecipe, "recipe.yaml", sample_knobs()).value().to_json());
  for (unsigned round = 0; round < kRounds; ++round) {
    const auto json = parse_json(Mutator(round + 1).mutate(text), "mutated");
    if (!json) continue;
    if (const auto recipe = Recipe::from_json(*json)) {
      EXPECT_EQ(recipe->hash().size(), 16U) << round;
    }
  }
}

}  // namespace
}  // namespace autotuned::recipes
