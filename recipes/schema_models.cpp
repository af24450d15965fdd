// SPDX-License-Identifier: Apache-2.0
// Models, optimizers and schedules: one entry each.
#include "recipes/schema_table.hpp"

namespace autotuned::recipes {
namespace {

using enum FieldType;

constexpr Range kPositive{.minimum = 0, .open_minimum = true};
constexpr Range kNotNegative{.minimum = 0};
constexpr Range kClasses{.minimum = 2, .maximum = 65'536};

Field classes_field(std::string_view by_default) {
  return {.key = "classes",
          .type = integer,
          .summary = "Width of the output.",
          .default_text = by_default,
          .range = kClasses};
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

std::string heads_divide_embedding(const YamlNode& /*map*/, const Json& values) {
  const Json& size = member(values, "size");
  if (!size.is_string()) return {};
  const std::int64_t scale = size == "tiny" ? 1 : size == "small" ? 2 : 4;
  const std::int64_t embed = get_integer(values, "embed").value_or(192 * scale);
  const std::int64_t heads = get_integer(values, "heads").value_or(3 * scale);
  if (embed % heads == 0) return {};
  return "embed, " + std::to_string(embed) + ", must be a multiple of heads, " +
         std::to_string(heads);
}

Field learning_rate_field() {
  return {.key = "lr",
          .type = number,
          .summary = "Learning rate at the recipe's own batch size.",
          .default_text = "0.001",
          .range = kPositive};
}

Field betas_field() {
  return {.key = "betas",
          .type = number,
          .summary = "Decay of the running means of the gradient and of its square.",
          .default_text = "[0.9, 0.999]",
          .range = {.minimum = 0, .maximum = 1, .open_maximum = true},
          .shape = Shape::list,
          .length = 2};
}

Field epsilon_field() {
  return {.key = "eps",
          .type = number,
          .summary = "Added to the denominator.",
          .default_text = "1e-8",
          .range = kPositive};
}

}  // namespace

// --- models ---------------------------------------------------------------------------------------

const std::vector<Variant>& model_types() {
  static const std::vector<Variant> types{
      {.name = "fashion_cnn",
       .summary = "Two 3x3 convolutions (32 and 64 channels), each with ReLU and 2x2 max pooling, "
                  "then one linear layer.",
       .fields = {classes_field("10")}},
      {.name = "mlp",
       .summary = "One hidden layer with ReLU on the flattened sample; small, for quick tests.",
       .fields = {{.key = "hidden",
                   .type = integer,
                   .summary = "Width of the hidden layer.",
                   .default_text = "128",
                   .range = {.minimum = 1, .maximum = 65'536}},
                  classes_field("10")}},
      {.name = "simple_cnn",
       .summary = "Four 3x3 convolutions of 128 channels, each with ReLU and 2x2 max pooling, then "
                  "linear layers to 256 and to the classes.",
       .fields = {classes_field("10")}},
      {.name = "pooling_cnn",
       .summary = "3x3 convolutions, each with ReLU and, after the first, 2x2 max pooling, until "
                  "one pixel is left; square images whose size is a power of two.",
       .fields = {{.key = "hidden_channels",
                   .type = integer,
                   .summary = "Channels between the convolutions.",
                   .default_text = "30",
                   .range = {.minimum = 1, .maximum = 4096}},
                  classes_field("10")}},
      {.name = "resnet18",
       .summary = "ResNet-18 as in torchvision, for images of 3 channels.",
       .fields = {classes_field("1000")}},
      {.name = "resnet50",
       .summary = "ResNet-50 as in torchvision, for images of 3 channels.",
       .fields = {classes_field("1000")}},
      {.name = "vit",
       .summary = "Vision Transformer as in timm, for images whose height and width "
                  "are multiples of the patch.",
       .fields = {{.key = "size",
                   .type = choice,
                   .summary = "Embedding, depth and heads: 192, 12, 3; 384, 12, 6; or 768, 12, 12.",
                   .is_required = true,
                   .choices = {"tiny", "small", "base"}},
                  {.key = "patch",
                   .type = integer,
                   .summary = "Height and width of a patch.",
                   .default_text = "16",
                   .range = {.minimum = 1, .maximum = 1024},
                   .unit = "pixels"},
                  {.key = "embed",
                   .type = integer,
                   .summary = "Width of the embedding, a multiple of heads.",
                   .default_in_words = "as size says",
                   .range = {.minimum = 1, .maximum = 16'384}},
                  {.key = "depth",
                   .type = integer,
                   .summary = "Number of blocks.",
                   .default_in_words = "as size says",
                   .range = {.minimum = 0, .maximum = 256}},
                  {.key = "heads",
                   .type = integer,
                   .summary = "Attention heads in a block.",
                   .default_in_words = "as size says",
                   .range = {.minimum = 1, .maximum = 256}},
                  {.key = "pool",
                   .type = choice,
                   .summary = "Classify by the class token, or by the mean of the patches.",
                   .default_text = "token",
                   .choices = {"token", "avg"}},
                  {.key = "patch_dropout",
                   .type = number,
                   .summary = "Share of the patches that a training step leaves out, drawn anew "
                              "for each sample.",
                   .default_text = "0",
                   .range = {.minimum = 0, .maximum = 1, .open_maximum = true}},
                  classes_field("1000")},
       .rule = heads_divide_embedding},
      {.name = "paced",
       .summary = "Stands in for an accelerator: reads every pixel, trains one linear layer on the "
                  "mean of each channel, and makes each training step wait without using the CPU.",
       .fields = {{.key = "step_ms",
                   .type = number,
                   .summary = "How long a step waits; 0 leaves a job that only loads data.",
                   .is_required = true,
                   .range = {.minimum = 0, .maximum = 60'000},
                   .unit = "milliseconds"},
                  classes_field("10")}},
      {.name = "torchscript",
       .summary = "A model from a file that Python wrote with torch.jit.script(model).save(file).",
       .fields = {{.key = "file",
                   .type = path,
                   .summary = "The file; forward takes images (samples, channels, height, width) "
                              "and returns logits (samples, classes).",
                   .is_required = true},
                  {.key = "classes",
                   .type = integer,
                   .summary = "Width of the output, as a check.",
                   .default_in_words = "what the model returns",
                   .range = kClasses}}},
      {.name = kPluginType,
       .summary = "A model of a workload plugin, written {plugin: NAME, …}; further keys are the "
                  "plugin's parameters.",
       .fields = {{.key = "plugin",
                   .type = text,
                   .summary = "The workload plugin; `autotuned plugins` lists those found.",
                   .is_required = true}},
       .is_plugin = true},
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
       .fields = {learning_rate_field(), betas_field(), epsilon_field(), weight_decay_field()}},
      {.name = "adamw",
       .summary = "Adam whose weight decay does not go through the gradient.",
       .fields = {learning_rate_field(),
                  betas_field(),
                  epsilon_field(),
                  {.key = "weight_decay",
                   .type = number,
                   .summary = "Each step takes this share, times the learning rate, off the "
                              "parameters.",
                   .default_text = "0.01",
                   .range = kNotNegative}}},
      {.name = "adagrad",
       .summary = "Adagrad: each number's rate falls with the sum of its squared gradients.",
       .fields = {{.key = "lr",
                   .type = number,
                   .summary = "Learning rate at the recipe's own batch size.",
                   .default_text = "0.01",
                   .range = kPositive},
                  {.key = "lr_decay",
                   .type = number,
                   .summary = "The rate of step n is divided by 1 + lr_decay * (n - 1).",
                   .default_text = "0",
                   .range = kNotNegative},
                  {.key = "eps",
                   .type = number,
                   .summary = "Added to the denominator.",
                   .default_text = "1e-10",
                   .range = kPositive},
                  {.key = "initial_accumulator_value",
                   .type = number,
                   .summary = "What the sums of squares start with.",
                   .default_text = "0",
                   .range = kNotNegative},
                  weight_decay_field()}},
  };
  return types;
}

// --- schedules ------------------------------------------------------------------------------------

const std::vector<Variant>& schedule_types() {
  static const std::vector<Variant> types{
      {.name = "constant", .summary = "The learning rate stays as the optimizer says."},
      {.name = "step",
       .summary = "The learning rate drops after every so many epochs.",
       .fields = {{.key = "step_epochs",
                   .type = integer,
                   .summary = "Epochs between two drops.",
                   .is_required = true,
                   .range = {.minimum = 1, .maximum = 1e6},
                   .unit = "epochs"},
                  {.key = "gamma",
                   .type = number,
                   .summary = "What a drop multiplies the learning rate with.",
                   .default_text = "0.1",
                   .range = {.minimum = 0, .maximum = 1, .open_minimum = true}}}},
      {.name = "cosine",
       .summary = "The learning rate rises in a line from a hundredth of itself, then falls along "
                  "half a cosine until the end of the training.",
       .fields = {{.key = "warmup_ratio",
                   .type = number,
                   .summary = "Share of the training in which it rises.",
                   .default_text = "0",
                   .range = {.minimum = 0, .maximum = 1}},
                  {.key = "min_lr_ratio",
                   .type = number,
                   .summary = "Share of the learning rate that is left at the end.",
                   .default_text = "0",
                   .range = {.minimum = 0, .maximum = 1}}}},
  };
  return types;
}

}  // namespace autotuned::recipes
