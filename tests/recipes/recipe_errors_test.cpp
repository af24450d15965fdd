// SPDX-License-Identifier: Apache-2.0
// What a person reads who made a mistake in a recipe: every class of mistake, word for word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/base/temporary_folder.hpp"
#include "tests/golden.hpp"
#include "tests/recipes/samples.hpp"

namespace autotuned::recipes {
namespace {

using testing::ElementsAre;
using testing::SizeIs;
using testing::StartsWith;

struct Mistake {
  const char* name;
  const char* from;  // in kQuickRecipe
  const char* to;
};

constexpr Mistake kMistakes[] = {
    // Keys.
    {"unknown_key", "name: quick", "nome: quick\nname: quick"},
    {"unknown_inner_key", "batch_size: 8", "batchsize: 8"},
    {"unknown_key_without_neighbour", "batch_size: 8", "colour: red"},
    {"unknown_parameter", "lr: 0.1", "lr: 0.1, momentun: 0.9"},
    {"missing_key", "name: quick\n", ""},
    {"missing_parameter", ", lr: 0.1", ""},
    {"duplicate_key", "name: quick", "name: quick\nname: slow"},
    {"decimal_comma_in_braces", "lr: 0.1", "lr: 2,5e-3"},
    {"decimal_comma", "optimizer: {type: sgd, lr: 0.1}", "optimizer:\n  type: sgd\n  lr: 2,5e-3"},
    // Types of values.
    {"exponent_is_no_integer", "batch_size: 8", "batch_size: 1e3"},
    {"integer_out_of_range", "batch_size: 8", "batch_size: 0"},
    {"quoted_integer", "batch_size: 8", "batch_size: '8'"},
    {"list_for_integer", "batch_size: 8", "batch_size: [8]"},
    {"map_for_number", "lr: 0.1", "lr: {a: 1}"},
    {"nothing_for_number", "lr: 0.1", "lr: "},
    {"number_out_of_range", "lr: 0.1", "lr: 0"},
    {"number_too_large_for_float32", "lr: 0.1", "lr: 1e308"},
    {"number_too_small_for_float32", "{type: sgd, lr: 0.1}", "{type: adamw, eps: 1e-60}"},
    {"item_too_small_for_float32", "{type: sgd, lr: 0.1}", "{type: adamw, betas: [1e-60, 0.9]}"},
    {"bad_fraction", "1/255", "1/0"},
    {"bad_boolean", "epochs: 1", "epochs: 1, drop_last: yes"},
    {"bad_version", "autotuned: 1", "autotuned: 2"},
    {"bad_name", "quick", "a/b"},
    {"name_with_a_control_character", "quick", "\"qu\\eick\""},
    {"bad_device", "name: quick", "name: quick\ndevice: gpu"},
    {"bad_choice", "name: quick", "name: quick\nschedule: {type: one_cycle, anneal: linea}"},
    {"unknown_loss", "name: quick", "name: quick\nloss: cross_entrophy"},
    {"unknown_loss_in_braces", "name: quick", "name: quick\nloss: {type: hinge}"},
    {"loss_that_is_a_list", "name: quick", "name: quick\nloss: [mse]"},
    {"two_ways_to_clip", "batch_size: 8", "batch_size: 8, clip_norm: 1, clip_value: 1"},
    {"more_parts_than_samples", "batch_size: 8", "batch_size: 8, accumulate: 9"},
    {"no_rank", "batch_size: 8", "batch_size: 8, ranks: 0"},
    {"average_without_decay", "batch_size: 8", "batch_size: 8, ema_decay: 1"},
    {"patience_without_evaluations", "name: quick",
     "name: quick\nevaluate: {split: 10%, every: end, patience: 3}"},
    {"plateau_without_evaluations", "name: quick", "name: quick\nschedule: {type: plateau}"},
    {"weights_that_are_not_there", "classes: 4}\ndata", "classes: 4, weights: /nowhere.pt}\ndata"},
    {"weights_of_nothing", "name: quick",
     "name: quick\nloss: {type: cross_entropy, class_weights: [0, 0, 0, 0]}"},
    {"weights_of_other_classes", "name: quick",
     "name: quick\nloss: {type: cross_entropy, class_weights: [1, 2]}"},
    {"two_warmups", "name: quick",
     "name: quick\nschedule: {type: cosine, warmup_ratio: 0.1, warmup_steps: 3}"},
    {"milestones_out_of_order", "name: quick",
     "name: quick\nschedule: {type: multi_step, epochs: [3, 2]}"},
    {"unknown_schedule", "name: quick", "name: quick\nschedule: {type: cosines}"},
    {"gap_in_schedule", "name: quick", "name: quick\nschedule: {type: step}"},
    {"heads_that_do_not_divide", "type: mlp, hidden: 16",
     "type: vit, size: tiny, embed: 30, heads: 4"},
    {"no_such_model_file", "type: mlp, hidden: 16", "type: torchscript, file: /nowhere.pt"},
    {"list_of_wrong_length", "[1, 8, 8]", "[8, 8]"},
    {"item_out_of_range", "[1, 8, 8]", "[1, 8, 0]"},
    {"scalar_for_list", "[1, 8, 8]", "8"},
    {"scalar_for_map", "train: {epochs: 1, batch_size: 8}", "train: 3"},
    {"bad_duration", "name: quick", "name: quick\ntune: {budget: soon}"},
    {"no_time_between_checkpoints", "name: quick", "name: quick\noutput: {checkpoint_every: 0s}"},
    {"bad_share", "name: quick", "name: quick\ntune: {min_gain: 200%}"},
    {"bad_memory_limit", "name: quick", "name: quick\ntune: {memory_limit: 120%}"},
    {"bad_plugins", "name: quick", "name: quick\ntune: {plugins: amp}"},
    // Named types.
    {"unknown_type", "type: mlp, hidden: 16", "type: fashion_cn"},
    {"unknown_type_without_neighbour", "type: mlp, hidden: 16", "type: transformer"},
    {"missing_type", "type: mlp, ", ""},
    {"type_is_a_list", "type: mlp", "type: [mlp]"},
    {"typed_is_a_word", "{type: mlp, hidden: 16, classes: 4}", "mlp"},
    {"unknown_transform", "- scale:", "- scael:"},
    {"transform_without_parameters", "scale: {by: 1/255}", "scale"},
    {"transform_with_a_word", "scale: {by: 1/255}", "scale: half"},
    {"transform_with_its_only_value", "scale: {by: 1/255}", "resize: 32"},
    {"transform_with_a_value_of_several", "scale: {by: 1/255}", "normalize: 0.5"},
    {"two_transforms_in_one_item", "scale: {by: 1/255}", "{scale: {by: 1}, normalize: {}}"},
    {"transforms_without_list", "input:\n  - scale: {by: 1/255}", "input: scale"},
    {"magnitude_without_a_bin", "scale: {by: 1/255}", "rand_augment: {magnitude: 31}"},
    {"channels_differ", "scale: {by: 1/255}", "normalize: {mean: [0, 0, 0], std: [1, 1]}"},
    {"nesterov_without_momentum", "lr: 0.1", "lr: 0.1, nesterov: true"},
    // Length of the training.
    {"epochs_and_steps", "epochs: 1", "epochs: 1, steps: 2"},
    {"neither_epochs_nor_steps", "epochs: 1, ", ""},
    // Knobs.
    {"unknown_knob", "name: quick", "name: quick\nstart: {loader.worker: 2}"},
    {"knob_of_an_unknown_plugin", "name: quick", "name: quick\nstart: {cheat.mode: fast}"},
    {"knob_out_of_range", "name: quick", "name: quick\nstart: {loader.workers: 9}"},
    {"knob_with_bad_choice", "name: quick", "name: quick\nstart: {precision.autocast: half}"},
    {"knob_that_needs_a_gpu", "name: quick", "name: quick\nstart: {loader.pin_memory: on}"},
    {"knob_with_a_list", "name: quick", "name: quick\nstart: {loader.workers: [1]}"},
    {"batch_size_in_start", "name: quick", "name: quick\nstart: {batch_size: 64}"},
    {"start_is_a_list", "name: quick", "name: quick\nstart: [loader.workers]"},
    // Permissions.
    {"unknown_permission", "name: quick", "name: quick\ntune: {allow: [numeric]}"},
    {"permission_for_a_knob_of_an_unknown_plugin", "name: quick",
     "name: quick\ntune: {allow: [cheat.mode]}"},
    {"exact_permission", "name: quick", "name: quick\ntune: {allow: [exact]}"},
    {"limit_below_own_batch_size", "name: quick", "name: quick\ntune: {batch_size: {max: 4}}"},
    // Files.
    {"missing_dataset", "type: synthetic, samples: 64, shape: [1, 8, 8], classes: 4",
     "type: idx, images: /usr/share/datasets/fashion-mnist/none.gz, labels: /proc/self/status"},
};

TEST(RecipeErrors, AreExplained) {
  WrongRecipes wrong;
  for (const Mistake& mistake : kMistakes) {
    const std::string text = changed(kQuickRecipe, mistake.from, mistake.to);
    EXPECT_EQ(problems(text).size(), 1U) << mistake.name;
    wrong.add(mistake.name, text);
  }
  tests::expect_golden("recipes/golden/mistakes.txt", wrong.told());
}

// The message shows one line of a megabyte.
TEST(RecipeErrors, ALongNameIsNotShownWhole) {
  const std::string name((1U << 20U) - 1000, 'a');
  const auto told = problems(changed(kQuickRecipe, "quick", name));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_THAT(told.front(), StartsWith("recipe.yaml:2:7: name: expected a name of at most 100"));
  EXPECT_LT(told.front().size(), 300U);
}

TEST(RecipeErrors, AllAreReportedAtOnceInTheOrderOfTheFile) {
  const std::string text =
      "autotuned: 1\n"
      "nome: quick\n"
      "seed: -1\n"
      "seed: 2\n"
      "model: {type: mpl}\n"
      "data: {type: synthetic, samples: many, shape: [1, 8, 8], classes: 1}\n"
      "input: [scale, {normalise: {}}]\n"
      "optimizer: {type: sgd, lr: *rate}\n"
      "train: {epochs: 1, steps: 1, batch_size: 1e3}\n"
      "start: {loader.workers: 99, loader.wrokers: 1}\n"
      "tune: {allow: [everything], budget: 10 fortnights}\n";
  // What is no YAML ends the reading: the rest of the file could mean anything.
  EXPECT_THAT(problems(text), ElementsAre("recipe.yaml:4:1: the key \"seed\" is already in line 3",
                                          StartsWith("recipe.yaml:8:28: not valid YAML: ")));
  WrongRecipes wrong;
  wrong.add("several at once", changed(text, "*rate", "0"));
  tests::expect_golden("recipes/golden/several_mistakes.txt", wrong.told());
}

TEST(RecipeErrors, ARefusedValueIsNotCriticisedTwice) {
  const std::string text = changed(changed(kQuickRecipe, "quick", "&q quick"), "lr: 0.1", "lr: *q");
  EXPECT_THAT(problems(text),
              ElementsAre("recipe.yaml:2:7: anchors (&name) are not allowed in a recipe",
                          "recipe.yaml:7:28: aliases (*name) are not allowed in a recipe; repeat "
                          "the value"));
}

TEST(RecipeErrors, AFileThatIsNoRecipeSaysSo) {
  EXPECT_THAT(problems(""), ElementsAre("recipe.yaml:1:1: expected a map, found nothing"));
  EXPECT_THAT(problems("- a\n"), ElementsAre("recipe.yaml:1:1: expected a map, found a list"));
  EXPECT_THAT(problems("\xff\xd8\xff\xe0"),
              ElementsAre("recipe.yaml:1:1: the file is not UTF-8 text from here on"));
}

TEST(RecipeErrors, AreBoundedForHostileFiles) {
  std::string text(kQuickRecipe);
  for (int i = 0; i < 20'000; ++i)
    text += "key" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(problems(text), SizeIs(100));
  const std::string long_key(500'000, 'x');
  const auto found = problems(std::string(kQuickRecipe) + "? " + long_key + "\n: 1\n");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_LT(found[0].size(), 1000U);
}

TEST(RecipeErrors, AnEvaluationHasOneSourceAndNothingRandom) {
  WrongRecipes wrong;
  for (const char* evaluate :
       {"{data: {type: synthetic, samples: 9, shape: [1, 8, 8], classes: 4}, split: 10%}",
        "{every: end}", "{split: 0}", "{split: 0%}", "{split: 100%}", "{split: 1}", "{split: 1.5}",
        "{split: half}", "{split: 10%, input: [random_crop: {size: 8}, random_flip]}"})
    wrong.add(evaluate, std::string(kQuickRecipe) + "evaluate: " + evaluate + "\n");
  tests::expect_golden("recipes/golden/evaluations.txt", wrong.told());
}

TEST(RecipeErrors, FilesOfDataMustBeReadableFiles) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "folder");
  folder.write("images", "x");
  const std::string text =
      changed(kQuickRecipe, "synthetic, samples: 64, shape: [1, 8, 8], classes: 4",
              "idx, images: missing, labels: folder");
  const auto refused = parse_recipe(text, folder / "recipe.yaml", sample_knobs());
  ASSERT_FALSE(refused);
  ASSERT_THAT(refused.error(), SizeIs(2));
  EXPECT_EQ(refused.error()[0].message, "data.images: there is no file \"" +
                                            (folder / "missing").string() +
                                            "\"; paths are relative to the recipe's folder");
  EXPECT_EQ(refused.error()[1].message, "data.labels: expected the path of a file, but \"" +
                                            (folder / "folder").string() +
                                            "\" is not a regular file");

  const auto found = parse_recipe(changed(changed(text, "missing", "images"), "folder", "images"),
                                  folder / "recipe.yaml", sample_knobs());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->data.parameters["images"], (folder / "images").string());
}

// The end of a path says most. A name that no file can have says little.
TEST(RecipeErrors, APathIsShownToItsEnd) {
  const auto told_of = [](const std::string& path) {
    const std::string text =
        changed(kQuickRecipe, "synthetic, samples: 64, shape: [1, 8, 8], classes: 4",
                "idx, images: " + path + ", labels: /nowhere");
    const auto refused = parse_recipe(text, "/recipe.yaml", sample_knobs());
    return refused ? std::string() : refused.error().front().message;
  };
  const std::string deep = "/" + std::string(40, 'a') + "/" + std::string(60, 'b') + "/images";
  EXPECT_EQ(told_of(deep), "data.images: there is no file \"" + deep + "\"");
  EXPECT_EQ(told_of("/" + std::string(256, 'c')),
            "data.images: there is no file \"/" + std::string(59, 'c') + "…\"");
}

TEST(RecipeErrors, AMissingRecipeIsNamed) {
  const auto missing = read_recipe("/nowhere/recipe.yaml", sample_knobs());
  ASSERT_FALSE(missing);
  ASSERT_THAT(missing.error(), SizeIs(1));
  EXPECT_THAT(missing.error()[0].text(), StartsWith("/nowhere/recipe.yaml: "));
}

}  // namespace
}  // namespace autotuned::recipes
