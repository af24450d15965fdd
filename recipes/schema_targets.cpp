// SPDX-License-Identifier: Apache-2.0
// Data sets whose targets are no classes: one entry each.
#include <algorithm>
#include <utility>

#include "recipes/schema_table.hpp"

namespace autotuned::recipes {
namespace {

// The type with that name, with `own` in the place of its field `replaced` and without `classes`.
Variant like(const std::vector<Variant>& types, std::string_view name, std::string_view replaced,
             const Field& own) {
  Variant variant = *find_variant(types, name);
  for (Field& field : variant.fields)
    if (field.key == replaced) field = own;
  std::erase_if(variant.fields, [](const Field& field) { return field.key == "classes"; });
  return variant;
}

Variant image_targets(const std::vector<Variant>& types) {
  Variant variant = like(
      types, "image_index", "index",
      {.key = "index",
       .type = FieldType::path,
       .summary = "A CSV or TSV file with a line `file,number,…` per picture: at least one number, "
                  "and as many in every line. Paths are relative to its folder. A first line "
                  "without numbers names the columns.",
       .is_required = true});
  variant.name = "image_targets";
  variant.summary =
      "JPEG and PNG files listed in a table with numbers, for regression; otherwise "
      "like image_files.";
  variant.target = Target::numbers;
  return variant;
}

Variant synthetic_targets(const std::vector<Variant>& types) {
  Variant variant = like(types, "synthetic", "classes",
                         {.key = "targets",
                          .type = FieldType::integer,
                          .summary = "Numbers of a sample, each from -1 to 1.",
                          .is_required = true,
                          .range = {.minimum = 1, .maximum = 65'536}});
  variant.name = "synthetic_targets";
  variant.summary =
      "Artificial images of bytes with numbers that can be learned, for tests. Every "
      "run sees the same images.";
  variant.target = Target::numbers;
  return variant;
}

Variant image_tags(const std::vector<Variant>& types) {
  Variant variant = like(
      types, "image_index", "index",
      {.key = "index",
       .type = FieldType::path,
       .summary = "A CSV or TSV file with a line per picture: `file,0,1,…`, with a 0 or 1 for each "
                  "tag, where a first line may name the tags; or `file,cat;dog`, with the names of "
                  "the tags that it has. Paths are relative to its folder.",
       .is_required = true});
  variant.name = "image_tags";
  variant.summary =
      "JPEG and PNG files listed in a table, each with any number of tags; otherwise "
      "like image_files.";
  variant.target = Target::tags;
  return variant;
}

Field context_field() {
  return {.key = "context",
          .type = FieldType::integer,
          .summary = "Tokens of a block that the model sees; it learns the one after each.",
          .default_text = "256",
          .range = {.minimum = 1, .maximum = 65'536},
          .unit = "tokens"};
}

Field shuffle_field(const std::vector<Variant>& types) {
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
                     shuffle_field(types)},
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
                     shuffle_field(types)},
          .target = Target::tokens};
}

Variant synthetic_tags(const std::vector<Variant>& types) {
  Variant variant = like(types, "synthetic", "classes",
                         {.key = "tags",
                          .type = FieldType::integer,
                          .summary = "Number of tags. A sample has each of them or not, at random.",
                          .is_required = true,
                          .range = {.minimum = 1, .maximum = 65'536}});
  variant.name = "synthetic_tags";
  variant.summary =
      "Artificial images of bytes with tags that can be learned, for tests. Every run "
      "sees the same images.";
  variant.target = Target::tags;
  return variant;
}

}  // namespace

std::vector<Variant> with_target_types(std::vector<Variant> types) {
  const auto put_after = [&types](std::string_view name, Variant added) {
    const auto place = std::ranges::find(types, name, &Variant::name);
    types.insert(place + 1, std::move(added));
  };
  put_after("image_index", image_tags(types));
  put_after("image_tags", image_targets(types));
  put_after("synthetic_normal", synthetic_tags(types));
  put_after("synthetic_tags", synthetic_targets(types));
  put_after("synthetic_targets", synthetic_tokens(types));
  put_after("tar", tokens(types));
  return types;
}

}  // namespace autotuned::recipes
