// SPDX-License-Identifier: Apache-2.0
// Checks a YAML tree against the table of fields and turns it into the checked recipe, the JSON of
// Recipe::to_json: defaults filled in, units in the keys, fractions as numbers, paths absolute.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "recipes/schema_table.hpp"
#include "recipes/yaml.hpp"

namespace autotuned::recipes {

// The words of a message for a value: "1e3" in quotation marks, "a list", "nothing".
[[nodiscard]] std::string found_text(const YamlNode& node);

// What to write where a map with these fields was expected: `; write {size: 32}` for the value 32, or `; its keys are a, b` if none must be
// there. Empty for a value that is not one word.
[[nodiscard]] std::string map_remedy(const std::vector<Field>& fields, const YamlNode& node);

// Checks one recipe.
class Checker {
 public:
  // Paths in the recipe are relative to `folder`, which must be absolute. Mistakes are added to `problems`, which must outlive this
  // object.
  Checker(std::string file, std::filesystem::path folder, std::vector<Diagnostic>& problems,
          NamedFiles files = NamedFiles::must_exist);

  // Returns the checked value; nothing if the value itself is wrong. A map comes without its wrong parts. `where`: the path of keys,
  // such as "train.batch_size"; empty for the recipe.
  [[nodiscard]] std::optional<Json> check(const Field& field, const YamlNode& node,
                                          const std::string& where);

  void report(const YamlNode& at, std::string message);
  // Reports that `entry` of a map in braces is the end of a number with a decimal comma, and returns true, if it is.
  bool report_decimal_comma(const YamlNode& map, const YamlEntry& entry, const std::string& where);
  // `; did you mean "x"?`, or `; known are x, y`.
  [[nodiscard]] std::string suggestion(std::string_view name,
                                       const std::vector<std::string>& known) const;

 private:
  std::optional<Json> check_single(const Field& field, const YamlNode& node,
                                   const std::string& where);
  std::optional<Json> check_scalar(const Field& field, const YamlNode& node,
                                   const std::string& where);
  std::optional<Json> check_list(const Field& field, const YamlNode& node,
                                 const std::string& where);
  Json check_map(const std::vector<Field>& fields, Rule rule, const YamlNode& node,
                 const std::string& where, bool has_type);
  void add_default(const Field& field, const std::string& where, Json& values);
  void store(const Field& field, Json value, Json& values) const;
  std::optional<Json> check_typed(const Field& field, const YamlNode& node,
                                  const std::string& where);
  // For variants with is_plugin (checker_plugin.cpp).
  Json check_plugin(const Variant& variant, const YamlNode& node, const std::string& where);
  std::optional<Json> check_transforms(const Field& field, const YamlNode& node,
                                       const std::string& where);
  const Variant* variant_of(const Field& field, const YamlNode& name, const std::string& where);
  std::optional<Json> check_file(const YamlNode& node, const std::string& where);
  std::optional<Json> check_files(const Field& field, const YamlNode& node,
                                  const std::string& where);
  std::nullopt_t unexpected(const Field& field, const YamlNode& node, const std::string& where,
                            std::string_view remedy = {});

  std::string file_;
  std::filesystem::path folder_;
  std::vector<Diagnostic>& problems_;
  NamedFiles files_;
};

}  // namespace autotuned::recipes
