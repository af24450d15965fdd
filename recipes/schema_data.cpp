// SPDX-License-Identifier: Apache-2.0
// Data sets and transforms: one entry each.
#include "recipes/schema_table.hpp"

namespace autotuned::recipes {
namespace {

using enum FieldType;

constexpr Range kPositiveInteger{.minimum = 1};
constexpr Range kPositive{.minimum = 0, .open_minimum = true};
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

}  // namespace

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

}  // namespace autotuned::recipes
