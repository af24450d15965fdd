// SPDX-License-Identifier: Apache-2.0
// Targets that are numbers: what goes with them, and what does not.
#include "recipes/targets.hpp"

#include <gmock/gmock.h>

#include "recipes/recipe_yaml.hpp"
#include "tests/places.hpp"
#include "tests/recipes/samples.hpp"

namespace autotuned::recipes {
namespace {

using testing::ElementsAre;

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

TEST(Targets, ThatDoNotFitAreToldAtOnce) {
  EXPECT_THAT(
      problems(regression("evaluate: {data: {type: synthetic, samples: 1, shape: [1, 8, 8], "
                          "classes: 4}, best_by: accuracy}\n")),
      ElementsAre(
          "recipe.yaml:4:7: loss: cross_entropy does not fit data of type synthetic_targets, whose "
          "targets are numbers; use mse, l1, smooth_l1, huber, plugin",
          "recipe.yaml:9:18: evaluate.data: the targets of synthetic are classes, those of the "
          "training data are numbers",
          "recipe.yaml:9:88: evaluate.best_by: accuracy does not fit data of type "
          "synthetic_targets, whose targets are numbers; use loss, mae, r2"));
  EXPECT_THAT(
      problems(std::string(kQuickRecipe) + "loss: l1\n"),
      ElementsAre(
          "recipe.yaml:9:7: loss: l1 does not fit data of type synthetic, whose targets are "
          "classes; use cross_entropy, bce, mse, plugin"));
  EXPECT_THAT(
      problems(changed(kQuickRecipe, "hidden: 16, classes: 4", "hidden: 16, classes: 1")),
      ElementsAre(
          "recipe.yaml:3:41: model.classes: expected at least 2 for data of type synthetic, "
          "whose targets are classes, found 1"));
  EXPECT_THAT(
      problems(std::string(kQuickRecipe) + "evaluate: {split: 10%, best_by: mae}\n"),
      ElementsAre(
          "recipe.yaml:9:33: evaluate.best_by: mae does not fit data of type synthetic, whose "
          "targets are classes; use accuracy, loss"));
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
  EXPECT_THAT(problems(tagged("loss: {type: bce, label_smoothing: 0.1}\n")),
              ElementsAre("recipe.yaml:9:7: loss: label_smoothing does not fit data of type "
                          "synthetic_tags, whose targets are tags; leave it out"));
  EXPECT_THAT(problems(std::string(kQuickRecipe) + "loss: {type: bce, pos_weight: 2}\n"),
              ElementsAre("recipe.yaml:9:7: loss: pos_weight does not fit data of type synthetic, "
                          "whose targets are classes; leave it out"));
  EXPECT_THAT(problems(tagged("loss: mse\n")),
              ElementsAre("recipe.yaml:9:7: loss: mse does not fit data of type synthetic_tags, "
                          "whose targets are tags; use bce, plugin"));
}

TEST(Targets, ThatAreTagsHaveAWeightEach) {
  EXPECT_THAT(problems(tagged("loss: {type: bce, pos_weight: [1, 2, 3, 4, 5, 6, 7]}\n")),
              ElementsAre(testing::AllOf(testing::HasSubstr("loss: pos_weight has 7 weights, the "
                                                            "model "),
                                         testing::HasSubstr(" outputs"))));
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
  EXPECT_THAT(
      problems(changed(kQuickRecipe, "batch_size: 8", "batch_size: 8, mixup_alpha: 1e-300")),
      ElementsAre(testing::HasSubstr("train.mixup_alpha: expected a number from 1e-06 to")));
  EXPECT_THAT(problems(mixing + "loss: mse\n"),
              ElementsAre("recipe.yaml:8:8: train.mixup_alpha: is for the loss cross_entropy; "
                          "leave it out"));
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
  EXPECT_THAT(problems(masked("loss: bce\n")),
              ElementsAre("recipe.yaml:9:7: loss: bce does not fit data of type synthetic_masks, "
                          "whose targets are masks; use cross_entropy, dice, dice_ce, plugin"));
  EXPECT_THAT(problems(std::string(kQuickRecipe) + "loss: dice\n"),
              ElementsAre(testing::HasSubstr("loss: dice does not fit data of type synthetic, ")));
  EXPECT_THAT(
      problems(masked("evaluate: {split: 10%, best_by: f1}\n")),
      ElementsAre(testing::HasSubstr("f1 does not fit data of type synthetic_masks, whose targets "
                                     "are masks; use miou, accuracy, loss")));
  EXPECT_THAT(problems(masked("loss: {type: dice_ce, class_weights: [1, 2]}\n")),
              ElementsAre(testing::HasSubstr("class_weights has 2 weights, the model 4 classes")));
}

TEST(Targets, ThatAreMasksNeedAModelForThem) {
  EXPECT_THAT(
      problems(changed(masked(""), "unet, width: 4, depth: 2, classes: 4", kMlp)),
      ElementsAre(testing::HasSubstr("model: mlp does not fit data of type synthetic_masks, "
                                     "whose targets are masks; use unet")));
  EXPECT_THAT(problems(changed(kQuickRecipe, kMlp, "unet")),
              ElementsAre(testing::HasSubstr("model: unet does not fit data of type synthetic, ")));
  EXPECT_TRUE(is_model_for(Target::masks, "torchscript"));
  EXPECT_TRUE(is_model_for(Target::tags, "plugin"));
  EXPECT_THAT(problems(changed(masked(""), "batch_size: 8", "batch_size: 8, mixup_alpha: 0.2")),
              ElementsAre(testing::HasSubstr("train.mixup_alpha: mixes the classes of whole "
                                             "samples")));
}

// Of files in the folder of this test's source, which are there wherever it runs.
TEST(Targets, ThatAreMasksInFilesHaveClassesOrNames) {
  const std::string files = tests::source_folder() / "tests/trainer/input/data/png_*.png";
  const auto of_files = [&](const std::string& more) {
    return changed(masked(""), "synthetic_masks, samples: 64, shape: [1, 8, 8], classes: 4",
                   "image_masks, files: \"" + files + "\", masks: \"" + files + "\"" + more);
  };
  const Recipe recipe = right(of_files(", names: [ground, cat], values: [0, 255]"));
  EXPECT_EQ(recipe.data.parameters["ignore_index"], 255);
  EXPECT_EQ(right(to_yaml(recipe, "")).to_json(), recipe.to_json());
  EXPECT_NE(right(of_files(", classes: 2")).hash(), recipe.hash());
  EXPECT_THAT(problems(of_files("")),
              ElementsAre(testing::HasSubstr("expected classes, or names")));
  EXPECT_THAT(problems(of_files(", classes: 2, names: [a, b]")),
              ElementsAre(testing::HasSubstr("classes and names exclude each other")));
  EXPECT_THAT(problems(of_files(", classes: 3, values: [0, 255]")),
              ElementsAre(testing::HasSubstr("values has 2 numbers for 3 classes")));
  EXPECT_THAT(problems(of_files(", classes: 256")),
              ElementsAre(testing::HasSubstr("an integer from 2 to 255")));
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
  EXPECT_THAT(problems(std::string(kTokens) + "loss: mse\n"),
              ElementsAre("recipe.yaml:7:7: loss: mse does not fit data of type synthetic_tokens, "
                          "whose targets are tokens; use cross_entropy, plugin"));
  EXPECT_THAT(problems(changed(kTokens, "width: 8", "width: 9")),
              ElementsAre(testing::HasSubstr("width, 9, must be a multiple of heads, 2")));
}

TEST(Targets, ThatAreTokensAreNoPictures) {
  EXPECT_THAT(
      problems(changed(kTokens, "{type: gpt, layers: 1, heads: 2, width: 8}", "{type: mlp}")),
      ElementsAre("recipe.yaml:3:8: model: data of type synthetic_tokens need the model "
                  "gpt"));
  EXPECT_THAT(problems(changed(kTokens, "{type: gpt, layers: 1, heads: 2, width: 8}",
                               "{type: unet, classes: 2}")),
              ElementsAre(testing::HasSubstr("need the model gpt")));
  EXPECT_TRUE(is_model_for(Target::tokens, kTokenModel));
  EXPECT_FALSE(is_model_for(Target::tokens, "torchscript"));
  EXPECT_FALSE(is_model_for(Target::masks, kTokenModel));
  EXPECT_THAT(problems(changed(kQuickRecipe, "{type: mlp, hidden: 16, classes: 4}",
                               "{type: gpt, layers: 1, heads: 2, width: 8}")),
              ElementsAre(testing::HasSubstr("model: gpt needs data of type tokens or "
                                             "synthetic_tokens")));
  EXPECT_THAT(
      problems(changed(kTokens, "batch_size: 2", "batch_size: 2, cutmix_alpha: 1") +
               "input:\n  - to_float\nevaluate:\n  split: 10%\n  input:\n    - to_float\n"),
      ElementsAre(
          "recipe.yaml:6:8: train.cutmix_alpha: mixes pictures, and the samples are tokens; leave "
          "it out",
          testing::HasSubstr("input: transforms are for pictures, and the samples are tokens"),
          testing::HasSubstr("evaluate.input: transforms are for pictures")));
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
