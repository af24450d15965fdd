// SPDX-License-Identifier: Apache-2.0
// Targets that are numbers: what goes with them, and what does not.
#include "recipes/targets.hpp"

#include <gtest/gtest.h>

#include "recipes/recipe_yaml.hpp"
#include "tests/golden.hpp"
#include "tests/places.hpp"
#include "tests/recipes/samples.hpp"

namespace autotuned::recipes {
namespace {

constexpr std::string_view kClasses = "synthetic, samples: 64, shape: [1, 8, 8], classes: 4";
constexpr std::string_view kNumbers =
    "synthetic_targets, samples: 64, shape: [1, 8, 8], targets: 1";

// A regression, with more keys.
std::string regression(std::string_view more) {
  return changed(changed(kQuickRecipe, kClasses, kNumbers), "hidden: 16, classes: 4",
                 "hidden: 16, classes: 1") +
         std::string(more);
}

TEST(Targets, OfATypeOfData) {
  EXPECT_EQ(target_of("idx"), Target::classes);
  EXPECT_EQ(target_of("plugin"), Target::classes);
  EXPECT_EQ(target_of("image_targets"), Target::numbers);
  EXPECT_EQ(target_of("synthetic_targets"), Target::numbers);
  EXPECT_EQ(target_of("no such type"), Target::classes);
}

TEST(Targets, OfNumbersTakeTheirOwnLosses) {
  for (const char* loss :
       {"mse", "l1", "smooth_l1", "{type: smooth_l1, beta: 0.5}", "{type: huber, delta: 2}"}) {
    const Recipe recipe = right(regression("loss: " + std::string(loss) + "\n"));
    EXPECT_EQ(right(to_yaml(recipe, "")).to_json(), recipe.to_json());
  }
}

// Their default is another, and it is not written where it says nothing.
TEST(Targets, OfNumbersHaveFiguresOfTheirOwn) {
  const auto best_by = [](const std::string& more) {
    const Recipe recipe = right(regression("loss: mse\nevaluate: {split: 10%" + more + "}\n"));
    EXPECT_EQ(right(to_yaml(recipe, "")).evaluation->best_by, recipe.evaluation->best_by);
    return recipe.evaluation->best_by;
  };
  EXPECT_EQ(best_by(""), "loss");
  EXPECT_EQ(best_by(", best_by: mae"), "mae");
  EXPECT_EQ(best_by(", best_by: r2, patience: 2"), "r2");
  EXPECT_EQ(right(std::string(kQuickRecipe) + "evaluate: {split: 10%}\n").evaluation->best_by,
            "accuracy");
}

std::string tagged(std::string_view more) {
  return changed(kQuickRecipe, kClasses, "synthetic_tags, samples: 64, shape: [1, 8, 8], tags: 4") +
         std::string(more);
}

TEST(Targets, ThatAreTagsHaveTheirLossAndFigure) {
  const Recipe recipe = right(tagged("loss: bce\nevaluate: {split: 10%}\n"));
  EXPECT_EQ(recipe.evaluation->best_by, "f1");
  EXPECT_EQ(right(to_yaml(recipe, "")).to_json(), recipe.to_json());
  for (const char* weights : {"2.5", "[1, 2, 3, 4]"}) {
    const Recipe weighted =
        right(tagged("loss: {type: bce, pos_weight: " + std::string(weights) + "}\n"));
    EXPECT_EQ(right(to_yaml(weighted, "")).to_json(), weighted.to_json());
  }
}

TEST(Targets, AreMixedForCrossEntropyAlone) {
  const std::string mixing =
      changed(kQuickRecipe, "batch_size: 8", "batch_size: 8, mixup_alpha: 0.2");
  EXPECT_EQ(right(mixing).step_rules.mixup_alpha, 0.2);
  EXPECT_FALSE(right(mixing).step_rules.cutmix_alpha);
  EXPECT_NE(right(mixing).hash(), right(kQuickRecipe).hash());
  Json json = right(mixing).to_json();
  for (const double alpha : {1e-6, 1000.0}) {
    json["train"]["mixup_alpha"] = alpha;
    EXPECT_TRUE(Recipe::from_json(json)) << alpha;
  }
  for (const double alpha : {1e-7, 1001.0}) {
    json["train"]["mixup_alpha"] = alpha;
    EXPECT_FALSE(Recipe::from_json(json)) << alpha;
  }
}

constexpr std::string_view kMlp = "mlp, hidden: 16, classes: 4";

std::string masked(std::string_view more) {
  return changed(changed(kQuickRecipe, kClasses,
                         "synthetic_masks, samples: 64, shape: [1, 8, 8], classes: 4"),
                 kMlp, "unet, width: 4, depth: 2, classes: 4") +
         std::string(more);
}

TEST(Targets, ThatAreMasksHaveTheirModelLossesAndFigures) {
  const Recipe recipe = right(masked("evaluate: {split: 10%}\n"));
  EXPECT_EQ(recipe.evaluation->best_by, "miou");
  EXPECT_EQ(recipe.loss, "cross_entropy");
  EXPECT_EQ(right(to_yaml(recipe, "")).to_json(), recipe.to_json());
  for (const char* loss :
       {"dice", "dice_ce", "{type: dice, smooth: 1}", "{type: cross_entropy, label_smoothing: 0.1}",
        "{type: dice_ce, class_weights: [1, 2, 3, 4], dice_weight: 0.5}"}) {
    const Recipe with_loss = right(masked("loss: " + std::string(loss) + "\n"));
    EXPECT_EQ(right(to_yaml(with_loss, "")).to_json(), with_loss.to_json());
  }
}

TEST(Targets, ThatAreMasksNeedAModelForThem) {
  EXPECT_TRUE(is_model_for(Target::masks, "torchscript"));
  EXPECT_TRUE(is_model_for(Target::tags, "plugin"));
}

// The files are in the folder of this test's source, wherever it runs; they come last, so that no column of a message
// depends on where that is.
std::string masks_in_files(const std::string& more) {
  const std::string files = tests::source_folder() / "tests/trainer/input/data/png_*.png";
  return changed(masked(""), "synthetic_masks, samples: 64, shape: [1, 8, 8], classes: 4",
                 "image_masks" + more + ", files: \"" + files + "\", masks: \"" + files + "\"");
}

TEST(Targets, ThatAreMasksInFilesHaveClassesOrNames) {
  const Recipe recipe = right(masks_in_files(", names: [ground, cat], values: [0, 255]"));
  EXPECT_EQ(recipe.data.parameters["ignore_index"], 255);
  EXPECT_EQ(right(to_yaml(recipe, "")).to_json(), recipe.to_json());
  EXPECT_NE(right(masks_in_files(", classes: 2")).hash(), recipe.hash());
}

constexpr std::string_view kTokens =
    "autotuned: 1\nname: text\nmodel: {type: gpt, layers: 1, heads: 2, width: 8}\n"
    "data: {type: synthetic_tokens, samples: 9, context: 4, vocabulary: 7}\n"
    "optimizer: {type: adamw}\ntrain: {epochs: 1, batch_size: 2}\n";

TEST(Targets, ThatAreTokensHaveTheirModelLossAndFigures) {
  EXPECT_EQ(target_of("tokens"), Target::tokens);
  const Recipe recipe = right(std::string(kTokens) + "evaluate: {split: 20%}\n");
  EXPECT_EQ(recipe.evaluation->best_by, "loss");
  EXPECT_EQ(right(to_yaml(recipe, "")).to_json(), recipe.to_json());
  EXPECT_EQ(right(std::string(kTokens) + "evaluate: {split: 20%, best_by: accuracy}\n")
                .evaluation->best_by,
            "accuracy");
}

TEST(Targets, ThatAreTokensAreNoPictures) {
  EXPECT_TRUE(is_model_for(Target::tokens, kTokenModel));
  EXPECT_FALSE(is_model_for(Target::tokens, "torchscript"));
  EXPECT_FALSE(is_model_for(Target::masks, kTokenModel));
}

TEST(Targets, ThatDoNotFitAreToldAtOnce) {
  const std::string quick(kQuickRecipe);
  constexpr std::string_view kGpt = "{type: gpt, layers: 1, heads: 2, width: 8}";
  WrongRecipes wrong;
  wrong.add("numbers with a loss, an evaluation and a figure of classes",
            regression("evaluate: {data: {type: synthetic, samples: 1, shape: [1, 8, 8], "
                       "classes: 4}, best_by: accuracy}\n"));
  wrong.add("classes with a loss of numbers", quick + "loss: l1\n");
  wrong.add("one class", changed(kQuickRecipe, "hidden: 16, classes: 4", "hidden: 16, classes: 1"));
  wrong.add("classes with a figure of numbers", quick + "evaluate: {split: 10%, best_by: mae}\n");
  wrong.add("tags with smoothing", tagged("loss: {type: bce, label_smoothing: 0.1}\n"));
  wrong.add("classes with weights of tags", quick + "loss: {type: bce, pos_weight: 2}\n");
  wrong.add("tags with a loss of numbers", tagged("loss: mse\n"));
  wrong.add("more weights than tags",
            tagged("loss: {type: bce, pos_weight: [1, 2, 3, 4, 5, 6, 7]}\n"));
  const std::string mixing =
      changed(kQuickRecipe, "batch_size: 8", "batch_size: 8, mixup_alpha: 0.2");
  wrong.add("a share that is too small to mix by",
            changed(kQuickRecipe, "batch_size: 8", "batch_size: 8, mixup_alpha: 1e-300"));
  wrong.add("mixed classes with a loss of numbers", mixing + "loss: mse\n");
  wrong.add("masks with a loss of tags", masked("loss: bce\n"));
  wrong.add("classes with a loss of masks", quick + "loss: dice\n");
  wrong.add("masks with a figure of tags", masked("evaluate: {split: 10%, best_by: f1}\n"));
  wrong.add("masks with too few weights", masked("loss: {type: dice_ce, class_weights: [1, 2]}\n"));
  wrong.add("masks with a model of classes",
            changed(masked(""), "unet, width: 4, depth: 2, classes: 4", kMlp));
  wrong.add("classes with a model of masks", changed(kQuickRecipe, kMlp, "unet"));
  wrong.add("masks that are mixed",
            changed(masked(""), "batch_size: 8", "batch_size: 8, mixup_alpha: 0.2"));
  wrong.add("masks in files without classes", masks_in_files(""));
  wrong.add("masks with classes and names", masks_in_files(", classes: 2, names: [a, b]"));
  wrong.add("masks with too few values", masks_in_files(", classes: 3, values: [0, 255]"));
  wrong.add("masks with more classes than a byte has", masks_in_files(", classes: 256"));
  wrong.add("tokens with a loss of numbers", std::string(kTokens) + "loss: mse\n");
  wrong.add("a width that is no multiple of the heads", changed(kTokens, "width: 8", "width: 9"));
  wrong.add("tokens with a model of classes", changed(kTokens, kGpt, "{type: mlp}"));
  wrong.add("tokens with a model of masks", changed(kTokens, kGpt, "{type: unet, classes: 2}"));
  wrong.add("classes with a model of tokens",
            changed(kQuickRecipe, "{type: mlp, hidden: 16, classes: 4}", kGpt));
  wrong.add("tokens that are treated as pictures",
            changed(kTokens, "batch_size: 2", "batch_size: 2, cutmix_alpha: 1") +
                "input:\n  - to_float\nevaluate:\n  split: 10%\n  input:\n    - to_float\n");
  tests::expect_golden("recipes/golden/targets.txt",
                       tests::with_here(wrong.told(), tests::source_folder()));
}

// The text that it trains on is in this repository.
TEST(Targets, ThatAreTokensHaveARecipe) {
  const auto recipe = read_recipe(tests::source_folder() / "recipes/gpt_text.yaml", sample_knobs());
  ASSERT_TRUE(recipe) << recipe.error().front().text();
  EXPECT_EQ(recipe->model.type, kTokenModel);
}

// A trainer is sent JSON, which nobody may have checked.
TEST(Targets, AreCheckedInJsonToo) {
  Json json = right(std::string(kQuickRecipe) + "evaluate: {split: 10%}\n").to_json();
  json["evaluate"]["best_by"] = "mae";
  EXPECT_FALSE(Recipe::from_json(json));
}

}  // namespace
}  // namespace autotuned::recipes
