// SPDX-License-Identifier: Apache-2.0
#include "recipes/recipe_yaml.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/recipes/samples.hpp"

namespace autotuned::recipes {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

void expect_same_after_writing(const Recipe& recipe) {
  const std::string yaml = to_yaml(recipe, "");
  EXPECT_EQ(right(yaml).to_json(), recipe.to_json()) << yaml;
}

TEST(RecipeYaml, ReadsBackAsTheSameRecipe) {
  expect_same_after_writing(right(kQuickRecipe));
  expect_same_after_writing(right(changed(kQuickRecipe, "epochs: 1", "steps: 9")));
  const auto with = [](const std::string& more) {
    expect_same_after_writing(right(std::string(kQuickRecipe) + more));
  };
  with("tune: {memory_limit: 100%, min_gain: 0.00001, budget: 0s, allow: [numerics]}\n");
  with("tune: {memory_limit: 33%, budget: 1.5s, plugins: [amp, 'no: thing']}\n");
  with("tune: {memory_limit: 5000000001B, budget: 90min, plugins: []}\n");
  with("tune: {memory_limit: 1048576, budget: 17ns}\n");
  with("start: {loader.workers: 2, optimizer.set_to_none: on, precision.autocast: off}\n");
  with("start: {env.A: 'on', env.B: '# no comment', env.C: \"a\\\"b\\\\\", env.D: '1'}\n");
  with("output: {dir: out, save_every: 5, keep: 2}\n");
  with("output: {dir: out, save_every_steps: 500, keep: 1, keep_state: false}\n");
  with("output: {dir: 'a: b, {c}'}\ndevice: cuda:3\nseed: 9223372036854775807\n");
  with("schedule: {type: cosine, warmup_ratio: 0.05, min_lr_ratio: 1/3}\nloss: mse\n");
  with("schedule: {type: cosine, warmup_epochs: 0.5}\n");
  with("schedule: {type: multi_step, epochs: [2, 5], gamma: 0.3, warmup_steps: 7}\nloss: bce\n");
  with("loss: {type: cross_entropy, label_smoothing: 0.1, class_weights: [1, 2, 0, 0.5]}\n");
  with("evaluate: {data: {type: synthetic, samples: 1, shape: [1, 1, 1], classes: 2}}\n");
  with("evaluate: {split: 10%}\n");
  with("evaluate: {split: 10%, best_by: loss, save_best: true, patience: 3}\n");
  with("evaluate: {split: 0.25, every: end, input: []}\n");
  with(
      "evaluate:\n  data: {type: synthetic, samples: 1, shape: [1, 1, 1], classes: 2}\n"
      "  input:\n    - resize_shorter: {size: 9}\n    - center_crop: {size: [8, 7]}\n    - "
      "to_float\n");
  for (const char* name : {"'null'", "true", "1e3", "'- a'", "ü€", "a: b", "'#a'", "\"'\""}) {
    expect_same_after_writing(
        right(changed(kQuickRecipe, "name: quick",
                      "name: \"" + std::string(name[0] == '"' ? "q" : name) + "\"")));
  }
  expect_same_after_writing(right(changed(kQuickRecipe, "batch_size: 8", "batch_size: 4096")));
  for (const char* optimizer : {"type: adam", "type: nadam", "type: rmsprop, centered: true",
                                "type: lion, decay_norms_and_biases: false"}) {
    expect_same_after_writing(right(changed(kQuickRecipe, "type: sgd, lr: 0.1", optimizer)));
  }
  expect_same_after_writing(right(
      changed(kQuickRecipe, "batch_size: 8",
              "batch_size: 8, accumulate: 2, clip_norm: 0.5, ema_decay: 0.9, mixup_alpha: 0.2, "
              "cutmix_alpha: 1")));
  expect_same_after_writing(right(
      changed(kQuickRecipe, "hidden: 16, classes", "hidden: 16, freeze: [fc1, a.0.b], classes")));
  expect_same_after_writing(right(
      changed(kQuickRecipe, "scale: {by: 1/255}", "normalize: {mean: [1/3, -2], std: [1, 1e-9]}")));
}

// Read names hold none of it; paths may.
TEST(RecipeYaml, EscapesWhatDeceivesAReader) {
  const std::string folder =
      "a\xE2\x80\xAE"
      "b\xE2\x80\x8B";
  const Recipe recipe =
      right(changed(kQuickRecipe, "name: quick", "name: quick\noutput: {dir: \"" + folder + "\"}"));
  expect_same_after_writing(recipe);
  EXPECT_THAT(to_yaml(recipe, "of \x1b[2J"),
              AllOf(HasSubstr("# of ?[2J\n"), HasSubstr("a\\u202eb\\u200b\"\n")));
}

TEST(RecipeYaml, PutsTheCommentOnTop) {
  const std::string yaml = to_yaml(right(kQuickRecipe), "one\ntwo");
  EXPECT_THAT(yaml, StartsWith("# one\n# two\nautotuned: 1\nname: quick\n"));
  EXPECT_THAT(yaml, HasSubstr("\n  - scale: {by: 0.00392156862745098}\n"));
}

TEST(RecipeYaml, TakesOverABestConfiguration) {
  const Recipe recipe = right(changed(kQuickRecipe, "epochs: 1", "steps: 9") +
                              "start: {loader.workers: 1, transfer.dtype: uint8}\n"
                              "tune: {batch_size: {lr_scaling: linear}}\n");
  Configuration change;
  change.set("batch_size", std::int64_t{32});
  change.set("loader.workers", std::int64_t{0});
  change.set("precision.autocast", std::string("bf16"));
  const Configuration best = recipe.starting_configuration(sample_knobs()).with(change);

  const Recipe result = with_configuration(recipe, best, sample_knobs());
  EXPECT_EQ(result.start.canonical_text(), "precision.autocast=bf16 transfer.dtype=uint8");
  EXPECT_EQ(result.train.batch_size, 32);
  EXPECT_EQ(result.train.steps, 3);  // 72 samples
  EXPECT_DOUBLE_EQ(result.learning_rate_at(32), 0.4);
  EXPECT_EQ(result.starting_configuration(sample_knobs()), best);
  expect_same_after_writing(result);
}

TEST(RecipeYaml, KeepsTheSamplesOfAWarmup) {
  const Recipe recipe =
      right(std::string(kQuickRecipe) + "schedule: {type: polynomial, warmup_steps: 10}\n");
  Configuration change;
  change.set("batch_size", std::int64_t{32});
  const Recipe result = with_configuration(
      recipe, recipe.starting_configuration(sample_knobs()).with(change), sample_knobs());
  EXPECT_EQ(result.schedule.parameters.at("warmup_steps"), 3);  // 80 samples and more
}

TEST(RecipeYaml, KeepsTheSamplesBetweenTwoSavedFiles) {
  const Recipe recipe =
      right(std::string(kQuickRecipe) + "output: {save_every_steps: 10, save_every: 3}\n");
  Configuration change;
  change.set("batch_size", std::int64_t{32});
  const Recipe result = with_configuration(
      recipe, recipe.starting_configuration(sample_knobs()).with(change), sample_knobs());
  EXPECT_EQ(result.save_every_steps, 3);  // 80 samples and more
  EXPECT_EQ(result.save_every_epochs, 3);
}

TEST(RecipeYaml, KeepsTheJobWhenTheBestIsTheStart) {
  const Recipe recipe = right(std::string(kQuickRecipe) + "start: {loader.workers: 1}\n");
  const Recipe result =
      with_configuration(recipe, recipe.starting_configuration(sample_knobs()), sample_knobs());
  EXPECT_EQ(result.to_json(), recipe.to_json());
}

}  // namespace
}  // namespace autotuned::recipes
