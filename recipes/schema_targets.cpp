// SPDX-License-Identifier: Apache-2.0
// Data sets whose targets are not classes: one entry each.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "recipes/schema_table.hpp"

namespace autotuned::recipes {
namespace {

// Returns the type `base` with the name, summary and target of `changed`, with the one field of `changed` in the place of the field
// `replaced`, and without `classes`.
Variant like(const std::vector<Variant>& types, std::string_view base, std::string_view replaced,
             const Variant& changed) {
  Variant variant = *find_variant(types, base);
  for (Field& field : variant.fields)
    if (field.key == replaced) field = changed.fields.front();
  std::erase_if(variant.fields, [](const Field& field) { return field.key == "classes"; });
  variant.name = changed.name;
  variant.summary = changed.summary;
  variant.target = changed.target;
  return variant;
}

Field index_field(std::string_view summary) {
  return {.key = "index", .type = FieldType::path, .summary = summary, .is_required = true};
}

Field count_field(std::string_view key, std::string_view summary) {
  return {.key = key,
          .type = FieldType::integer,
          .summary = summary,
          .is_required = true,
          .range = {.minimum = 1, .maximum = 65'536}};
}

Variant image_targets(const std::vector<Variant>& types) {
  return like(types, "image_index", "index",
              {.name = "image_targets",
               .summary = "JPEG and PNG files listed in a table with numbers, for regression; "
                          "otherwise like image_files.",
               .fields = {index_field(
                   "A CSV or TSV file with a line `file,number,…` per picture: at least one "
                   "number, and as many in every line. Paths are relative to its folder. A first "
                   "line without numbers names the columns.")},
               .target = Target::numbers});
}

Variant image_tags(const std::vector<Variant>& types) {
  return like(types, "image_index", "index",
              {.name = "image_tags",
               .summary = "JPEG and PNG files listed in a table, each with any number of tags; "
                          "otherwise like image_files.",
               .fields = {index_field(
                   "A CSV or TSV file with a line per picture: `file,0,1,…`, with a 0 or 1 for "
                   "each tag, where a first line may name the tags; or `file,cat;dog` or "
                   "`file,cat|dog`, with the names of the tags that it has. Paths are relative to "
                   "its folder.")},
               .target = Target::tags});
}

Variant synthetic_targets(const std::vector<Variant>& types) {
  return like(types, "synthetic", "classes",
              {.name = "synthetic_targets",
               .summary = "Artificial images of bytes with numbers that can be learned, for "
                          "tests. Every run sees the same images.",
               .fields = {count_field("targets", "Numbers of a sample, each from -1 to 1.")},
               .target = Target::numbers});
}

Variant synthetic_tags(const std::vector<Variant>& types) {
  return like(
      types, "synthetic", "classes",
      {.name = "synthetic_tags",
       .summary = "Artificial images of bytes with tags that can be learned, for tests. Every run "
                  "sees the same images.",
       .fields = {count_field("tags",
                              "Number of tags. A sample has each of them or not, at random.")},
       .target = Target::tags});
}

Field context_field() {
  return {.key = "context",
          .type = FieldType::integer,
          .summary = "Tokens of a block that the model sees; it learns the one after each.",
          .default_text = "256",
          .range = {.minimum = 1, .maximum = 65'536},
          .unit = "tokens"};
}

Field shuffle_field_of(const std::vector<Variant>& types) {
  return *find_field(find_variant(types, "synthetic")->fields, "shuffle");
}

Variant tokens(const std::vector<Variant>& types) {
  return {.name = "tokens",
          .summary =
              "Text for language models: files of bytes, or of numbers of tokens, read "
              "during the training. A sample is a block of them.",
          .fields = {{.key = "files",
                      .type = FieldType::files,
                      .summary = "The files, joined in this order. A .bin file holds plain numbers "
                                 "as nanoGPT writes them, a .npy file an array of one dimension; "
                                 "of any other file each byte is a token.",
                      .is_required = true,
                      .shape = Shape::single_or_list,
                      .remedy = "put a text there, such as book.txt"},
                     context_field(),
                     {.key = "stride",
                      .type = FieldType::integer,
                      .summary = "Distance from the beginning of one block to that of the next. "
                                 "With 1 a block begins at every token.",
                      .default_in_words = "context, so that blocks do not overlap",
                      .range = {.minimum = 1, .maximum = 1e12},
                      .unit = "tokens"},
                     {.key = "dtype",
                      .type = FieldType::choice,
                      .summary = "Type of the numbers in the files. That of a .npy file is its "
                                 "own.",
                      .default_in_words = "uint16 for .bin, bytes for other files",
                      .choices = {"uint8", "uint16", "uint32", "int32", "int64"}},
                     {.key = "vocabulary",
                      .type = FieldType::integer,
                      .summary = "Number of different tokens. More than 67 million tokens need "
                                 "it, unless they are bytes.",
                      .default_in_words = "256 for bytes, otherwise the highest token + 1",
                      .range = {.minimum = 2, .maximum = 16'777'216}},
                     shuffle_field_of(types)},
          .target = Target::tokens};
}

Variant synthetic_tokens(const std::vector<Variant>& types) {
  const Variant& synthetic = *find_variant(types, "synthetic");
  return {.name = "synthetic_tokens",
          .summary =
              "Artificial tokens for tests: three of four follow from the one before. Every "
              "run sees the same.",
          .fields = {*find_field(synthetic.fields, "samples"),
                     context_field(),
                     {.key = "vocabulary",
                      .type = FieldType::integer,
                      .summary = "Number of different tokens.",
                      .is_required = true,
                      .range = {.minimum = 2, .maximum = 16'777'216}},
                     shuffle_field_of(types)},
          .target = Target::tokens};
}

std::string masks_have_classes(const YamlNode& map, const Json& values) {
  const Json& names = member(values, "names");
  const Json& numbers = member(values, "values");
  const bool has_classes = map.find("classes") != nullptr;
  const bool has_names = map.find("names") != nullptr;
  if (has_classes == has_names) {
    return has_names ? "classes and names exclude each other; keep one of them"
                     : "the classes are missing: expected classes, or names";
  }
  const std::int64_t count = names.is_array() ? static_cast<std::int64_t>(names.size())
                                              : get_integer(values, "classes").value_or(0);
  if (count == 0 || !numbers.is_array() || count == static_cast<std::int64_t>(numbers.size())) {
    return {};
  }
  return "values has " + std::to_string(numbers.size()) + " numbers for " + std::to_string(count) +
         " classes";
}

Variant image_masks(const std::vector<Variant>& types) {
  Variant variant = like(
      types, "image_files", "labels",
      {.name = "image_masks",
       .summary = "JPEG and PNG files with a mask each, for segmentation; otherwise like "
                  "image_files.",
       .fields = {{.key = "masks",
                   .type = FieldType::files,
                   .summary =
                       "The masks, such as masks/*.png: PNG files of 8 bits or less, grey or with "
                       "a palette, that have the number of a class in each pixel. A mask has its "
                       "picture's name, without the ending, and its size.",
                   .is_required = true,
                   .shape = Shape::single_or_list,
                   .remedy = "put a PNG file for each picture there"}},
       .target = Target::masks});
  const std::vector<Field> own = {
      {.key = "classes",
       .type = FieldType::integer,
       .summary = "Number of classes. Give classes or names.",
       .default_in_words = "names is given instead",
       .range = {.minimum = 2, .maximum = 255}},
      {.key = "names",
       .type = FieldType::text,
       .summary = "Names of the classes, in the order of their numbers. Give names or classes.",
       .default_in_words = "classes is given instead",
       .shape = Shape::list},
      {.key = "values",
       .type = FieldType::integer,
       .summary = "Number that the pixels of each class have in the files.",
       .default_in_words = "class n has the number n",
       .range = {.minimum = 0, .maximum = 255},
       .shape = Shape::list},
      {.key = "ignore_index",
       .type = FieldType::integer,
       .summary = "Number of the pixels that do not count, unless values has it.",
       .default_text = "255",
       .range = {.minimum = 0, .maximum = 255}}};
  const auto place = std::ranges::find(variant.fields, std::string_view("masks"), &Field::key);
  variant.fields.insert(place + 1, own.begin(), own.end());
  variant.rule = masks_have_classes;
  return variant;
}

Variant synthetic_masks(const std::vector<Variant>& types) {
  Variant variant = *find_variant(types, "synthetic");
  for (Field& field : variant.fields)
    if (field.key == "classes") field.range = {.minimum = 2, .maximum = 255};
  variant.name = "synthetic_masks";
  variant.summary =
      "Artificial images of bytes with masks that can be learned, for tests: discs on a ground, "
      "each of a class. Every run sees the same images.";
  variant.target = Target::masks;
  return variant;
}

}  // namespace

std::vector<Variant> with_target_types(std::vector<Variant> types) {
  const auto put_after = [&types](std::string_view name, Variant added) {
    const auto place = std::ranges::find(types, name, &Variant::name);
    types.insert(place + 1, std::move(added));
  };
  put_after("image_index", image_masks(types));
  put_after("image_masks", image_tags(types));
  put_after("image_tags", image_targets(types));
  put_after("synthetic", synthetic_masks(types));
  put_after("synthetic_normal", synthetic_tags(types));
  put_after("synthetic_tags", synthetic_targets(types));
  put_after("synthetic_targets", synthetic_tokens(types));
  put_after("tar", tokens(types));
  return types;
}

}  // namespace autotuned::recipes
