// SPDX-License-Identifier: Apache-2.0
// The keys of a recipe.
#include "recipes/schema_table.hpp"

#include "recipes/recipe.hpp"

namespace autotuned::recipes {
namespace {

using enum FieldType;

constexpr Range kBatchSizes{.minimum = 1, .maximum = 1'048'576};

std::string one_length(const YamlNode& map) {
  const bool has_epochs = map.find("epochs") != nullptr;
  const bool has_steps = map.find("steps") != nullptr;
  if (has_epochs && has_steps) return "epochs and steps exclude each other; keep one of them";
  if (!has_epochs && !has_steps)
    return "the length of the training is missing: expected epochs or steps";
  return {};
}

std::string train_fits(const YamlNode& map, const Json& values) {
  if (std::string wrong = one_length(map); !wrong.empty()) return wrong;
  if (map.find("clip_norm") != nullptr && map.find("clip_value") != nullptr) {
    return "clip_norm and clip_value exclude each other; keep one of them";
  }
  const Json& parts = member(values, "accumulate");
  const Json& samples = member(values, "batch_size");
  if (!parts.is_number() || !samples.is_number() || parts <= samples) return {};
  return "accumulate, " + parts.dump() + ", is more than the " + samples.dump() +
         " samples of a batch";
}

Field train_field() {
  return {
      .key = "train",
      .type = map,
      .summary = "Length of the training, and what a step does.",
      .is_required = true,
      .fields =
          {{.key = "epochs",
            .type = integer,
            .summary = "Number of passes over all samples. Give epochs or steps.",
            .default_in_words = "steps is given instead",
            .range = {.minimum = 1, .maximum = 1e6}},
           {.key = "steps",
            .type = integer,
            .summary = "Number of steps with batch_size samples. If tuning changes the batch "
                       "size, the number of steps changes and the number of samples stays.",
            .default_in_words = "epochs is given instead",
            .range = {.minimum = 1, .maximum = 1e12}},
           {.key = "batch_size",
            .type = integer,
            .summary = "Number of samples in a step.",
            .default_text = "32",
            .range = kBatchSizes,
            .unit = "samples"},
           {.key = "drop_last",
            .type = boolean,
            .summary = "Leave out the last batch of an epoch if it is not full.",
            .default_text = "true"},
           {.key = "ranks",
            .type = integer,
            .summary = "Number of processes of this machine that train together. Each has "
                       "batches of batch_size samples of its own, and gradients are "
                       "averaged (docs/distributed.md).",
            .default_text = "1",
            .range = {.minimum = 1, .maximum = kMaxRanks}},
           {.key = "accumulate",
            .type = integer,
            .summary = "Number of equal parts of a batch that go through the model one after "
                       "the other; their gradients are added up for one step of the "
                       "optimizer.",
            .default_text = "1",
            .range = kBatchSizes},
           {.key = "clip_norm",
            .type = number,
            .summary = "Largest 2-norm of all gradients together; larger ones are scaled "
                       "down.",
            .default_in_words = "no limit",
            .range = kPositive},
           {.key = "clip_value",
            .type = number,
            .summary = "Largest magnitude of an element of a gradient; larger ones are cut "
                       "off.",
            .default_in_words = "no limit",
            .range = kPositive},
           {.key = "ema_decay",
            .type = number,
            .summary = "Keep a running average of the parameters; in each step this share of "
                       "the average stays. Evaluations use it, and it is saved as "
                       "model_ema.pt.",
            .default_in_words = "no average",
            .range = {.minimum = 0, .maximum = 1, .open_minimum = true, .open_maximum = true}},
           {.key = "mixup_alpha",
            .type = number,
            .summary = "Mix each sample of a batch, and its class, with another by a share from "
                       "Beta(alpha, alpha), as torchvision's MixUp. For cross_entropy.",
            .default_in_words = "samples are not mixed",
            .range = kMixAlphas},
           {.key = "cutmix_alpha",
            .type = number,
            .summary = "Replace a rectangle of each sample by that of another, as torchvision's "
                       "CutMix. With both, each batch gets one of the two at random.",
            .default_in_words = "samples are not cut",
            .range = kMixAlphas}},
      .rule = train_fits};
}

std::string one_source(const YamlNode& map) {
  const bool has_data = map.find("data") != nullptr;
  const bool has_split = map.find("split") != nullptr;
  if (has_data && has_split) return "data and split exclude each other; keep one of them";
  if (!has_data && !has_split) {
    return "the test data are missing: expected data, or split for a share of the training data";
  }
  return {};
}

std::string evaluation_fits(const YamlNode& map, const Json& values) {
  if (std::string wrong = one_source(map); !wrong.empty()) return wrong;
  if (map.find("patience") == nullptr || member(values, "every") != "end") return {};
  return "patience needs an evaluation after every epoch; write every: epoch";
}

Field evaluate_field() {
  return {.key = "evaluate",
          .type = map,
          .summary = "Test the model on data that it was not trained on.",
          .default_in_words = "no evaluation",
          .fields =
              {{.key = "data",
                .type = typed,
                .summary = "The test data, of any type of data. Give data or split.",
                .default_in_words = "split is given instead",
                .variants = &data_types()},
               {.key = "split",
                .type = ratio,
                .summary = "Share of the training data to test on, drawn by the seed. The rest is "
                           "trained on. Give split or data.",
                .default_in_words = "data is given instead",
                .range = {.minimum = 0, .maximum = 1, .open_minimum = true, .open_maximum = true}},
               {.key = "input",
                .type = transforms,
                .summary = "Transforms of each test sample, in this order. None may be random.",
                .default_in_words = "input without its random transforms",
                .variants = &transform_types()},
               {.key = "every",
                .type = choice,
                .summary = "Evaluate after every epoch, or once at the end.",
                .default_text = "epoch",
                .choices = {"epoch", "end"}},
               {.key = "best_by",
                .type = choice,
                .summary = "The figure by which one evaluation is better than another.",
                .default_in_words = "accuracy; numbers and tokens: loss; tags: f1; masks: miou",
                .choices = {"accuracy", "loss", "mae", "r2", "f1", "miou"}},
               {.key = "save_best",
                .type = boolean,
                .summary = "Save the weights of the best evaluation as model_best.pt beside "
                           "model.pt.",
                .default_text = "false"},
               {.key = "patience",
                .type = integer,
                .summary = "End the training when so many evaluations in a row were no better than "
                           "the best one before.",
                .default_in_words = "train to the end",
                .range = {.minimum = 1, .maximum = 1e6},
                .unit = "evaluations"}},
          .rule = evaluation_fits};
}

Field tune_field() {
  return {.key = "tune",
          .type = map,
          .summary = "Limits of the tuning.",
          .default_text = "{}",
          .fields = {
              {.key = "objective",
               .type = choice,
               .summary = "The figure that tuning maximises.",
               .default_text = "samples_per_second",
               .choices = {"samples_per_second"}},
              {.key = "plugins",
               .type = text,
               .summary = "The plugins that may propose changes. The tuner decides their order.",
               .default_text = "all",
               .shape = Shape::list,
               .keyword = "all"},
              {.key = "budget",
               .type = duration,
               .summary =
                   "Wall-clock time for tuning, without the training. With 0s the run only trains.",
               .default_text = "10min",
               .range = kNotNegative},
              {.key = "min_gain",
               .type = ratio,
               .summary = "Minimum gain: a change must be faster by this ratio to be kept.",
               .default_text = "2%",
               .range = {.minimum = 0, .maximum = 1}},
              {.key = "memory_limit",
               .type = memory,
               .summary = "Memory of the device that a configuration may use. A share limits host "
                          "memory too. A trial that exceeds the limit is ended.",
               .default_text = "90%"},
              {.key = "cache_memory",
               .type = memory,
               .summary =
                   "Host memory that input.cache may use: a share of the free memory, or a size.",
               .default_text = "50%"},
              {.key = "cache_disk",
               .type = memory,
               .summary = "Disk space that input.cache may use on the disk of output.dir: a share "
                          "of the free space, or a size.",
               .default_text = "50%"},
              {.key = "allow",
               .type = text,
               .summary = "Permission for changes that are not exact: numerics, semantics "
                          "(includes numerics) or single knobs.",
               .default_in_words = "only exact changes",
               .shape = Shape::list},
              {.key = "batch_size",
               .type = map,
               .summary = "Rules for changes of the batch size, if allow permits them.",
               .default_text = "{}",
               .fields = {{.key = "max",
                           .type = integer,
                           .summary = "Largest batch size to try.",
                           .default_text = "1024",
                           .range = kBatchSizes,
                           .unit = "samples"},
                          {.key = "lr_scaling",
                           .type = choice,
                           .summary = "The rule by which the learning rate follows the batch size.",
                           .default_text = "none",
                           .choices = {"none", "linear", "sqrt"}}}}}};
}

Field output_field() {
  return {.key = "output",
          .type = map,
          .summary = "Files that a run writes.",
          .default_text = "{}",
          .fields = {{.key = "dir",
                      .type = folder,
                      .summary = "Folder for the model, checkpoints and best.yaml, relative "
                                 "to the current folder.",
                      .default_in_words = "out/NAME, with the recipe's name"},
                     {.key = "checkpoint_every",
                      .type = duration,
                      .summary = "Time between two checkpoints, which is the most training that a "
                                 "crash can cost.",
                      .default_text = "10min",
                      .range = kPositive},
                     {.key = "save_every",
                      .type = integer,
                      .summary = "Save the weights after every so many epochs, as "
                                 "weights-RUN/model_epoch_N.pt.",
                      .default_in_words = "only at the end",
                      .range = {.minimum = 1, .maximum = 1e6},
                      .unit = "epochs"},
                     {.key = "save_every_steps",
                      .type = integer,
                      .summary = "Save the weights after every so many steps with batch_size "
                                 "samples, as weights-RUN/model_step_N.pt.",
                      .default_in_words = "only at the end",
                      .range = {.minimum = 1, .maximum = 1e12},
                      .unit = "steps"},
                     {.key = "keep",
                      .type = integer,
                      .summary = "Number of the files of save_every and save_every_steps together "
                                 "that are kept. Older ones are deleted.",
                      .default_text = "3",
                      .range = {.minimum = 1, .maximum = 1e6},
                      .unit = "files"},
                     {.key = "keep_state",
                      .type = boolean,
                      .summary = "Keep the state at the end of the training as "
                                 "training_state.pt, from which `autotuned run --extend` goes on. "
                                 "It has one to four times the size of model.pt.",
                      .default_text = "true"}}};
}

Field make_recipe_field() {
  return {
      .type = map,
      .summary =
          "The training job, its length, its starting configuration and the limits of tuning.",
      .fields = {
          {.key = "autotuned",
           .type = integer,
           .summary = "Version of the recipe's format.",
           .is_required = true,
           .range = {.minimum = 1, .maximum = 1}},
          {.key = "name",
           .type = name,
           .summary = "Name of the job in the history.",
           .is_required = true},
          {.key = "seed",
           .type = integer,
           .summary = "Seed of every random generator.",
           .default_text = "1",
           .range = kNotNegative},
          {.key = "device",
           .type = device,
           .summary = "The device to train on. auto is the first GPU, or the CPU if there is none.",
           .default_text = "auto"},
          {.key = "deterministic",
           .type = boolean,
           .summary = "Use deterministic algorithms only.",
           .default_text = "false"},
          {.key = "model",
           .type = typed,
           .summary = "The model to train.",
           .is_required = true,
           .variants = &model_types()},
          {.key = "data",
           .type = typed,
           .summary = "The training data.",
           .is_required = true,
           .variants = &data_types()},
          {.key = "input",
           .type = transforms,
           .summary = "Transforms of each sample before it reaches the model, in this order.",
           .default_text = "[]",
           .variants = &transform_types()},
          {.key = "loss",
           .type = typed,
           .summary = "The loss that training minimises.",
           .default_text = "cross_entropy",
           .variants = &loss_types(),
           .may_be_name = true},
          {.key = "optimizer",
           .type = typed,
           .summary = "The optimizer that updates the parameters.",
           .is_required = true,
           .variants = &optimizer_types()},
          {.key = "schedule",
           .type = typed,
           .summary = "The schedule by which the learning rate changes during the training.",
           .default_text = "{type: constant}",
           .variants = &schedule_types()},
          train_field(),
          evaluate_field(),
          {.key = "start",
           .type = knobs,
           .summary = "Values of knobs in the starting configuration, if they differ from the "
                      "defaults (`autotuned knobs`).",
           .default_text = "{}"},
          tune_field(),
          output_field()}};
}

}  // namespace

const Field& recipe_field() {
  static const Field field = make_recipe_field();
  return field;
}

}  // namespace autotuned::recipes
