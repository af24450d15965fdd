// SPDX-License-Identifier: Apache-2.0
// The texts of a field of the table: expected values and key.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "recipes/schema_table.hpp"

namespace autotuned::recipes {
namespace {

std::string number_text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.15g", value);
  if (std::fabs(value) < 1e15 && value == std::trunc(value)) {
    std::snprintf(buffer, sizeof buffer, "%.0f", value);
  }
  return buffer;
}

std::string with_range(const std::string& noun, const Range& range) {
  const std::string limits = range.text();
  return limits.empty() ? noun : noun + " " + limits;
}

std::string single_expected(const Field& field) {
  switch (field.type) {
    case FieldType::boolean:
      return "true or false";
    case FieldType::integer:
      return with_range("an integer", field.range);
    case FieldType::number:
      return with_range("a number", field.range);
    case FieldType::text:
      return "text";
    case FieldType::name:
      return "a name of at most 100 visible characters without /";
    case FieldType::choice:
      return field.choices.size() == 1 ? field.choices.front() : "one of " + joined(field.choices);
    case FieldType::device:
      return "auto, cpu, cuda or cuda:N";
    case FieldType::duration:
      return std::string("a duration such as 90s, 10min or 1h30min") +
             (field.range.open_minimum ? ", above 0s" : "");
    case FieldType::ratio:
      return with_range("a share such as 2% or 0.02,", field.range);
    case FieldType::memory:
      return "a share such as 90% or a size such as 6GiB";
    case FieldType::path:
      return "the path of a file";
    case FieldType::files:
      return "a pattern of files such as photos/*.jpg";
    case FieldType::folder:
      return "the path of a folder";
    case FieldType::map:
      return "a map";
    case FieldType::typed:
      if (field.may_be_name) return "one of " + joined(names_of(*field.variants)) + ", or a map";
      return "a map with a type";
    case FieldType::transforms:
      return "a list of transforms";
    case FieldType::knobs:
      break;
  }
  return "a map from knobs to values";
}

}  // namespace

bool Range::contains(double value) const {
  const bool above = open_minimum ? value > minimum : value >= minimum;
  const bool below = open_maximum ? value < maximum : value <= maximum;
  return above && below;
}

std::string Range::text() const {
  const bool has_minimum = std::isfinite(minimum);
  const bool has_maximum = std::isfinite(maximum);
  if (has_minimum && has_maximum && minimum == maximum) return "equal to " + number_text(minimum);
  if (has_minimum && has_maximum) {
    return (open_minimum ? "above " : "from ") + number_text(minimum) +
           (open_maximum ? " to below " : " to ") + number_text(maximum);
  }
  if (has_minimum) return (open_minimum ? "above " : "of at least ") + number_text(minimum);
  if (has_maximum) return (open_maximum ? "below " : "of at most ") + number_text(maximum);
  return {};
}

std::string Field::expected() const {
  std::string result = single_expected(*this);
  if (shape == Shape::single) return result;
  if (shape == Shape::single_or_list) {
    return result + ", or a list of " + (length > 0 ? std::to_string(length) + " " : "") + "such";
  }
  result = length > 0 ? "a list of " + std::to_string(length) + ", each " + result
                      : "a list, each item " + result;
  return keyword.empty() ? result : std::string(keyword) + ", or " + result;
}

std::string Field::checked_key() const {
  const std::string result(key);
  if (type == FieldType::duration) return result + "_ns";
  if (type == FieldType::ratio) return result + "_ratio";
  return result;
}

const Field* find_field(const std::vector<Field>& fields, std::string_view key) {
  const auto found = std::ranges::find(fields, key, &Field::key);
  return found == fields.end() ? nullptr : &*found;
}

const Variant* find_variant(const std::vector<Variant>& variants, std::string_view name) {
  const auto found = std::ranges::find(variants, name, &Variant::name);
  return found == variants.end() ? nullptr : &*found;
}

std::vector<std::string> keys_of(const std::vector<Field>& fields) {
  std::vector<std::string> keys;
  for (const Field& field : fields)
    keys.emplace_back(field.key);
  return keys;
}

std::vector<std::string> names_of(const std::vector<Variant>& variants) {
  std::vector<std::string> names;
  for (const Variant& variant : variants)
    names.push_back(variant.name);
  return names;
}

std::string joined(const std::vector<std::string>& names) {
  std::string result;
  for (const std::string& name : names) {
    if (!result.empty()) result += ", ";
    result += name;
  }
  return result;
}

}  // namespace autotuned::recipes
