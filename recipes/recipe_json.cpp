// SPDX-License-Identifier: Apache-2.0
// The recipe as JSON, and its identity.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/digest.hpp"
#include "base/file_pattern.hpp"
#include "recipes/recipe.hpp"
#include "recipes/scalars.hpp"
#include "recipes/schedule.hpp"
#include "recipes/schema_table.hpp"

namespace autotuned::recipes {
namespace {

constexpr std::string_view scaling_name(LearningRateScaling scaling) {
  switch (scaling) {
    case LearningRateScaling::none:
      return "none";
    case LearningRateScaling::linear:
      return "linear";
    case LearningRateScaling::sqrt:
      break;
  }
  return "sqrt";
}

Json component_json(const Component& typed) {
  Json json = typed.parameters;
  json["type"] = typed.type;
  return json;
}

Json transforms_json(const std::vector<Component>& transforms) {
  Json json = Json::array();
  for (const Component& transform : transforms)
    json.push_back(component_json(transform));
  return json;
}

// Reads members of an object and keeps the first error, so that the caller checks only once.
class Reader {
 public:
  explicit Reader(const Json& object) : object_(object) {}

  void read(const char* field, std::string& value) { keep(get_string(object_, field), value); }
  void read(const char* field, std::int64_t& value) { keep(get_integer(object_, field), value); }
  void read(const char* field, double& value) { keep(get_number(object_, field), value); }
  void read(const char* field, bool& value) { keep(get_bool(object_, field), value); }

  void read(const char* field, std::chrono::nanoseconds& value) {
    std::int64_t count = value.count();
    read(field, count);
    value = std::chrono::nanoseconds(count);
  }

  void read(const char* field, std::optional<std::int64_t>& value) {
    if (!has(field)) return;
    read(field, value.emplace());
  }

  void read(const char* field, std::vector<std::string>& value) {
    const Json& list = member(object_, field);
    if (!list.is_array() || !std::ranges::all_of(list, &Json::is_string)) {
      refuse(field, "a list of strings");
      return;
    }
    value.assign(list.begin(), list.end());
  }

  void read(const char* field, Component& value) {
    const Json& typed = member(object_, field);
    if (!read_component(typed, value)) refuse(field, "an object with a type");
  }

  void read(const char* field, std::vector<Component>& value) {
    const Json& list = member(object_, field);
    value.clear();
    if (list.is_array()) {
      for (const Json& item : list) {
        if (!read_component(item, value.emplace_back()))
          return refuse(field, "objects with a type");
      }
    } else {
      refuse(field, "a list");
    }
  }

  [[nodiscard]] bool has(const char* field) const { return !member(object_, field).is_null(); }
  [[nodiscard]] Reader inside(const char* field) const { return Reader(member(object_, field)); }
  // Takes over the error of `inner`.
  void absorb(const Reader& inner) {
    if (!error_) error_ = inner.error_;
  }

  void refuse(const char* field, const std::string& expected) {
    if (error_) return;
    error_ = Error{ErrorKind::invalid, "expected " + expected, std::string("field ") + field, {}};
  }

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  template <class T>
  void keep(Result<T> result, T& value) {
    if (result) {
      value = std::move(*result);
    } else if (!error_) {
      error_ = result.error();
    }
  }

  static bool read_component(const Json& typed, Component& value) {
    const Json& type = member(typed, "type");
    if (!type.is_string()) return false;
    value.type = type;
    value.parameters = typed;
    value.parameters.erase("type");
    return true;
  }

  const Json& object_;
  std::optional<Error> error_;
};

void read_train(Reader& train, TrainLength& length) {
  train.read("epochs", length.epochs);
  train.read("steps", length.steps);
  train.read("batch_size", length.batch_size);
  train.read("drop_last", length.drop_last);
  std::int64_t ranks = 1;
  if (train.has("ranks")) train.read("ranks", ranks);
  if (ranks < 1 || ranks > kMaxRanks) {
    train.refuse("ranks", "an integer from 1 to " + std::to_string(kMaxRanks));
  }
  length.ranks = static_cast<int>(ranks);
  if (length.epochs.has_value() == length.steps.has_value()) {
    train.refuse("train", "epochs or steps, and not both");
  }
  // Within these bounds samples can be counted without overflow.
  constexpr std::int64_t kMax = 1'000'000'000'000;
  const std::int64_t count = length.epochs.value_or(length.steps.value_or(0));
  if (count < 1 || count > kMax)
    train.refuse("train", "a length from 1 to " + std::to_string(kMax));
  if (length.batch_size < 1 || length.batch_size > 1'048'576) {
    train.refuse("batch_size", "an integer from 1 to 1048576");
  }
}

void read_step_rules(Reader& train, StepRules& rules) {
  if (train.has("accumulate")) train.read("accumulate", rules.accumulate);
  if (rules.accumulate < 1) train.refuse("accumulate", "an integer of at least 1");
  const auto read = [&](const char* field, std::optional<double>& value, double most) {
    if (!train.has(field)) return;
    double number = 0.0;
    train.read(field, number);
    if (number <= 0.0 || number >= most) train.refuse(field, "a number in its range");
    value = number;
  };
  constexpr double kMax = std::numeric_limits<double>::infinity();
  read("clip_norm", rules.clip_norm, kMax);
  read("clip_value", rules.clip_value, kMax);
  read("ema_decay", rules.ema_decay, 1.0);
  for (const auto& [field, alpha] : {std::pair{"mixup_alpha", &rules.mixup_alpha},
                                     std::pair{"cutmix_alpha", &rules.cutmix_alpha}}) {
    read(field, *alpha, kMax);
    if (*alpha && !(**alpha >= kMixAlphas.minimum && **alpha <= kMixAlphas.maximum))
      train.refuse(field, "a number in its range");
  }
}

// Left out where they say nothing, so that a job keeps its identity.
void add_step_rules(const StepRules& rules, Json& train) {
  if (rules.accumulate != 1) train["accumulate"] = rules.accumulate;
  if (rules.clip_norm) train["clip_norm"] = *rules.clip_norm;
  if (rules.clip_value) train["clip_value"] = *rules.clip_value;
  if (rules.ema_decay) train["ema_decay"] = *rules.ema_decay;
  if (rules.mixup_alpha) train["mixup_alpha"] = *rules.mixup_alpha;
  if (rules.cutmix_alpha) train["cutmix_alpha"] = *rules.cutmix_alpha;
}

void read_tune(const Json& json, Reader& reader, Tune& tune) {
  if (member(json, "plugins").is_array()) reader.read("plugins", tune.plugins.emplace());
  reader.read("budget_ns", tune.budget);
  reader.read("min_gain_ratio", tune.min_gain_ratio);
  if (reader.has("memory_limit_ratio")) reader.read("memory_limit_ratio", tune.memory_limit_ratio);
  reader.read("memory_limit_bytes", tune.memory_limit_bytes);
  if (reader.has("cache_memory_ratio")) reader.read("cache_memory_ratio", tune.cache_memory_ratio);
  reader.read("cache_memory_bytes", tune.cache_memory_bytes);
  if (reader.has("cache_disk_ratio")) reader.read("cache_disk_ratio", tune.cache_disk_ratio);
  reader.read("cache_disk_bytes", tune.cache_disk_bytes);
  if (reader.has("allow")) reader.read("allow", tune.allow);

  Reader batch_size = reader.inside("batch_size");
  std::string scaling;
  batch_size.read("max", tune.batch_size_max);
  batch_size.read("lr_scaling", scaling);
  for (const LearningRateScaling known :
       {LearningRateScaling::none, LearningRateScaling::linear, LearningRateScaling::sqrt}) {
    if (scaling == scaling_name(known)) tune.lr_scaling = known;
  }
  if (scaling != scaling_name(tune.lr_scaling)) {
    batch_size.refuse("lr_scaling", "none, linear or sqrt");
  }
  reader.absorb(batch_size);
}

void read_evaluation(Reader& evaluate, Target target, Evaluation& evaluation) {
  if (evaluate.has("data")) evaluate.read("data", evaluation.data);
  if (evaluate.has("split_ratio")) evaluate.read("split_ratio", evaluation.split_ratio);
  const bool is_split = evaluation.split_ratio > 0 && evaluation.split_ratio < 1;
  if (is_split == evaluate.has("data") || is_split != evaluate.has("split_ratio")) {
    evaluate.refuse("evaluate", "data or a share of the training data, and not both");
  }
  if (evaluate.has("input")) evaluate.read("input", evaluation.input.emplace());
  evaluate.read("every", evaluation.every);
  const std::vector<std::string> figures = figures_of(target);
  evaluation.best_by = figures.front();
  if (evaluate.has("best_by")) evaluate.read("best_by", evaluation.best_by);
  if (std::ranges::find(figures, evaluation.best_by) == figures.end()) {
    evaluate.refuse("best_by", "one of " + joined(figures));
  }
  if (evaluate.has("save_best")) evaluate.read("save_best", evaluation.saves_best);
  evaluate.read("patience", evaluation.patience);
  if (evaluation.patience.value_or(1) < 1) evaluate.refuse("patience", "an integer of at least 1");
}

void read_saves(Reader& output, Recipe& recipe) {
  // Within this bound samples can be counted without overflow.
  constexpr std::int64_t kMax = 1'000'000'000'000;
  for (const auto& [field, every] : {std::pair{"save_every", &recipe.save_every_epochs},
                                     std::pair{"save_every_steps", &recipe.save_every_steps}}) {
    output.read(field, *every);
    if (every->value_or(1) < 1 || every->value_or(1) > kMax)
      output.refuse(field, "an integer from 1 to " + std::to_string(kMax));
  }
  if (output.has("keep")) output.read("keep", recipe.kept_saves);
  if (recipe.kept_saves < 1) output.refuse("keep", "an integer of at least 1");
  if (output.has("keep_state")) output.read("keep_state", recipe.keeps_state);
}

// A name, or an object with parameters.
void read_loss(const Json& loss, Reader& reader, Recipe& recipe) {
  if (!loss.is_object()) {
    reader.read("loss", recipe.loss);
    return;
  }
  Component typed;
  reader.read("loss", typed);
  recipe.loss = typed.type;
  recipe.loss_parameters = typed.parameters;
}

Json evaluation_json(const Evaluation& evaluation, Target target) {
  Json json{{"every", evaluation.every}};
  if (evaluation.split_ratio > 0) {
    json["split_ratio"] = evaluation.split_ratio;
  } else {
    json["data"] = component_json(evaluation.data);
  }
  if (evaluation.input) json["input"] = transforms_json(*evaluation.input);
  if (evaluation.best_by != figures_of(target).front()) json["best_by"] = evaluation.best_by;
  if (evaluation.saves_best) json["save_best"] = true;
  if (evaluation.patience) json["patience"] = *evaluation.patience;
  return json;
}

Json tune_json(const Tune& tune) {
  Json json{{"objective", "samples_per_second"},
            {"plugins", "all"},
            {"budget_ns", tune.budget.count()},
            {"min_gain_ratio", tune.min_gain_ratio},
            {"allow", tune.allow},
            {"batch_size",
             {{"max", tune.batch_size_max}, {"lr_scaling", scaling_name(tune.lr_scaling)}}}};
  if (tune.plugins) json["plugins"] = *tune.plugins;
  if (tune.memory_limit_bytes) {
    json["memory_limit_bytes"] = *tune.memory_limit_bytes;
  } else {
    json["memory_limit_ratio"] = tune.memory_limit_ratio;
  }
  if (tune.cache_memory_bytes) {
    json["cache_memory_bytes"] = *tune.cache_memory_bytes;
  } else {
    json["cache_memory_ratio"] = tune.cache_memory_ratio;
  }
  if (tune.cache_disk_bytes) {
    json["cache_disk_bytes"] = *tune.cache_disk_bytes;
  } else {
    json["cache_disk_ratio"] = tune.cache_disk_ratio;
  }
  return json;
}

// The order of a set has no meaning.
std::vector<std::string> sorted(std::vector<std::string> names) {
  std::ranges::sort(names);
  return names;
}

// A file counts by its name and size.
Json counted(const std::filesystem::path& file) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(file, error);
  return {{"name", file.filename().string()}, {"bytes", error ? Json() : Json(bytes)}};
}

// Returns all files of a pattern, or of a list of patterns, in a fixed order.
Json counted_files(const Json& patterns) {
  std::vector<Json> all;
  for (const Json& pattern : patterns.is_array() ? patterns : Json::array({patterns})) {
    if (!pattern.is_string()) continue;
    for (const std::string& file :
         files_matching(pattern.get<std::string>()).value_or(std::vector<std::string>())) {
      all.push_back(counted(file));
    }
  }
  std::ranges::sort(all);
  return all;
}

// Replaces every file among the parameters with its name and size, so that a job keeps its identity when its data moves.
void count_files(Json& data, const std::vector<Variant>& types) {
  const Json& type = member(data, "type");
  const Variant* variant = find_variant(types, type.is_string() ? std::string(type) : "");
  if (variant == nullptr) return;
  for (const Field& field : variant->fields) {
    const std::string key(field.key);
    const Json& value = member(data, key.c_str());
    if (field.type == FieldType::path && value.is_string()) {
      data[key] = counted(data[key].get<std::string>());
    } else if (field.type == FieldType::files && !value.is_null()) {
      data[key] = counted_files(value);
    }
  }
}

void add_input_files(const std::string& part, const Component& spec,
                     const std::vector<Variant>& types, std::vector<InputFiles>& files) {
  const Variant* variant = find_variant(types, spec.type);
  if (variant == nullptr) return;
  for (const Field& field : variant->fields) {
    const bool is_pattern = field.type == FieldType::files;
    if (!is_pattern && field.type != FieldType::path) continue;
    const Json& value = member(spec.parameters, std::string(field.key).c_str());
    for (const Json& path : value.is_array() ? value : Json::array({value})) {
      if (!path.is_string()) continue;
      files.push_back({part + "." + std::string(field.key), path.get<std::string>(), is_pattern});
    }
  }
}

}  // namespace

std::vector<InputFiles> input_files_of(const Recipe& recipe) {
  std::vector<InputFiles> files;
  add_input_files("model", recipe.model, model_types(), files);
  add_input_files("data", recipe.data, data_types(), files);
  if (recipe.evaluation && recipe.evaluation->split_ratio == 0)
    add_input_files("evaluate.data", recipe.evaluation->data, data_types(), files);
  return files;
}

Json Recipe::to_json() const {
  Json train_json{{"batch_size", train.batch_size}, {"drop_last", train.drop_last}};
  if (train.epochs) train_json["epochs"] = *train.epochs;
  if (train.steps) train_json["steps"] = *train.steps;
  add_step_rules(step_rules, train_json);
  // Left out where it says nothing, so that a job keeps its identity.
  if (train.ranks != 1) train_json["ranks"] = train.ranks;

  Json json{
      {"autotuned", 1},
      {"name", name},
      {"seed", seed},
      {"device", device},
      {"deterministic", deterministic},
      {"model", component_json(model)},
      {"data", component_json(data)},
      {"input", transforms_json(input)},
      {"loss", loss_parameters.empty() ? Json(loss) : component_json({loss, loss_parameters})},
      {"optimizer", component_json(optimizer)},
      {"train", std::move(train_json)},
      {"start", start.to_json()},
      {"tune", tune_json(tune)},
      {"output", {{"dir", output_dir.string()}, {"checkpoint_every_ns", checkpoint_every.count()}}},
      {"file", file.string()}};
  // Left out where it says nothing, so that a job keeps its identity.
  if (schedule.type != "constant" || !schedule.parameters.empty()) {
    json["schedule"] = component_json(schedule);
  }
  if (evaluation) json["evaluate"] = evaluation_json(*evaluation, target_of(data.type));
  if (save_every_epochs) json["output"]["save_every"] = *save_every_epochs;
  if (save_every_steps) json["output"]["save_every_steps"] = *save_every_steps;
  if (save_every_epochs || save_every_steps) json["output"]["keep"] = kept_saves;
  if (!keeps_state) json["output"]["keep_state"] = false;
  return json;
}

Result<Recipe> Recipe::from_json(const Json& value) {
  Recipe recipe;
  Reader reader(value);
  std::int64_t version = 0;
  reader.read("autotuned", version);
  if (version != 1) reader.refuse("autotuned", "1");

  std::int64_t seed = 0;
  std::string output_dir;
  std::string file;
  reader.read("name", recipe.name);
  reader.read("seed", seed);
  reader.read("device", recipe.device);
  reader.read("deterministic", recipe.deterministic);
  reader.read("model", recipe.model);
  reader.read("data", recipe.data);
  reader.read("input", recipe.input);
  read_loss(member(value, "loss"), reader, recipe);
  reader.read("optimizer", recipe.optimizer);
  if (reader.has("schedule")) reader.read("schedule", recipe.schedule);
  if (reader.has("file")) reader.read("file", file);
  if (seed < 0) reader.refuse("seed", "0 or more");
  if (!is_device(recipe.device)) reader.refuse("device", "auto, cpu, cuda or cuda:N");
  if (!get_number(recipe.optimizer.parameters, "lr")) {
    reader.refuse("optimizer", "a learning rate, lr");
  }

  Reader train = reader.inside("train");
  read_train(train, recipe.train);
  read_step_rules(train, recipe.step_rules);
  reader.absorb(train);

  if (reader.has("evaluate")) {
    Reader evaluate = reader.inside("evaluate");
    read_evaluation(evaluate, target_of(recipe.data.type), recipe.evaluation.emplace());
    reader.absorb(evaluate);
  }

  Reader tune = reader.inside("tune");
  read_tune(member(value, "tune"), tune, recipe.tune);
  reader.absorb(tune);

  Reader output = reader.inside("output");
  output.read("dir", output_dir);
  output.read("checkpoint_every_ns", recipe.checkpoint_every);
  read_saves(output, recipe);
  reader.absorb(output);

  if (reader.error()) return tl::unexpected(*reader.error());
  if (auto checked = check_schedule(recipe.schedule); !checked) {
    return tl::unexpected(checked.error());
  }
  Result<Configuration> start = Configuration::from_json(member(value, "start"));
  if (!start) return tl::unexpected(start.error());

  recipe.start = std::move(*start);
  recipe.seed = static_cast<std::uint64_t>(seed);
  recipe.output_dir = output_dir;
  recipe.file = file;
  return recipe;
}

std::string Recipe::hash() const {
  Json json = to_json();
  for (const char* left_out : {"name", "seed", "output", "file"})
    json.erase(left_out);
  json["train"].erase("epochs");
  json["train"].erase("steps");
  json["tune"].erase("budget_ns");
  // Recipes without these keys keep the hash that they had before there were caches.
  if (tune.cache_memory_ratio == Tune{}.cache_memory_ratio)
    json["tune"].erase("cache_memory_ratio");
  if (tune.cache_disk_ratio == Tune{}.cache_disk_ratio) json["tune"].erase("cache_disk_ratio");
  if (evaluation) {
    for (const char* of_the_end : {"best_by", "save_best", "patience"})
      json["evaluate"].erase(of_the_end);
  }
  const bool has_test_data = evaluation && evaluation->split_ratio == 0;
  for (const char* place : {"line", "column"}) {  // where the recipe names a plugin
    json["model"].erase(place);
    json["data"].erase(place);
    if (json["loss"].is_object()) json["loss"].erase(place);
    if (has_test_data) json["evaluate"]["data"].erase(place);
  }
  count_files(json["model"], model_types());
  count_files(json["data"], data_types());
  if (has_test_data) count_files(json["evaluate"]["data"], data_types());
  json["tune"]["allow"] = sorted(tune.allow);
  if (tune.plugins) json["tune"]["plugins"] = sorted(*tune.plugins);
  return sha256_hex(to_line(json)).substr(0, 16);
}

}  // namespace autotuned::recipes
