// SPDX-License-Identifier: Apache-2.0
#include "tests/recipes/samples.hpp"

#include <gtest/gtest.h>

namespace autotuned::recipes {

constexpr std::string_view kQuickRecipe =
    "autotuned: 1\n"
    "name: quick\n"
    "model: {type: mlp, hidden: 16, classes: 4}\n"
    "data: {type: synthetic, samples: 64, shape: [1, 8, 8], classes: 4}\n"
    "input:\n"
    "  - scale: {by: 1/255}\n"
    "optimizer: {type: sgd, lr: 0.1}\n"
    "train: {epochs: 1, batch_size: 8}\n";

Machine sample_machine() {
  Machine machine;
  machine.cpus_allowed = 8;
  machine.physical_cores = 4;
  machine.gpu_reason = "no NVIDIA driver";
  return machine;
}

const std::vector<Knob>& sample_knobs() {
  static const std::vector<Knob> knobs = knobs_of(sample_machine());
  return knobs;
}

std::string changed(std::string_view text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string_view::npos) << from;
  EXPECT_EQ(text.find(from, at + 1), std::string_view::npos) << from;
  std::string result(text);
  return result.replace(at, from.size(), to);
}

Recipe right(std::string_view text) {
  auto recipe = parse_recipe(text, "recipe.yaml", sample_knobs());
  if (recipe) return *recipe;
  for (const Diagnostic& problem : recipe.error())
    ADD_FAILURE() << problem.text();
  return {};
}

std::vector<std::string> problems(std::string_view text) {
  std::vector<std::string> texts;
  const auto recipe = parse_recipe(text, "recipe.yaml", sample_knobs());
  if (recipe) return texts;
  for (const Diagnostic& problem : recipe.error())
    texts.push_back(problem.text());
  EXPECT_FALSE(texts.empty());
  return texts;
}

void WrongRecipes::add(const std::string& given, std::string_view text) {
  const std::vector<std::string> found = problems(text);
  EXPECT_FALSE(found.empty()) << given;
  told_ += given + "\n";
  for (const std::string& problem : found)
    told_ += "  " + problem + "\n";
}

}  // namespace autotuned::recipes
