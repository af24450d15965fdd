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

// The form of a value in the recipe, and in the checked recipe.
enum class FieldType {
  boolean,
  integer,     // strict: 1e3 is not an integer
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

// A range of numbers.
struct Range {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool open_minimum = false;  // the minimum itself is outside
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

// Checks a map as a whole. Returns what is wrong with it, or an empty text. `values`: the checked fields of the map, only those that
// are valid.
using Rule = std::string (*)(const YamlNode& map, const Json& values);

// A key of a recipe, or of a map in it.
struct Field {
  std::string_view key;
  FieldType type = FieldType::text;
  std::string_view summary;  // one sentence
  bool is_required = false;
  std::string_view default_text;      // as in a recipe; empty: the checked recipe lacks the field
  std::string_view default_in_words;  // for people, where default_text is empty
  Range range;
  std::string_view unit;
  std::vector<std::string> choices;
  Shape shape = Shape::single;
  std::size_t length = 0;    // the number of items that a list must have; 0: at least one
  std::string_view keyword;  // a word that may replace a list, such as `all`
  std::vector<Field> fields;
  const std::vector<Variant>* variants = nullptr;
  // For `typed`: the name of a type may replace a map with that type.
  bool may_be_name = false;
  Rule rule = nullptr;
  std::string_view remedy;  // what to do if there are no such files

  // "an integer from 1 to 16": the words of messages and of the reference.
  [[nodiscard]] std::string expected() const;
  // The key in the checked recipe, which has a suffix for types with a unit.
  [[nodiscard]] std::string checked_key() const;
};

// A named type of a component, such as a model or an optimizer.
struct Variant {
  std::string name;
  std::string_view summary;  // one sentence
  std::vector<Field> fields;
  Rule rule = nullptr;
  // Chosen by `plugin: NAME` instead of `type: …`. Keys that are not in `fields` are parameters of that plugin.
  bool is_plugin = false;
  // With is_plugin: whether there may be such parameters. If not, other keys are mistakes.
  bool has_parameters = true;
  // For a transform that draws random numbers: what to do in an evaluation, where nothing may be random. Empty for the others.
  std::string_view remedy_for_evaluation = {};
  // For a type of data: the target of its samples.
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
// Returns `types` and the types of data whose targets are not classes. REQUIRES: `types` has image_index, synthetic,
// synthetic_normal and tar.
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
