// SPDX-License-Identifier: Apache-2.0
// The table behind recipes/schema.hpp: every key of a recipe, described once.
//
// Adding a model, data set, transform or optimizer is one entry in schema_models.cpp or schema_data.cpp:
// parsing, defaults, messages, the reference and the JSON Schema follow from it.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "recipes/targets.hpp"
#include "recipes/yaml.hpp"

namespace autotuned::recipes {

// How a value is written, and what it becomes in the checked recipe.
enum class FieldType {
  boolean,
  integer,     // strict: 1e3 is none
  number,      // 0.5, 1e-3 or a fraction such as 1/255
  text,        // one line
  name,        // text that can name a folder
  choice,      // one of `choices`
  device,      // auto, cpu, cuda, cuda:N
  duration,    // 90s; KEY becomes KEY_ns
  ratio,       // 2% or 0.02; KEY becomes KEY_ratio
  memory,      // 90% or 6GiB; KEY becomes KEY_ratio or KEY_bytes
  path,        // a file that must exist, relative to the recipe; becomes absolute
  files,       // a pattern that matches files, relative to the recipe; becomes absolute
  folder,      // relative to the current folder; becomes absolute
  map,         // `fields`
  typed,       // a map whose `type` picks one of `variants`
  transforms,  // a list of NAME or NAME: {parameters} from `variants`
  knobs,       // knob: value; checked against the knobs of the machine
};

// One value, a list of them, or either.
enum class Shape { single, list, single_or_list };

struct Range {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool open_minimum = false;  // minimum itself is outside
  bool open_maximum = false;

  [[nodiscard]] bool contains(double value) const;
  // "from 1 to 16", "of at least 1", "above 0"; empty without limits.
  [[nodiscard]] std::string text() const;
};

inline constexpr Range kPositive{.minimum = 0, .open_minimum = true};
inline constexpr Range kNotNegative{.minimum = 0};

// The range of alpha of MixUp and CutMix. Below it, the logarithms of the drawn numbers are infinite.
inline constexpr Range kMixAlphas{.minimum = 1e-6, .maximum = 1000};

struct Variant;

// Checks a map as a whole and returns what is wrong with it, or nothing. `values` has only the fields that are valid.
using Rule = std::string (*)(const YamlNode& map, const Json& values);

struct Field {
  std::string_view key;
  FieldType type = FieldType::text;
  std::string_view summary;  // one sentence
  bool is_required = false;
  std::string_view default_text;  // as one would write it; empty: left out of the checked recipe
  std::string_view default_in_words;  // for people, where default_text is empty
  Range range;
  std::string_view unit;
  std::vector<std::string> choices;
  Shape shape = Shape::single;
  std::size_t length = 0;    // a list must have exactly so many items; 0: at least one
  std::string_view keyword;  // a word that stands instead of a list, such as `all`
  std::vector<Field> fields;
  const std::vector<Variant>* variants = nullptr;
  // Of `typed`: the name of a type alone stands for a map with that type.
  bool may_be_name = false;
  Rule rule = nullptr;
  std::string_view remedy;  // what to do when there are no such files

  // "an integer from 1 to 16", as messages and the reference say it.
  [[nodiscard]] std::string expected() const;
  // The key in the checked recipe, for types that change unit.
  [[nodiscard]] std::string checked_key() const;
};

struct Variant {
  std::string name;
  std::string_view summary;  // one sentence
  std::vector<Field> fields;
  Rule rule = nullptr;
  // Picked by `plugin: NAME` instead of `type: …`; keys that are no fields are that plugin's parameters.
  bool is_plugin = false;
  // Of is_plugin: whether it has such parameters. Else other keys are mistakes.
  bool has_parameters = true;
  // Of a transform that draws random numbers: what to do where nothing may be random. Empty: it draws none.
  std::string_view remedy_for_evaluation = {};
  // Of a type of data.
  Target target = Target::classes;
};

// The name of the variants with is_plugin, also in the checked recipe: {"type": "plugin", "plugin": NAME,
// "parameters": {...}, "line", "column": in the recipe}. The loss of the model's plugin is
// {"type": "plugin"} alone.
inline constexpr const char* kPluginType = "plugin";

// The recipe itself, as a map without a key.
[[nodiscard]] const Field& recipe_field();
[[nodiscard]] const std::vector<Variant>& model_types();
[[nodiscard]] const std::vector<Variant>& data_types();
// `types` with those whose targets are no classes. REQUIRES: image_index, synthetic, synthetic_normal and tar
// among them.
[[nodiscard]] std::vector<Variant> with_target_types(std::vector<Variant> types);
[[nodiscard]] const std::vector<Variant>& transform_types();
[[nodiscard]] const std::vector<Variant>& loss_types();
[[nodiscard]] const std::vector<Variant>& optimizer_types();
[[nodiscard]] const std::vector<Variant>& schedule_types();

// Null for an unknown name.
[[nodiscard]] const Field* find_field(const std::vector<Field>& fields, std::string_view key);
[[nodiscard]] const Variant* find_variant(const std::vector<Variant>& variants,
                                          std::string_view name);

[[nodiscard]] std::vector<std::string> keys_of(const std::vector<Field>& fields);
[[nodiscard]] std::vector<std::string> names_of(const std::vector<Variant>& variants);

// "a, b, c".
[[nodiscard]] std::string joined(const std::vector<std::string>& names);

}  // namespace autotuned::recipes
