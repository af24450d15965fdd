// SPDX-License-Identifier: Apache-2.0
// Models and optimizers: one entry each.
#include "recipes/schema_table.hpp"

namespace autotuned::recipes {
namespace {

using enum FieldType;

constexpr Range kPositive{.minimum = 0, .open_minimum = true};
constexpr Range kNotNegative{.minimum = 0};
constexpr Range kClasses{.minimum = 2, .maximum = 65'536};

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
