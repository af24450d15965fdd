// SPDX-License-Identifier: Apache-2.0
// Models, data sets, transforms and optimizers: one entry each.
#include "recipes/schema_table.hpp"

namespace autotuned::recipes {
namespace {

using enum FieldType;

constexpr Range kPositiveInteger{.minimum = 1};
constexpr Range kPositive{.minimum = 0, .open_minimum = true};
constexpr Range kNotNegative{.minimum = 0};
constexpr Range kClasses{.minimum = 2, .maximum = 65'536};

Field shuffle_field() {
  return {.key = "shuffle",
          .type = boolean,
          .summary = "Visit the samples of each epoch in a new order, drawn from the seed.",
          .default_text = "true"};
}

std::string same_number_of_channels(const YamlNode& /*map*/, const Json& values) {
  const Json& mean = member(values, "mean");
  const Json& deviation = member(values, "std");
  if (!mean.is_array() || !deviation.is_array() || mean.size() == deviation.size()) return {};
  return "mean has " + std::to_string(mean.size()) + " channels, std has " +
         std::to_string(deviation.size());
}

Field weight_decay_field() {
  return {.key = "weight_decay",
          .type = number,
          .summary = "Pulls the parameters towards 0 (added to the gradient).",
          .default_text = "0",
          .range = kNotNegative};
}

std::string nesterov_needs_momentum(const YamlNode& /*map*/, const Json& values) {
  const Json& nesterov = member(values, "nesterov");
  const Json& momentum = member(values, "momentum");
  if (nesterov != true || !momentum.is_number() || momentum > 0) return {};
  return "nesterov needs a momentum above 0";
}

}  // namespace

// --- models ---------------------------------------------------------------------------------------

const std::vector<Variant>& model_types() {
  static const std::vector<Variant> types{
      {.name = "fashion_cnn",
       .summary = "Two 3x3 convolutions (32 and 64 channels), each with ReLU and 2x2 max pooling, "
                  "then one linear layer.",
       .fields = {{.key = "classes",
                   .type = integer,
                   .summary = "Width of the output.",
                   .default_text = "10",
                   .range = kClasses}}},
      {.name = "mlp",
       .summary = "One hidden layer with ReLU on the flattened sample; small, for quick tests.",
       .fields = {{.key = "hidden",
                   .type = integer,
                   .summary = "Width of the hidden layer.",
                   .default_text = "128",
                   .range = {.minimum = 1, .maximum = 65'536}},
                  {.key = "classes",
                   .type = integer,
                   .summary = "Width of the output.",
                   .default_text = "10",
                   .range = kClasses}}},
  };
  return types;
}

// --- data -----------------------------------------------------------------------------------------

const std::vector<Variant>& data_types() {
  static const std::vector<Variant> types{
      {.name = "idx",
       .summary = "Images and labels in IDX files, plain or gzipped, as MNIST and Fashion-MNIST "
                  "come.",
       .fields = {{.key = "images",
                   .type = path,
                   .summary = "File with the images (unsigned bytes, three dimensions).",
                   .is_required = true},
                  {.key = "labels",
                   .type = path,
                   .summary = "File with one label (unsigned byte) per image.",
                   .is_required = true},
                  shuffle_field(),
                  {.key = "limit",
                   .type = integer,
                   .summary = "Use only the first samples of the files.",
                   .default_in_words = "all samples",
                   .range = kPositiveInteger,
                   .unit = "samples"}}},
      {.name = "synthetic",
       .summary =
           "Made-up images of bytes, always the same, whose label can be learned: for tests.",
       .fields = {{.key = "samples",
                   .type = integer,
                   .summary = "How many samples an epoch has.",
                   .is_required = true,
                   .range = {.minimum = 1, .maximum = 1e9},
                   .unit = "samples"},
                  {.key = "shape",
                   .type = integer,
                   .summary = "Channels, height and width of a sample.",
                   .is_required = true,
                   .range = {.minimum = 1, .maximum = 4096},
                   .shape = Shape::list,
                   .length = 3},
                  {.key = "classes",
                   .type = integer,
                   .summary = "How many labels there are.",
                   .is_required = true,
                   .range = kClasses},
                  shuffle_field()}},
  };
  return types;
}

// --- transforms -----------------------------------------------------------------------------------

const std::vector<Variant>& transform_types() {
  static const std::vector<Variant> types{
      {.name = "scale",
       .summary = "Multiplies every value; 1/255 turns bytes into 0 to 1.",
       .fields = {{.key = "by",
                   .type = number,
                   .summary = "The factor.",
                   .is_required = true,
                   .range = kPositive}}},
      {.name = "normalize",
       .summary = "Subtracts the mean and divides by the standard deviation, per channel.",
       .fields = {{.key = "mean",
                   .type = number,
                   .summary = "One for all channels, or one per channel.",
                   .is_required = true,
                   .shape = Shape::single_or_list},
                  {.key = "std",
                   .type = number,
                   .summary = "One for all channels, or one per channel.",
                   .is_required = true,
                   .range = kPositive,
                   .shape = Shape::single_or_list}},
       .rule = same_number_of_channels},
  };
  return types;
}

// --- optimizers -----------------------------------------------------------------------------------

const std::vector<Variant>& optimizer_types() {
  static const std::vector<Variant> types{
      {.name = "sgd",
       .summary = "Stochastic gradient descent.",
       .fields = {{.key = "lr",
                   .type = number,
                   .summary = "Learning rate at the recipe's own batch size.",
                   .is_required = true,
                   .range = kPositive},
                  {.key = "momentum",
                   .type = number,
                   .summary = "Share of the last step that is kept.",
                   .default_text = "0",
                   .range = {.minimum = 0, .maximum = 1, .open_maximum = true}},
                  weight_decay_field(),
                  {.key = "nesterov",
                   .type = boolean,
                   .summary = "Look ahead along the momentum.",
                   .default_text = "false"}},
       .rule = nesterov_needs_momentum},
      {.name = "adam",
       .summary = "Adam.",
       .fields = {{.key = "lr",
                   .type = number,
                   .summary = "Learning rate at the recipe's own batch size.",
                   .default_text = "0.001",
                   .range = kPositive},
                  {.key = "betas",
                   .type = number,
                   .summary = "Decay of the running means of the gradient and of its square.",
                   .default_text = "[0.9, 0.999]",
                   .range = {.minimum = 0, .maximum = 1, .open_maximum = true},
                   .shape = Shape::list,
                   .length = 2},
                  {.key = "eps",
                   .type = number,
                   .summary = "Added to the denominator.",
                   .default_text = "1e-8",
                   .range = kPositive},
                  weight_decay_field()}},
  };
  return types;
}

}  // namespace autotuned::recipes
