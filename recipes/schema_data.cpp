// SPDX-License-Identifier: Apache-2.0
// Data sets and transforms: one entry each.
#include "recipes/schema_table.hpp"

namespace autotuned::recipes {
namespace {

using enum FieldType;

constexpr Range kPositiveInteger{.minimum = 1};
constexpr Range kPositive{.minimum = 0, .open_minimum = true};
constexpr Range kFactor{.minimum = 0, .maximum = 100};
constexpr Range kTurn{.minimum = -0.5, .maximum = 0.5};
constexpr Range kClasses{.minimum = 2, .maximum = 65'536};

Field shuffle_field() {
  return {.key = "shuffle",
          .type = boolean,
          .summary = "Visit the samples of each epoch in a new order, drawn from the seed.",
          .default_text = "true"};
}

Field samples_field() {
  return {.key = "samples",
          .type = integer,
          .summary = "How many samples an epoch has.",
          .is_required = true,
          .range = {.minimum = 1, .maximum = 1e9},
          .unit = "samples"};
}

Field shape_field() {
  return {.key = "shape",
          .type = integer,
          .summary = "Channels, height and width of a sample.",
          .is_required = true,
          .range = {.minimum = 1, .maximum = 4096},
          .shape = Shape::list,
          .length = 3};
}

Field classes_field() {
  return {.key = "classes",
          .type = integer,
          .summary = "How many labels there are.",
          .is_required = true,
          .range = kClasses};
}

Field repeat_field() {
  return {.key = "repeat_to",
          .type = integer,
          .summary = "Go through the files again and again until there are so many samples.",
          .default_in_words = "each file once",
          .range = {.minimum = 1, .maximum = 1e9},
          .unit = "samples"};
}

Field on_error_field() {
  return {.key = "on_error",
          .type = choice,
          .summary =
              "What happens when a picture cannot be read. stop: the job ends with its name. "
              "skip: the next one of the data stands in for it, until more than 10 and more "
              "than 1 % are like that.",
          .default_in_words = "stop",
          .choices = {"stop", "skip"}};
}

// Of data in picture files.
std::vector<Field> picture_fields(std::string_view files, std::string_view remedy) {
  return {{.key = "files",
           .type = FieldType::files,
           .summary = files,
           .is_required = true,
           .shape = Shape::single_or_list,
           .remedy = remedy},
          repeat_field(),
          {.key = "labels",
           .type = choice,
           .summary = "random: any class, always the same for a sample; folder_names: the folder "
                      "that a file lies in, numbered in the order of the names.",
           .default_text = "folder_names",
           .choices = {"random", "folder_names"}},
          {.key = "classes",
           .type = integer,
           .summary = "How many labels there are.",
           .default_in_words = "10 where they are random, else the number of folders",
           .range = kClasses},
          on_error_field(),
          shuffle_field()};
}

Field amount_field(std::string_view key, std::string_view summary, Range range) {
  return {.key = key,
          .type = number,
          .summary = summary,
          .default_in_words = "left as it is",
          .range = range,
          .shape = Shape::single_or_list,
          .length = 2};
}

Field size_field() {
  return {.key = "size",
          .type = integer,
          .summary = "Pixels of both sides, or [height, width].",
          .is_required = true,
          .range = {.minimum = 1, .maximum = 65'536},
          .shape = Shape::single_or_list,
          .length = 2};
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
      {.name = "cifar10",
       .summary = "CIFAR-10 in its binary version: 3 x 32 x 32 bytes and ten classes. Data of type "
                  "synthetic with shape [3, 32, 32] and 10 classes has the same form.",
       .fields = {{.key = "files",
                   .type = FieldType::files,
                   .summary =
                       "The files, such as cifar-10-batches-bin/data_batch_*.bin; read whole "
                       "into memory.",
                   .is_required = true,
                   .shape = Shape::single_or_list,
                   .remedy = "unpack the binary version of CIFAR-10 there, or use data of type "
                             "synthetic with shape [3, 32, 32] and 10 classes, which has the same "
                             "form"},
                  shuffle_field()}},
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
      {.name = "image_files",
       .summary = "JPEG and PNG files, read when they are needed. Their sizes are looked at before "
                  "training (of the first 20,000).",
       .fields = picture_fields("The files, such as photos/*/*.png or [photos/*.jpg, more/*.png].",
                                "put JPEG or PNG files there")},
      {.name = "image_index",
       .summary = "JPEG and PNG files that a table names, with a label for each; all else as "
                  "image_files.",
       .fields = {{.key = "index",
                   .type = path,
                   .summary = "A CSV file with a line `file,label` per picture. Files are relative "
                              "to its folder. Labels are integers from 0 on, or names, which are "
                              "numbered in their order.",
                   .is_required = true},
                  repeat_field(),
                  {.key = "classes",
                   .type = integer,
                   .summary = "How many labels there are.",
                   .default_in_words = "the highest label and one, or the number of names",
                   .range = kClasses},
                  on_error_field(),
                  shuffle_field()}},
      {.name = "jpeg_files",
       .summary = "JPEG files alone; all else as image_files.",
       .fields = picture_fields(
           "The files, such as photos/*.jpg or photos/*/*.jpg.",
           "put JPEG files there (scripts/setup --photos makes those of .deps/photos)")},
      {.name = "npy",
       .summary = "Numbers as numpy.save writes them, read when they are needed.",
       .fields = {{.key = "images",
                   .type = FieldType::files,
                   .summary =
                       "The .npy files, in this order: arrays of bytes or 32-bit floats with "
                       "the shape (samples, rows, columns) or with channels.",
                   .is_required = true,
                   .shape = Shape::single_or_list,
                   .remedy = "save an array there with numpy.save"},
                  {.key = "labels",
                   .type = FieldType::files,
                   .summary = "The .npy files with an integer from 0 on for every sample.",
                   .is_required = true,
                   .shape = Shape::single_or_list,
                   .remedy = "save an array there with numpy.save"},
                  {.key = "layout",
                   .type = choice,
                   .summary = "Where the channels stand: nchw: before rows and columns; nhwc: "
                              "behind them.",
                   .default_text = "nchw",
                   .choices = {"nchw", "nhwc"}},
                  {.key = "classes",
                   .type = integer,
                   .summary = "How many labels there are.",
                   .default_in_words = "the highest label and one",
                   .range = kClasses},
                  shuffle_field()}},
      {.name = "synthetic",
       .summary =
           "Made-up images of bytes, always the same, whose label can be learned: for tests.",
       .fields = {samples_field(), shape_field(), classes_field(), shuffle_field()}},
      {.name = "synthetic_normal",
       .summary = "Floats drawn from the standard normal distribution, with labels in turn: for "
                  "measuring, as nothing can be learned from them.",
       .fields = {samples_field(), shape_field(), classes_field(), shuffle_field()}},
      {.name = "tar",
       .summary =
           "JPEG and PNG files with a label each in tar files, packed as WebDataset does: KEY.jpg "
           "(.jpeg, .png) and KEY.cls, an integer from 0 on, next to each other.",
       .fields = {{.key = "files",
                   .type = FieldType::files,
                   .summary =
                       "The files, such as train-*.tar; not compressed, as samples are read from "
                       "anywhere in them.",
                   .is_required = true,
                   .shape = Shape::single_or_list,
                   .remedy = "put tar files there"},
                  repeat_field(),
                  {.key = "classes",
                   .type = integer,
                   .summary = "How many labels there are.",
                   .default_in_words = "the highest label and one",
                   .range = kClasses},
                  on_error_field(),
                  shuffle_field()}},
      {.name = kPluginType,
       .summary = "Data of a workload plugin, written {plugin: NAME, …}; further keys are the "
                  "plugin's parameters.",
       .fields = {{.key = "plugin",
                   .type = text,
                   .summary = "The workload plugin; `autotuned plugins` lists those found.",
                   .is_required = true},
                  shuffle_field()},
       .is_plugin = true},
  };
  return types;
}

// --- transforms -----------------------------------------------------------------------------------

const std::vector<Variant>& transform_types() {
  static const std::vector<Variant> types{
      {.name = "decode",
       .summary = "Makes a picture of red, green and blue bytes out of a JPEG or PNG file, as PIL "
                  "does; transparency is dropped."},
      {.name = "decode_jpeg", .summary = "The same for JPEG files alone."},
      {.name = "random_crop",
       .summary = "Cuts a part out of the picture, anywhere within it.",
       .fields = {size_field()},
       .remedy_for_evaluation = "use center_crop"},
      {.name = "center_crop",
       .summary = "Cuts the middle out of the picture.",
       .fields = {size_field()}},
      {.name = "color_jitter",
       .summary =
           "Changes the colours by amounts drawn from what is given, in an order that is drawn, "
           "too: the same bytes as torchvision's ColorJitter of a PIL image. A number x means "
           "1 - x to 1 + x, for hue -x to x.",
       .fields = {amount_field("brightness", "Factor, or [lowest, highest].", kFactor),
                  amount_field("contrast", "Factor, or [lowest, highest].", kFactor),
                  amount_field("saturation", "Factor, or [lowest, highest].", kFactor),
                  amount_field("hue", "Share of the circle of colours, or [lowest, highest].",
                               kTurn)},
       .remedy_for_evaluation = "leave it out"},
      {.name = "random_flip",
       .summary = "Exchanges left and right, by chance.",
       .fields = {{.key = "probability",
                   .type = number,
                   .summary = "How often.",
                   .default_text = "0.5",
                   .range = {.minimum = 0, .maximum = 1}}},
       .remedy_for_evaluation = "leave it out"},
      {.name = "random_resized_crop",
       .summary = "Cuts out a part whose share of the picture and whose proportions are drawn, and "
                  "resizes it, as torchvision's RandomResizedCrop does.",
       .fields = {size_field(),
                  {.key = "scale",
                   .type = number,
                   .summary = "Share of the picture, [lowest, highest].",
                   .default_in_words = "[0.08, 1]",
                   .range = {.minimum = 0.001, .maximum = 1},
                   .shape = Shape::list,
                   .length = 2},
                  {.key = "ratio",
                   .type = number,
                   .summary = "Width over height before resizing, [lowest, highest].",
                   .default_in_words = "[0.75, 1.333]",
                   .range = {.minimum = 0.01, .maximum = 100},
                   .shape = Shape::list,
                   .length = 2}},
       .remedy_for_evaluation = "use resize_shorter and center_crop"},
      {.name = "resize",
       .summary =
           "Makes a picture of bytes larger or smaller, whatever its proportions: bilinear with "
           "antialiasing, the same bytes as PIL's.",
       .fields = {size_field()}},
      {.name = "resize_shorter",
       .summary =
           "Makes a picture of bytes larger or smaller in its own proportions, until it just "
           "covers "
           "the size: as torchvision's Resize of one number, its shorter side has so many pixels.",
       .fields = {size_field()}},
      {.name = "random_mask",
       .summary = "Sets pixels drawn by chance to 0, in all channels.",
       .fields = {{.key = "ratio",
                   .type = number,
                   .summary = "Share of the pixels that are drawn, in steps of 1/65536.",
                   .is_required = true,
                   .range = {.minimum = 0, .maximum = 1}},
                  {.key = "dilate",
                   .type = choice,
                   .summary = "4-neighbour: also the pixels above, below and beside those drawn.",
                   .default_text = "none",
                   .choices = {"none", "4-neighbour"}}},
       .remedy_for_evaluation = "leave it out"},
      {.name = "rgb_to_yuv",
       .summary = "Brightness and two differences of colour, as in JPEG: floats from 0 to 255."},
      {.name = "to_float", .summary = "Turns bytes into floats from 0 to 1."},
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
