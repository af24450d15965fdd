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
                  "tag, where a first line may name the tags; or `file,cat;dog` or `file,cat|dog`, "
                  "with the names of the tags that it has. Paths are relative to its folder.",
       .is_required = true});
  variant.name = "image_tags";
  variant.summary =
      "JPEG and PNG files listed in a table, each with any number of tags; otherwise "
      "like image_files.";
  variant.target = Target::tags;
  return variant;
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
  return types;
}

}  // namespace autotuned::recipes
