// SPDX-License-Identifier: Apache-2.0
// What a person reads who made a mistake in a recipe: every class of mistake, word for word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <ostream>

#include "tests/recipes/samples.hpp"

namespace autotuned::recipes {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

struct Mistake {
  const char* name;
  const char* from;  // in kQuickRecipe
  const char* to;
  const char* message;
};

void PrintTo(const Mistake& mistake, std::ostream* out) {
  *out << mistake.name;
}

class Mistakes : public testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, AreExplained) {
  const Mistake& mistake = GetParam();
  EXPECT_THAT(problems(changed(kQuickRecipe, mistake.from, mistake.to)),
              ElementsAre("recipe.yaml:" + std::string(mistake.message)));
}

constexpr Mistake kMistakes[] = {
    // Keys.
    {"unknown_key", "name: quick", "nome: quick\nname: quick",
     "2:1: unknown key \"nome\"; did you mean \"name\"?"},
    {"unknown_inner_key", "batch_size: 8", "batchsize: 8",
     "8:20: unknown key \"batchsize\" in train; did you mean \"batch_size\"?"},
    {"unknown_key_without_neighbour", "batch_size: 8", "colour: red",
     "8:20: unknown key \"colour\" in train; known are epochs, steps, batch_size, drop_last, "
     "ranks, accumulate, clip_norm, clip_value, ema_decay, mixup_alpha, cutmix_alpha"},
    {"unknown_parameter", "lr: 0.1", "lr: 0.1, momentun: 0.9",
     "7:33: unknown key \"momentun\" in optimizer; did you mean \"momentum\"?"},
    {"missing_key", "name: quick\n", "",
     "1:1: \"name\" is missing: expected a name of at most 100 "
     "visible characters without /"},
    {"missing_parameter", ", lr: 0.1", "",
     "7:12: \"lr\" is missing in optimizer: expected a number above 0"},
    {"duplicate_key", "name: quick", "name: quick\nname: slow",
     "3:1: the key \"name\" is already in line 2"},
    {"decimal_comma_in_braces", "lr: 0.1", "lr: 2,5e-3",
     "7:28: optimizer.lr: a comma in braces ends the value, so YAML reads \"2\" and a key "
     "\"5e-3\"; "
     "write a point: 2.5e-3"},
    {"decimal_comma", "optimizer: {type: sgd, lr: 0.1}", "optimizer:\n  type: sgd\n  lr: 2,5e-3",
     "9:7: optimizer.lr: expected a number above 0, found \"2,5e-3\"; write a point instead of the "
     "comma: 2.5e-3"},
    // Types of values.
    {"exponent_is_no_integer", "batch_size: 8", "batch_size: 1e3",
     "8:32: train.batch_size: expected an integer from 1 to 1048576, found \"1e3\""},
    {"integer_out_of_range", "batch_size: 8", "batch_size: 0",
     "8:32: train.batch_size: expected an integer from 1 to 1048576, found \"0\""},
    {"quoted_integer", "batch_size: 8", "batch_size: '8'",
     "8:32: train.batch_size: expected an integer from 1 to 1048576, found the quoted text \"8\""},
    {"list_for_integer", "batch_size: 8", "batch_size: [8]",
     "8:32: train.batch_size: expected an integer from 1 to 1048576, found a list"},
    {"map_for_number", "lr: 0.1", "lr: {a: 1}",
     "7:28: optimizer.lr: expected a number above 0, found a map"},
    {"nothing_for_number", "lr: 0.1",
     "lr: ", "7:28: optimizer.lr: expected a number above 0, found nothing"},
    {"number_out_of_range", "lr: 0.1", "lr: 0",
     "7:28: optimizer.lr: expected a number above 0, "
     "found \"0\""},
    {"bad_fraction", "1/255", "1/0",
     "6:17: input[0].scale.by: expected a number above 0, found "
     "\"1/0\""},
    {"bad_boolean", "epochs: 1", "epochs: 1, drop_last: yes",
     "8:31: train.drop_last: expected true or false, found \"yes\""},
    {"bad_version", "autotuned: 1", "autotuned: 2",
     "1:12: autotuned: expected an integer equal to 1, found \"2\""},
    {"bad_name", "quick", "a/b",
     "2:7: name: expected a name of at most 100 visible characters without /, found \"a/b\""},
    {"name_with_a_control_character", "quick", "\"qu\\eick\"",
     "2:7: name: expected a name of at most 100 visible characters without /, found the quoted "
     "text "
     "\"qu?ick\"; it contains an invisible character, such as a control character"},
    {"bad_device", "name: quick", "name: quick\ndevice: gpu",
     "3:9: device: expected auto, cpu, cuda or cuda:N, found \"gpu\""},
    {"bad_choice", "name: quick", "name: quick\nschedule: {type: one_cycle, anneal: linea}",
     "3:37: schedule.anneal: expected one of cos, linear, found \"linea\"; did you mean "
     "\"linear\"?"},
    {"unknown_loss", "name: quick", "name: quick\nloss: cross_entrophy",
     "3:7: loss: unknown type \"cross_entrophy\"; did you mean \"cross_entropy\"?"},
    {"unknown_loss_in_braces", "name: quick", "name: quick\nloss: {type: hinge}",
     "3:14: loss: unknown type \"hinge\"; known are cross_entropy, bce, mse, l1, smooth_l1, huber, "
     "dice, dice_ce, plugin"},
    {"loss_that_is_a_list", "name: quick", "name: quick\nloss: [mse]",
     "3:7: loss: expected one of cross_entropy, bce, mse, l1, smooth_l1, huber, dice, dice_ce, "
     "plugin, or a map, found a list"},
    {"two_ways_to_clip", "batch_size: 8", "batch_size: 8, clip_norm: 1, clip_value: 1",
     "8:8: train: clip_norm and clip_value exclude each other; keep one of them"},
    {"more_parts_than_samples", "batch_size: 8", "batch_size: 8, accumulate: 9",
     "8:8: train: accumulate, 9, is more than the 8 samples of a batch"},
    {"no_rank", "batch_size: 8", "batch_size: 8, ranks: 0",
     "8:42: train.ranks: expected an integer from 1 to 64, found \"0\""},
    {"average_without_decay", "batch_size: 8", "batch_size: 8, ema_decay: 1",
     "8:46: train.ema_decay: expected a number above 0 to below 1, found \"1\""},
    {"patience_without_evaluations", "name: quick",
     "name: quick\nevaluate: {split: 10%, every: end, patience: 3}",
     "3:11: evaluate: patience needs an evaluation after every epoch; write every: epoch"},
    {"plateau_without_evaluations", "name: quick", "name: quick\nschedule: {type: plateau}",
     "3:11: schedule: plateau needs the loss of an evaluation after every epoch; add evaluate "
     "with every: epoch"},
    {"weights_that_are_not_there", "classes: 4}\ndata", "classes: 4, weights: /nowhere.pt}\ndata",
     "3:53: model.weights: there is no file \"/nowhere.pt\""},
    {"weights_of_nothing", "name: quick",
     "name: quick\nloss: {type: cross_entropy, class_weights: [0, 0, 0, 0]}",
     "3:7: loss: class_weights needs a weight above 0"},
    {"weights_of_other_classes", "name: quick",
     "name: quick\nloss: {type: cross_entropy, class_weights: [1, 2]}",
     "3:7: loss: class_weights has 2 weights, the model 4 classes"},
    {"two_warmups", "name: quick",
     "name: quick\nschedule: {type: cosine, warmup_ratio: 0.1, warmup_steps: 3}",
     "3:11: schedule: warmup_ratio, warmup_epochs and warmup_steps exclude each other; keep one of "
     "them"},
    {"milestones_out_of_order", "name: quick",
     "name: quick\nschedule: {type: multi_step, epochs: [3, 2]}",
     "3:11: schedule: epochs must be in ascending order, each only once"},
    {"unknown_schedule", "name: quick", "name: quick\nschedule: {type: cosines}",
     "3:18: schedule: unknown type \"cosines\"; did you mean \"cosine\"?"},
    {"gap_in_schedule", "name: quick", "name: quick\nschedule: {type: step}",
     "3:11: \"step_epochs\" is missing in schedule: expected an integer from 1 to 1000000"},
    {"heads_that_do_not_divide", "type: mlp, hidden: 16",
     "type: vit, size: tiny, embed: 30, heads: 4",
     "3:8: model: embed, 30, must be a multiple of heads, 4"},
    {"no_such_model_file", "type: mlp, hidden: 16", "type: torchscript, file: /nowhere.pt",
     "3:34: model.file: there is no file \"/nowhere.pt\""},
    {"list_of_wrong_length", "[1, 8, 8]", "[8, 8]",
     "4:45: data.shape: expected a list of 3, each an integer from 1 to 4096, found a list of 2"},
    {"item_out_of_range", "[1, 8, 8]", "[1, 8, 0]",
     "4:52: data.shape[2]: expected an integer from 1 to 4096, found \"0\""},
    {"scalar_for_list", "[1, 8, 8]", "8",
     "4:45: data.shape: expected a list of 3, each an integer from 1 to 4096, found \"8\""},
    {"scalar_for_map", "train: {epochs: 1, batch_size: 8}", "train: 3",
     "8:8: train: expected a map, found \"3\""},
    {"bad_duration", "name: quick", "name: quick\ntune: {budget: soon}",
     "3:16: tune.budget: expected a duration such as 90s, 10min or 1h30min, found \"soon\""},
    {"no_time_between_checkpoints", "name: quick", "name: quick\noutput: {checkpoint_every: 0s}",
     "3:28: output.checkpoint_every: expected a duration such as 90s, 10min or 1h30min, above 0s, "
     "found \"0s\""},
    {"bad_share", "name: quick", "name: quick\ntune: {min_gain: 200%}",
     "3:18: tune.min_gain: expected a share such as 2% or 0.02, from 0 to 1, found \"200%\""},
    {"bad_memory_limit", "name: quick", "name: quick\ntune: {memory_limit: 120%}",
     "3:22: tune.memory_limit: expected a share such as 90% or a size such as 6GiB, found "
     "\"120%\""},
    {"bad_plugins", "name: quick", "name: quick\ntune: {plugins: amp}",
     "3:17: tune.plugins: expected all, or a list, each item text, found \"amp\""},
    // Named types.
    {"unknown_type", "type: mlp, hidden: 16", "type: fashion_cn",
     "3:15: model: unknown type \"fashion_cn\"; did you mean \"fashion_cnn\"?"},
    {"unknown_type_without_neighbour", "type: mlp, hidden: 16", "type: transformer",
     "3:15: model: unknown type \"transformer\"; known are fashion_cnn, mlp, simple_cnn, "
     "pooling_cnn, "
     "resnet18, resnet34, resnet50, convnext_tiny, efficientnet_b0, mobilenet_v3_large, "
     "mobilenet_v3_small, unet, vit, gpt, paced, torchscript, plugin"},
    {"missing_type", "type: mlp, ", "",
     "3:8: \"type\" is missing in model: expected one of fashion_cnn, mlp, simple_cnn, "
     "pooling_cnn, "
     "resnet18, resnet34, resnet50, convnext_tiny, efficientnet_b0, mobilenet_v3_large, "
     "mobilenet_v3_small, unet, vit, gpt, paced, torchscript, plugin"},
    {"type_is_a_list", "type: mlp", "type: [mlp]",
     "3:15: model.type: expected one of fashion_cnn, mlp, simple_cnn, pooling_cnn, "
     "resnet18, resnet34, resnet50, convnext_tiny, efficientnet_b0, mobilenet_v3_large, "
     "mobilenet_v3_small, unet, vit, gpt, paced, torchscript, plugin, found a list"},
    {"typed_is_a_word", "{type: mlp, hidden: 16, classes: 4}", "mlp",
     "3:8: model: expected a map with a type, found \"mlp\""},
    {"unknown_transform",
     "- scale:", "- scael:", "6:5: input[0]: unknown type \"scael\"; did you mean \"scale\"?"},
    {"transform_without_parameters", "scale: {by: 1/255}", "scale",
     "6:5: \"by\" is missing in input[0].scale: expected a number above 0"},
    {"transform_with_a_word", "scale: {by: 1/255}", "scale: half",
     "6:12: input[0].scale: expected a map of parameters, found \"half\""},
    {"two_transforms_in_one_item", "scale: {by: 1/255}", "{scale: {by: 1}, normalize: {}}",
     "6:5: input[0]: expected NAME or NAME: {parameters}, found a map of 2"},
    {"transforms_without_list", "input:\n  - scale: {by: 1/255}", "input: scale",
     "5:8: input: expected a list of transforms, found \"scale\""},
    {"magnitude_without_a_bin", "scale: {by: 1/255}", "rand_augment: {magnitude: 31}",
     "6:19: input[0].rand_augment: magnitude, 31, must be below bins, 31"},
    {"channels_differ", "scale: {by: 1/255}", "normalize: {mean: [0, 0, 0], std: [1, 1]}",
     "6:16: input[0].normalize: mean has 3 channels, std has 2"},
    {"nesterov_without_momentum", "lr: 0.1", "lr: 0.1, nesterov: true",
     "7:12: optimizer: nesterov needs a momentum above 0"},
    // Length of the training.
    {"epochs_and_steps", "epochs: 1", "epochs: 1, steps: 2",
     "8:8: train: epochs and steps exclude each other; keep one of them"},
    {"neither_epochs_nor_steps", "epochs: 1, ", "",
     "8:8: train: the length of the training is missing: expected epochs or steps"},
    // Knobs.
    {"unknown_knob", "name: quick", "name: quick\nstart: {loader.worker: 2}",
     "3:9: unknown knob \"loader.worker\" in start; did you mean \"loader.workers\"?"},
    {"knob_out_of_range", "name: quick", "name: quick\nstart: {loader.workers: 9}",
     "3:25: start.loader.workers: expected an integer from 0 to 8, found \"9\""},
    {"knob_with_bad_choice", "name: quick", "name: quick\nstart: {precision.autocast: half}",
     "3:29: start.precision.autocast: expected one of off, bf16, fp16, found \"half\""},
    {"knob_that_needs_a_gpu", "name: quick", "name: quick\nstart: {loader.pin_memory: on}",
     "3:28: start.loader.pin_memory: needs a CUDA GPU: no NVIDIA driver"},
    {"knob_with_a_list", "name: quick", "name: quick\nstart: {loader.workers: [1]}",
     "3:25: start.loader.workers: expected one value, found a list"},
    {"batch_size_in_start", "name: quick", "name: quick\nstart: {batch_size: 64}",
     "3:9: start: batch_size belongs to train.batch_size; move it there"},
    {"start_is_a_list", "name: quick", "name: quick\nstart: [loader.workers]",
     "3:8: start: expected a map from knobs to values, found a list"},
    // Permissions.
    {"unknown_permission", "name: quick", "name: quick\ntune: {allow: [numeric]}",
     "3:16: tune.allow: unknown name \"numeric\"; did you mean \"numerics\"?"},
    {"exact_permission", "name: quick", "name: quick\ntune: {allow: [exact]}",
     "3:16: tune.allow: exact changes are always tried; leave \"exact\" out"},
    {"limit_below_own_batch_size", "name: quick", "name: quick\ntune: {batch_size: {max: 4}}",
     "3:26: tune.batch_size.max: expected at least train.batch_size, 8, found 4"},
    // Files.
    {"missing_dataset", "type: synthetic, samples: 64, shape: [1, 8, 8], classes: 4",
     "type: idx, images: /usr/share/datasets/fashion-mnist/none.gz, labels: /proc/self/status",
     "4:27: data.images: there is no file \"/usr/share/datasets/fashion-mnist/none.gz\"; install "
     "the package dataset-fashion-mnist"},
};

std::string mistake_name(const testing::TestParamInfo<Mistake>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Recipe, Mistakes, testing::ValuesIn(kMistakes), mistake_name);

// Of a megabyte the message shows a line.
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
  EXPECT_THAT(
      problems(changed(text, "*rate", "0")),
      ElementsAre(
          "recipe.yaml:1:1: \"name\" is missing: expected a name of at most 100 visible characters "
          "without /",
          "recipe.yaml:2:1: unknown key \"nome\"; did you mean \"name\"?",
          "recipe.yaml:3:7: seed: expected an integer of at least 0, found \"-1\"",
          "recipe.yaml:4:1: the key \"seed\" is already in line 3",
          "recipe.yaml:5:15: model: unknown type \"mpl\"; did you mean \"mlp\"?",
          "recipe.yaml:6:34: data.samples: expected an integer from 1 to 1000000000, found "
          "\"many\"",
          "recipe.yaml:6:67: data.classes: expected an integer from 2 to 65536, found \"1\"",
          "recipe.yaml:7:9: \"by\" is missing in input[0].scale: expected a number above 0",
          "recipe.yaml:7:17: input[1]: unknown type \"normalise\"; did you mean \"normalize\"?",
          "recipe.yaml:8:28: optimizer.lr: expected a number above 0, found \"0\"",
          "recipe.yaml:9:8: train: epochs and steps exclude each other; keep one of them",
          "recipe.yaml:9:42: train.batch_size: expected an integer from 1 to 1048576, found "
          "\"1e3\"",
          "recipe.yaml:10:25: start.loader.workers: expected an integer from 0 to 8, found \"99\"",
          "recipe.yaml:10:29: unknown knob \"loader.wrokers\" in start; did you mean "
          "\"loader.workers\"?",
          "recipe.yaml:11:16: tune.allow: unknown name \"everything\"; known are numerics, "
          "semantics, batch_size, checkpoint.async, cuda.graph, cudnn.benchmark, "
          "ddp.bucket_cap_mb, ddp.comm_hook, ddp.gradient_as_bucket_view, input.cache, "
          "input.decode, input.decode_scale, input.dilation, input.jpeg_index, input.order, "
          "input.point_ops, "
          "input.read_ahead, "
          "layout.memory_format, loader.affinity, loader.pin_memory, "
          "loader.prefetch_batches, loader.workers, memory.allocator, memory.malloc, "
          "optimizer.fused, "
          "optimizer.set_to_none, precision.autocast, precision.keep_float32, "
          "precision.tf32, rewrite.gather, "
          "threads.intra_op, train.loss_reading, "
          "transfer.dtype, transfer.non_blocking",
          "recipe.yaml:11:37: tune.budget: expected a duration such as 90s, 10min or 1h30min, "
          "found \"10 fortnights\""));
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
  const auto with = [](const std::string& evaluate) {
    return problems(std::string(kQuickRecipe) + "evaluate: " + evaluate + "\n");
  };
  const std::string data = "data: {type: synthetic, samples: 9, shape: [1, 8, 8], classes: 4}";
  EXPECT_THAT(with("{" + data + ", split: 10%}"),
              ElementsAre("recipe.yaml:9:11: evaluate: data and split exclude each other; keep one "
                          "of them"));
  EXPECT_THAT(with("{every: end}"),
              ElementsAre("recipe.yaml:9:11: evaluate: the test data are missing: expected data, "
                          "or split for a share of the training data"));
  for (const char* share : {"0", "0%", "100%", "1", "1.5", "half"}) {
    EXPECT_THAT(
        with("{split: " + std::string(share) + "}"),
        ElementsAre("recipe.yaml:9:19: evaluate.split: expected a share such as 2% or 0.02, "
                    "above 0 to below 1, found \"" +
                    std::string(share) + "\""));
  }
  EXPECT_THAT(with("{split: 10%, input: [random_crop: {size: 8}, random_flip]}"),
              ElementsAre("recipe.yaml:9:32: evaluate.input[0]: random_crop is random, but every "
                          "evaluation must see the same samples; use center_crop",
                          "recipe.yaml:9:56: evaluate.input[1]: random_flip is random, but every "
                          "evaluation must see the same samples; leave it out"));
}

TEST(RecipeErrors, FilesOfDataMustBeReadableFiles) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "autotuned-recipe-errors-test";
  std::filesystem::create_directories(folder / "folder");
  std::ofstream(folder / "images") << "x";
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
  std::filesystem::remove_all(folder);
}

TEST(RecipeErrors, AMissingRecipeIsNamed) {
  const auto missing = read_recipe("/nowhere/recipe.yaml", sample_knobs());
  ASSERT_FALSE(missing);
  ASSERT_THAT(missing.error(), SizeIs(1));
  EXPECT_THAT(missing.error()[0].text(), StartsWith("/nowhere/recipe.yaml: "));
  EXPECT_THAT(missing.error()[0].text(), HasSubstr("No such file"));
}

}  // namespace
}  // namespace autotuned::recipes
