// SPDX-License-Identifier: Apache-2.0
// Models: one entry each.
#include "recipes/schema_table.hpp"

namespace autotuned::recipes {
namespace {

using enum FieldType;

// A single output is for data with one number. Data with classes need at least two.
constexpr Range kOutputs{.minimum = 1, .maximum = 65'536};

Field classes_field(std::string_view by_default) {
  return {.key = "classes",
          .type = integer,
          .summary = "Width of the output.",
          .default_text = by_default,
          .range = kOutputs};
}

Field dropout_field() {
  return {.key = "dropout",
          .type = number,
          .summary = "Share of the inputs of the last layer that a training step sets to 0.",
          .default_text = "0.2",
          .range = {.minimum = 0, .maximum = 1, .open_maximum = true}};
}

Field stochastic_depth_field(std::string_view by_default) {
  return {.key = "stochastic_depth",
          .type = number,
          .summary =
              "Limit of the share of samples for which a training step leaves out a block; the "
              "share rises from 0 with the depth.",
          .default_text = by_default,
          .range = {.minimum = 0, .maximum = 1, .open_maximum = true}};
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

std::string heads_divide_width(const YamlNode& /*map*/, const Json& values) {
  const auto width = get_integer(values, "width");
  const auto heads = get_integer(values, "heads");
  if (!width || !heads || *width % *heads == 0) return {};
  return "width, " + std::to_string(*width) + ", must be a multiple of heads, " +
         std::to_string(*heads);
}

// Keys for initial weights and for parameters that are not trained. A plugin has none, because its own parameters may have these
// names.
std::vector<Variant> with_start(std::vector<Variant> types) {
  for (Variant& variant : types) {
    if (variant.is_plugin) continue;
    variant.fields.push_back({.key = "weights",
                              .type = path,
                              .summary = "A file with the initial weights, such as the model.pt of "
                                         "a run or torch.save(dict(model.state_dict()), FILE).",
                              .default_in_words = "drawn by the seed"});
    variant.fields.push_back({.key = "weights_except",
                              .type = text,
                              .summary = "Parameters, buffers or modules that the file does not "
                                         "give, such as the last layer.",
                              .default_in_words = "the file gives all",
                              .shape = Shape::list});
    variant.fields.push_back({.key = "freeze",
                              .type = text,
                              .summary = "Parameters or modules that are not trained.",
                              .default_in_words = "all are trained",
                              .shape = Shape::list});
  }
  return types;
}

// --- models ---------------------------------------------------------------------------------------

const std::vector<Variant>& models_alone() {
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
       .summary = "3x3 convolutions until one pixel is left, each with ReLU and, after the first, "
                  "2x2 max pooling. For square images whose size is a power of two.",
       .fields = {{.key = "hidden_channels",
                   .type = integer,
                   .summary = "Number of channels between the convolutions.",
                   .default_text = "30",
                   .range = {.minimum = 1, .maximum = 4096}},
                  classes_field("10")}},
      {.name = "resnet18",
       .summary = "ResNet-18 as in torchvision, for images of 3 channels.",
       .fields = {classes_field("1000")}},
      {.name = "resnet34",
       .summary = "ResNet-34 as in torchvision, for images of 3 channels.",
       .fields = {classes_field("1000")}},
      {.name = "resnet50",
       .summary = "ResNet-50 as in torchvision, for images of 3 channels.",
       .fields = {classes_field("1000")}},
      {.name = "convnext_tiny",
       .summary = "ConvNeXt-T as in torchvision, for images of 3 channels, from 32 x 32.",
       .fields = {stochastic_depth_field("0.1"), classes_field("1000")}},
      {.name = "efficientnet_b0",
       .summary = "EfficientNet-B0 as in torchvision, for images of 3 channels.",
       .fields = {dropout_field(), stochastic_depth_field("0.2"), classes_field("1000")}},
      {.name = "mobilenet_v3_large",
       .summary = "MobileNetV3-Large as in torchvision, for images of 3 channels.",
       .fields = {dropout_field(), classes_field("1000")}},
      {.name = "mobilenet_v3_small",
       .summary = "MobileNetV3-Small as in torchvision, for images of 3 channels.",
       .fields = {dropout_field(), classes_field("1000")}},
      {.name = "unet",
       .summary =
           "U-Net with batch norm, for masks: a class for each pixel of images of any number "
           "of channels, whose height and width are multiples of 2^depth.",
       .fields = {{.key = "width",
                   .type = integer,
                   .summary = "Channels at full size. Each halving of the size doubles them.",
                   .default_text = "64",
                   .range = {.minimum = 1, .maximum = 1024}},
                  {.key = "depth",
                   .type = integer,
                   .summary = "How many times the size is halved.",
                   .default_text = "4",
                   .range = {.minimum = 1, .maximum = 8}},
                  {.key = "classes",
                   .type = integer,
                   .summary = "Number of classes of a pixel.",
                   .default_text = "2",
                   .range = {.minimum = 2, .maximum = 255}}}},
      {.name = "vit",
       .summary = "Vision Transformer as in timm, for images whose height and width "
                  "are multiples of the patch.",
       .fields =
           {{.key = "size",
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
             .default_in_words = "given by size",
             .range = {.minimum = 1, .maximum = 16'384}},
            {.key = "depth",
             .type = integer,
             .summary = "Number of blocks.",
             .default_in_words = "given by size",
             .range = {.minimum = 0, .maximum = 256}},
            {.key = "heads",
             .type = integer,
             .summary = "Attention heads in a block.",
             .default_in_words = "given by size",
             .range = {.minimum = 1, .maximum = 256}},
            {.key = "pool",
             .type = choice,
             .summary = "Classify by the class token, or by the mean of the patches.",
             .default_text = "token",
             .choices = {"token", "avg"}},
            {.key = "patch_dropout",
             .type = number,
             .summary =
                 "Share of the patches that a training step leaves out, drawn for each sample.",
             .default_text = "0",
             .range = {.minimum = 0, .maximum = 1, .open_maximum = true}},
            classes_field("1000")},
       .rule = heads_divide_embedding},
      {.name = "gpt",
       .summary = "GPT-2 as in nanoGPT, for data of tokens: pre-norm, GELU, causal attention.",
       .fields = {{.key = "layers",
                   .type = integer,
                   .summary = "Number of blocks.",
                   .is_required = true,
                   .range = {.minimum = 1, .maximum = 256}},
                  {.key = "heads",
                   .type = integer,
                   .summary = "Attention heads in a block.",
                   .is_required = true,
                   .range = {.minimum = 1, .maximum = 256}},
                  {.key = "width",
                   .type = integer,
                   .summary = "Width of the embedding, a multiple of heads.",
                   .is_required = true,
                   .range = {.minimum = 1, .maximum = 16'384}},
                  {.key = "context",
                   .type = integer,
                   .summary = "Positions that have an embedding: the longest block that it takes.",
                   .default_in_words = "the context of the data",
                   .range = {.minimum = 1, .maximum = 65'536},
                   .unit = "tokens"},
                  {.key = "vocabulary",
                   .type = integer,
                   .summary = "Number of different tokens.",
                   .default_in_words = "the vocabulary of the data",
                   .range = {.minimum = 2, .maximum = 16'777'216}},
                  {.key = "dropout",
                   .type = number,
                   .summary = "Share of the embedding, of the attention and of what a block adds "
                              "that a training step sets to 0.",
                   .default_text = "0",
                   .range = {.minimum = 0, .maximum = 1, .open_maximum = true}},
                  {.key = "bias",
                   .type = boolean,
                   .summary = "Whether linear layers and norms have a bias.",
                   .default_text = "true"},
                  {.key = "tied",
                   .type = boolean,
                   .summary = "Whether the last layer has the weights of the embedding.",
                   .default_text = "true"}},
       .rule = heads_divide_width},
      {.name = "paced",
       .summary = "Simulates an accelerator: reads every pixel, trains one linear layer on the "
                  "means of the channels, and lets each training step wait without using the CPU.",
       .fields = {{.key = "step_ms",
                   .type = number,
                   .summary = "Waiting time of a step. With 0 the job only loads data.",
                   .is_required = true,
                   .range = {.minimum = 0, .maximum = 60'000},
                   .unit = "milliseconds"},
                  classes_field("10")}},
      {.name = "torchscript",
       .summary = "A TorchScript model from a file written by torch.jit.script(model).save(file).",
       .fields = {{.key = "file",
                   .type = path,
                   .summary = "The file. Its forward takes images (samples, channels, height, "
                              "width) and returns logits (samples, classes), or for masks "
                              "(samples, classes, height, width).",
                   .is_required = true},
                  {.key = "classes",
                   .type = integer,
                   .summary = "Expected width of the output.",
                   .default_in_words = "the width that the model returns",
                   .range = kOutputs}}},
      {.name = kPluginType,
       .summary = "Model of a workload plugin, written {plugin: NAME, …}. Further keys are "
                  "parameters of the plugin.",
       .fields = {{.key = "plugin",
                   .type = text,
                   .summary = "Name of the workload plugin (`autotuned plugins` lists all).",
                   .is_required = true}},
       .is_plugin = true},
  };
  return types;
}

}  // namespace

const std::vector<Variant>& model_types() {
  static const std::vector<Variant> types = with_start(models_alone());
  return types;
}

}  // namespace autotuned::recipes
