// SPDX-License-Identifier: Apache-2.0
// Data sets and transforms: one entry each.
#include "recipes/schema_table.hpp"

namespace autotuned::recipes {
namespace {

using enum FieldType;

constexpr Range kPositiveInteger{.minimum = 1};
constexpr Range kFactor{.minimum = 0, .maximum = 100};
constexpr Range kTurn{.minimum = -0.5, .maximum = 0.5};
constexpr Range kClasses{.minimum = 2, .maximum = 65'536};

Field shuffle_field() {
  return {.key = "shuffle",
          .type = boolean,
          .summary = "Train on the samples of each epoch in a new order, drawn by the seed.",
          .default_text = "true"};
}

Field samples_field() {
  return {.key = "samples",
          .type = integer,
          .summary = "Number of samples in an epoch.",
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

Field data_classes_field() {
  return {.key = "classes",
          .type = integer,
          .summary = "Number of classes.",
          .is_required = true,
          .range = kClasses};
}

Field repeat_field() {
  return {.key = "repeat_to",
          .type = integer,
          .summary = "Number of samples in an epoch; the files are repeated until it is reached.",
          .default_in_words = "each file once",
          .range = {.minimum = 1, .maximum = 1e9},
          .unit = "samples"};
}

Field on_error_field() {
  return {.key = "on_error",
          .type = choice,
          .summary =
              "What to do with a picture that cannot be read. stop: the job ends and names the "
              "file. skip: the next picture of the data replaces it; the job ends if more than 10 "
              "pictures and more than 1 % cannot be read.",
          .default_in_words = "stop",
          .choices = {"stop", "skip"}};
}

// The key on_error of data in picture files.
std::vector<Field> picture_fields(std::string_view files, std::string_view remedy) {
  return {
      {.key = "files",
       .type = FieldType::files,
       .summary = files,
       .is_required = true,
       .shape = Shape::single_or_list,
       .remedy = remedy},
      repeat_field(),
      {.key = "labels",
       .type = choice,
       .summary = "random: a random class that stays the same for each sample. folder_names: the "
                  "name of the file's folder; classes are numbered in the order of the names.",
       .default_text = "folder_names",
       .choices = {"random", "folder_names"}},
      {.key = "classes",
       .type = integer,
       .summary = "Number of classes.",
       .default_in_words = "10 for random labels, or the number of folders",
       .range = kClasses},
      on_error_field(),
      shuffle_field()};
}

Field amount_field(std::string_view key, std::string_view summary, Range range) {
  return {.key = key,
          .type = number,
          .summary = summary,
          .default_in_words = "unchanged",
          .range = range,
          .shape = Shape::single_or_list,
          .length = 2};
}

Field size_field() {
  return {.key = "size",
          .type = integer,
          .summary = "Length of both sides in pixels, or [height, width].",
          .is_required = true,
          .range = {.minimum = 1, .maximum = 65'536},
          .shape = Shape::single_or_list,
          .length = 2};
}

Field fill_field(std::string_view key, std::string_view summary) {
  return {.key = key,
          .type = number,
          .summary = summary,
          .default_text = "0",
          .shape = Shape::single_or_list};
}

std::string magnitude_below_bins(const YamlNode& /*map*/, const Json& values) {
  const auto magnitude = get_integer(values, "magnitude");
  const auto bins = get_integer(values, "bins");
  if (!magnitude || !bins || *magnitude < *bins) return {};
  return "magnitude, " + std::to_string(*magnitude) + ", must be below bins, " +
         std::to_string(*bins);
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
  static const std::vector<Variant> types = with_target_types({
      {.name = "cifar10",
       .summary = "CIFAR-10 in its binary version: 3 x 32 x 32 bytes and ten classes. Data of type "
                  "synthetic with shape [3, 32, 32] and 10 classes has the same form.",
       .fields = {{.key = "files",
                   .type = FieldType::files,
                   .summary = "The files, such as cifar-10-batches-bin/data_batch_*.bin. They are "
                              "read into memory as a whole.",
                   .is_required = true,
                   .shape = Shape::single_or_list,
                   .remedy = "unpack the binary version of CIFAR-10 there, or use data of type "
                             "synthetic with shape [3, 32, 32] and 10 classes, which has the same "
                             "form"},
                  shuffle_field()}},
      {.name = "idx",
       .summary =
           "Images and labels in IDX files, plain or gzipped: the form of MNIST and Fashion-MNIST.",
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
       .summary = "JPEG and PNG files, read during the training. The sizes of the first 20,000 "
                  "pictures are checked before it.",
       .fields = picture_fields("The files, such as photos/*/*.png or [photos/*.jpg, more/*.png].",
                                "put JPEG or PNG files there")},
      {.name = "image_index",
       .summary =
           "JPEG and PNG files listed in a table with their labels; otherwise like image_files.",
       .fields = {{.key = "index",
                   .type = path,
                   .summary = "A CSV file with a line `file,label` per picture. Paths are relative "
                              "to its folder. Labels are integers of at least 0 without zeros in "
                              "front, or names; classes are numbered in the order of the names.",
                   .is_required = true},
                  repeat_field(),
                  {.key = "classes",
                   .type = integer,
                   .summary = "Number of classes.",
                   .default_in_words = "the highest label + 1, or the number of names",
                   .range = kClasses},
                  on_error_field(),
                  shuffle_field()}},
      {.name = "jpeg_files",
       .summary = "Only JPEG files; otherwise like image_files.",
       .fields = picture_fields(
           "The files, such as photos/*.jpg or photos/*/*.jpg.",
           "put JPEG files there (scripts/setup --photos makes the files in .deps/photos)")},
      {.name = "npy",
       .summary = "Arrays written by numpy.save, read during the training.",
       .fields =
           {{.key = "images",
             .type = FieldType::files,
             .summary = "The .npy files, in this order: arrays of bytes or 32-bit floats with "
                        "the shape (samples, rows, columns) or with channels.",
             .is_required = true,
             .shape = Shape::single_or_list,
             .remedy = "save an array there with numpy.save"},
            {.key = "labels",
             .type = FieldType::files,
             .summary = "The .npy files with the label of each sample: an integer of at least 0.",
             .is_required = true,
             .shape = Shape::single_or_list,
             .remedy = "save an array there with numpy.save"},
            {.key = "layout",
             .type = choice,
             .summary =
                 "Position of the channels. nchw: before rows and columns. nhwc: after them.",
             .default_text = "nchw",
             .choices = {"nchw", "nhwc"}},
            {.key = "classes",
             .type = integer,
             .summary = "Number of classes.",
             .default_in_words = "the highest label + 1",
             .range = kClasses},
            shuffle_field()}},
      {.name = "synthetic",
       .summary = "Artificial images of bytes with labels that can be learned, for tests. Every "
                  "run sees the same images.",
       .fields = {samples_field(), shape_field(), data_classes_field(), shuffle_field()}},
      {.name = "synthetic_normal",
       .summary = "Floats drawn from the standard normal distribution, with the labels in turn, "
                  "for measurements. Nothing can be learned from them.",
       .fields = {samples_field(), shape_field(), data_classes_field(), shuffle_field()}},
      {.name = "tar",
       .summary = "JPEG and PNG files with labels in tar files, as WebDataset packs them: KEY.jpg "
                  "(.jpeg, .png) next to KEY.cls, an integer of at least 0.",
       .fields = {{.key = "files",
                   .type = FieldType::files,
                   .summary = "The files, such as train-*.tar. They must not be compressed, "
                              "because samples are read at any position.",
                   .is_required = true,
                   .shape = Shape::single_or_list,
                   .remedy = "put tar files there"},
                  repeat_field(),
                  {.key = "classes",
                   .type = integer,
                   .summary = "Number of classes.",
                   .default_in_words = "the highest label + 1",
                   .range = kClasses},
                  on_error_field(),
                  shuffle_field()}},
      {.name = kPluginType,
       .summary = "Data of a workload plugin, written {plugin: NAME, …}. Further keys are "
                  "parameters of the plugin.",
       .fields = {{.key = "plugin",
                   .type = text,
                   .summary = "Name of the workload plugin (`autotuned plugins` lists all).",
                   .is_required = true},
                  shuffle_field()},
       .is_plugin = true},
  });
  return types;
}

// --- transforms -----------------------------------------------------------------------------------

const std::vector<Variant>& transform_types() {
  static const std::vector<Variant> types{
      {.name = "decode",
       .summary = "Decodes a JPEG or PNG file into red, green and blue bytes, as PIL does. "
                  "Transparency is dropped."},
      {.name = "decode_jpeg",
       .summary = "Decodes a JPEG file into red, green and blue bytes, as PIL does."},
      {.name = "random_crop",
       .summary = "Cuts out a part of the picture at a random position.",
       .fields = {size_field()},
       .remedy_for_evaluation = "use center_crop"},
      {.name = "center_crop",
       .summary = "Cuts out the middle of the picture.",
       .fields = {size_field()}},
      {.name = "color_jitter",
       .summary = "Changes the colours by random amounts within the given limits, in a random "
                  "order. For the same amounts and order the bytes are those of torchvision's "
                  "ColorJitter of a PIL image. A number x means 1 - x to 1 + x, for hue -x to x.",
       .fields = {amount_field("brightness", "Factor, or [lowest, highest].", kFactor),
                  amount_field("contrast", "Factor, or [lowest, highest].", kFactor),
                  amount_field("saturation", "Factor, or [lowest, highest].", kFactor),
                  amount_field("hue", "Share of the circle of colours, or [lowest, highest].",
                               kTurn)},
       .remedy_for_evaluation = "leave it out"},
      {.name = "random_flip",
       .summary = "Exchanges left and right at random.",
       .fields = {{.key = "probability",
                   .type = number,
                   .summary = "Probability of the exchange.",
                   .default_text = "0.5",
                   .range = {.minimum = 0, .maximum = 1}}},
       .remedy_for_evaluation = "leave it out"},
      {.name = "random_resized_crop",
       .summary = "Cuts out a part of random size and proportions and resizes it, as torchvision's "
                  "RandomResizedCrop does.",
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
      {.name = "rand_augment",
       .summary =
           "Makes drawn changes to a picture of bytes, one after the other: of shape, place, "
           "colours, contrast or sharpness. For the same changes the bytes are those of "
           "torchvision's RandAugment of a PIL image.",
       .fields = {{.key = "operations",
                   .type = integer,
                   .summary = "Number of changes, each drawn from 14.",
                   .default_text = "2",
                   .range = {.minimum = 1, .maximum = 100}},
                  {.key = "magnitude",
                   .type = integer,
                   .summary = "Strength of the changes, below bins.",
                   .default_text = "9",
                   .range = {.minimum = 0, .maximum = 999}},
                  {.key = "bins",
                   .type = integer,
                   .summary = "Number of strengths.",
                   .default_text = "31",
                   .range = {.minimum = 2, .maximum = 1000}},
                  fill_field("fill",
                             "Value of pixels from outside the picture, one for all "
                             "channels, or one per channel.")},
       .rule = magnitude_below_bins,
       .remedy_for_evaluation = "leave it out"},
      {.name = "random_rotation",
       .summary =
           "Turns the picture around its middle by a random angle; each pixel is the nearest "
           "one. For the same angle the pixels are those of torchvision's RandomRotation of a "
           "PIL image.",
       .fields = {{.key = "degrees",
                   .type = number,
                   .summary = "Angle, counter-clockwise: [lowest, highest], or x for -x to x.",
                   .is_required = true,
                   .range = {.minimum = -360, .maximum = 360},
                   .unit = "degrees",
                   .shape = Shape::single_or_list,
                   .length = 2},
                  fill_field("fill",
                             "Value of the corners, one for all channels, or one per "
                             "channel.")},
       .remedy_for_evaluation = "leave it out"},
      {.name = "random_erasing",
       .summary = "Sets a random rectangle of the picture to a value, as torchvision's "
                  "RandomErasing does.",
       .fields = {{.key = "probability",
                   .type = number,
                   .summary = "Probability that a sample loses a rectangle.",
                   .default_text = "0.5",
                   .range = {.minimum = 0, .maximum = 1}},
                  {.key = "scale",
                   .type = number,
                   .summary = "Share of the picture, [lowest, highest].",
                   .default_in_words = "[0.02, 0.33]",
                   .range = {.minimum = 0, .maximum = 1},
                   .shape = Shape::list,
                   .length = 2},
                  {.key = "ratio",
                   .type = number,
                   .summary = "Height over width, [lowest, highest].",
                   .default_in_words = "[0.3, 3.3]",
                   .range = {.minimum = 0.01, .maximum = 100},
                   .shape = Shape::list,
                   .length = 2},
                  fill_field("value",
                             "Value of the rectangle, one for all channels, or one per "
                             "channel.")},
       .remedy_for_evaluation = "leave it out"},
      {.name = "pad",
       .summary = "Adds a margin to the picture, as torchvision's Pad does.",
       .fields = {{.key = "by",
                   .type = integer,
                   .summary = "Width of the margin on all sides, or [left, top, right, bottom].",
                   .is_required = true,
                   .range = {.minimum = 0, .maximum = 4096},
                   .shape = Shape::single_or_list,
                   .length = 4},
                  {.key = "mode",
                   .type = choice,
                   .summary =
                       "constant: the margin is fill. edge: it repeats the outermost pixels. "
                       "reflect, symmetric: it mirrors the picture, without or with the "
                       "outermost pixels.",
                   .default_text = "constant",
                   .choices = {"constant", "edge", "reflect", "symmetric"}},
                  fill_field("fill",
                             "Value of a constant margin, one for all channels, or one per "
                             "channel.")}},
      {.name = "resize",
       .summary = "Resizes a picture of bytes and ignores its proportions: bilinear with "
                  "antialiasing, the same bytes as PIL.",
       .fields = {size_field()}},
      {.name = "resize_shorter",
       .summary = "Resizes a picture of bytes and keeps its proportions: the result is the "
                  "smallest that covers the size, as torchvision's Resize of one number.",
       .fields = {size_field()}},
      {.name = "random_mask",
       .summary = "Sets random pixels to 0, in all channels.",
       .fields = {{.key = "ratio",
                   .type = number,
                   .summary = "Share of the pixels to draw, in steps of 1/65536.",
                   .is_required = true,
                   .range = {.minimum = 0, .maximum = 1}},
                  {.key = "dilate",
                   .type = choice,
                   .summary = "4-neighbour: the neighbours of a drawn pixel above, below, left and "
                              "right are set to 0 too.",
                   .default_text = "none",
                   .choices = {"none", "4-neighbour"}}},
       .remedy_for_evaluation = "leave it out"},
      {.name = "rgb_to_yuv",
       .summary = "Converts colours into brightness and two colour differences, as JPEG does: "
                  "floats from 0 to 255."},
      {.name = "to_float", .summary = "Converts bytes into floats from 0 to 1."},
      {.name = "scale",
       .summary =
           "Multiplies every value by a factor. 1/255 converts bytes into floats from 0 to 1.",
       .fields = {{.key = "by",
                   .type = number,
                   .summary = "The factor.",
                   .is_required = true,
                   .range = kPositive}}},
      {.name = "normalize",
       .summary = "Subtracts the mean and divides by the standard deviation, per channel.",
       .fields = {{.key = "mean",
                   .type = number,
                   .summary = "One value for all channels, or one per channel.",
                   .is_required = true,
                   .shape = Shape::single_or_list},
                  {.key = "std",
                   .type = number,
                   .summary = "One value for all channels, or one per channel.",
                   .is_required = true,
                   .range = kPositive,
                   .shape = Shape::single_or_list}},
       .rule = same_number_of_channels},
  };
  return types;
}

}  // namespace autotuned::recipes
