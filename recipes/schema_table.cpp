// SPDX-License-Identifier: Apache-2.0
// The keys of a recipe.
#include "recipes/schema_table.hpp"

namespace autotuned::recipes {
namespace {

using enum FieldType;

constexpr Range kPositive{.minimum = 0, .open_minimum = true};
constexpr Range kNotNegative{.minimum = 0};
constexpr Range kBatchSizes{.minimum = 1, .maximum = 1'048'576};

std::string one_length(const YamlNode& map, const Json& /*values*/) {
  const bool has_epochs = map.find("epochs") != nullptr;
  const bool has_steps = map.find("steps") != nullptr;
  if (has_epochs && has_steps) return "epochs and steps exclude each other; keep one of them";
  if (!has_epochs && !has_steps) return "how long to train is missing: expected epochs or steps";
  return {};
}

Field train_field() {
  return {
      .key = "train",
      .type = map,
      .summary = "How long to train.",
      .is_required = true,
      .fields = {{.key = "epochs",
                  .type = integer,
                  .summary = "How often every sample is seen; this or steps.",
                  .default_in_words = "steps is given instead",
                  .range = {.minimum = 1, .maximum = 1e6}},
                 {.key = "steps",
                  .type = integer,
                  .summary = "Steps of this batch size; another batch size sees as many samples "
                             "in fewer steps.",
                  .default_in_words = "epochs is given instead",
                  .range = {.minimum = 1, .maximum = 1e12}},
                 {.key = "batch_size",
                  .type = integer,
                  .summary = "Samples per step.",
                  .default_text = "32",
                  .range = kBatchSizes,
                  .unit = "samples"},
                 {.key = "drop_last",
                  .type = boolean,
                  .summary = "Leave out the last batch of an epoch when it is not full.",
                  .default_text = "true"}},
      .rule = one_length};
}

std::string one_source(const YamlNode& map, const Json& /*values*/) {
  const bool has_data = map.find("data") != nullptr;
  const bool has_split = map.find("split") != nullptr;
  if (has_data && has_split) return "data and split exclude each other; keep one of them";
  if (!has_data && !has_split) {
    return "what to test on is missing: expected data, or split for a share of the training data";
  }
  return {};
}

Field evaluate_field() {
  return {.key = "evaluate",
          .type = map,
          .summary = "Test the model on data that it was not trained on.",
          .default_in_words = "no evaluation",
          .fields =
              {{.key = "data",
                .type = typed,
                .summary = "What to test on; the types of data. This or split.",
                .default_in_words = "split is given instead",
                .variants = &data_types()},
               {.key = "split",
                .type = ratio,
                .summary = "Test on so much of the training data, drawn from the seed, and "
                           "train on the rest. This or data.",
                .default_in_words = "data is given instead",
                .range = {.minimum = 0, .maximum = 1, .open_minimum = true, .open_maximum = true}},
               {.key = "input",
                .type = transforms,
                .summary = "What happens to each sample that is tested on; nothing random.",
                .default_in_words = "input without what is random about it",
                .variants = &transform_types()},
               {.key = "every",
                .type = choice,
                .summary = "After every epoch, or once at the end.",
                .default_text = "epoch",
                .choices = {"epoch", "end"}}},
          .rule = one_source};
}

Field tune_field() {
  return {
      .key = "tune",
      .type = map,
      .summary = "What the tuner may do.",
      .default_text = "{}",
      .fields = {
          {.key = "objective",
           .type = choice,
           .summary = "What is made as large as possible.",
           .default_text = "samples_per_second",
           .choices = {"samples_per_second"}},
          {.key = "plugins",
           .type = text,
           .summary = "Which plugins may propose changes; their order is the tuner's business.",
           .default_text = "all",
           .shape = Shape::list,
           .keyword = "all"},
          {.key = "budget",
           .type = duration,
           .summary = "Wall-clock time for tuning, training excluded; 0s only trains.",
           .default_text = "10min",
           .range = kNotNegative},
          {.key = "min_gain",
           .type = ratio,
           .summary = "Smaller gains are not worth a change.",
           .default_text = "2%",
           .range = {.minimum = 0, .maximum = 1}},
          {.key = "memory_limit",
           .type = memory,
           .summary = "Memory of the device that a configuration may use. What holds more of the "
                      "host's during tuning is ended.",
           .default_text = "90%"},
          {.key = "cache_memory",
           .type = memory,
           .summary = "Host memory that input.cache may use: a share of what is free, or bytes.",
           .default_text = "50%"},
          {.key = "cache_disk",
           .type = memory,
           .summary = "Disk space that input.cache may use where output.dir is: a share of what is "
                      "free, or bytes.",
           .default_text = "50%"},
          {.key = "allow",
           .type = text,
           .summary = "Changes that are tried although they do not train bit for bit the same: "
                      "numerics, semantics (includes numerics) or single knobs.",
           .default_in_words = "only exact changes",
           .shape = Shape::list},
          {.key = "batch_size",
           .type = map,
           .summary = "Rules for changing the batch size, where allow has it.",
           .default_text = "{}",
           .fields = {{.key = "max",
                       .type = integer,
                       .summary = "Largest batch size to try.",
                       .default_text = "1024",
                       .range = kBatchSizes,
                       .unit = "samples"},
                      {.key = "lr_scaling",
                       .type = choice,
                       .summary = "How the learning rate follows the batch size.",
                       .default_text = "none",
                       .choices = {"none", "linear", "sqrt"}}}}}};
}

Field make_recipe_field() {
  return {
      .type = map,
      .summary =
          "What to train, on what, how long, from which configuration, and what may be tuned.",
      .fields = {
          {.key = "autotuned",
           .type = integer,
           .summary = "Version of the recipe's format.",
           .is_required = true,
           .range = {.minimum = 1, .maximum = 1}},
          {.key = "name",
           .type = name,
           .summary = "What the history calls this job.",
           .is_required = true},
          {.key = "seed",
           .type = integer,
           .summary = "Start of every random generator.",
           .default_text = "1",
           .range = kNotNegative},
          {.key = "device",
           .type = device,
           .summary = "Where to train; auto takes the first GPU, or else the CPU.",
           .default_text = "auto"},
          {.key = "deterministic",
           .type = boolean,
           .summary = "Use deterministic algorithms only.",
           .default_text = "false"},
          {.key = "model",
           .type = typed,
           .summary = "What to train.",
           .is_required = true,
           .variants = &model_types()},
          {.key = "data",
           .type = typed,
           .summary = "What to train on.",
           .is_required = true,
           .variants = &data_types()},
          {.key = "input",
           .type = transforms,
           .summary = "What happens to each sample before the model sees it, in this order.",
           .default_text = "[]",
           .variants = &transform_types()},
          {.key = "loss",
           .type = choice,
           .summary =
               "What is made as small as possible; mse is the mean over samples and "
               "outputs of (output - one-hot label)^2, plugin is the loss of the model's plugin.",
           .default_text = "cross_entropy",
           .choices = {"cross_entropy", "mse", "plugin"}},
          {.key = "optimizer",
           .type = typed,
           .summary = "How parameters are updated.",
           .is_required = true,
           .variants = &optimizer_types()},
          {.key = "schedule",
           .type = typed,
           .summary = "How the learning rate changes in the course of the training.",
           .default_text = "{type: constant}",
           .variants = &schedule_types()},
          train_field(),
          evaluate_field(),
          {.key = "start",
           .type = knobs,
           .summary = "Knobs that start with another value than their default; see "
                      "`autotuned knobs`.",
           .default_text = "{}"},
          tune_field(),
          {.key = "output",
           .type = map,
           .summary = "What is left behind.",
           .default_text = "{}",
           .fields = {{.key = "dir",
                       .type = folder,
                       .summary = "Folder for the model, checkpoints and best.yaml, relative "
                                  "to the current folder.",
                       .default_in_words = "out/NAME, with the recipe's name"},
                      {.key = "checkpoint_every",
                       .type = duration,
                       .summary = "How much training a crash may cost.",
                       .default_text = "10min",
                       .range = kPositive}}}}};
}

}  // namespace

const Field& recipe_field() {
  static const Field field = make_recipe_field();
  return field;
}

}  // namespace autotuned::recipes
