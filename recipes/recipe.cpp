// SPDX-License-Identifier: Apache-2.0
// Reads and checks a recipe, and computes what follows from its values.
#include "recipes/recipe.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "recipes/checker.hpp"
#include "recipes/schema_table.hpp"

namespace autotuned::recipes {
namespace {

std::vector<std::string> names_of(const std::vector<Knob>& knobs) {
  std::vector<std::string> names;
  for (const Knob& knob : knobs)
    names.push_back(knob.name);
  return names;
}

// What to do about a name that no knob has. `known`: what may stand in its place.
std::string remedy(const Checker& checker, const std::string& name, const std::vector<Knob>& knobs,
                   const std::vector<std::string>& known) {
  return (may_be_of_extension(knobs, name) ? "; " + std::string(kExtensionRemedy) : "") +
         checker.suggestion(name, known);
}

void check_start(const YamlNode& root, const std::vector<Knob>& knobs, Checker& checker,
                 Configuration& start) {
  const YamlNode* map = root.find("start");
  if (map == nullptr) return;
  for (const auto& [key, value] : map->entries) {
    const std::string& name = key.scalar;
    if (name == "batch_size") {
      checker.report(key, "start: batch_size belongs to train.batch_size; move it there");
      continue;
    }
    const std::optional<Knob> knob = find_knob(knobs, name);
    if (!knob) {
      checker.report(key, "unknown knob " + quote_for_message(name) + " in start" +
                              remedy(checker, name, knobs, names_of(knobs)));
      continue;
    }
    if (value.kind != YamlNode::Kind::scalar) {
      checker.report(value, "start." + name + ": expected one value, found " + found_text(value));
      continue;
    }
    const Result<KnobValue> read = parse_value(*knob, value.scalar);
    if (read) {
      start.set(name, *read);
    } else {
      checker.report(value, "start." + name + ": " + read.error().what);
    }
  }
}

void check_allow(const YamlNode& root, const std::vector<Knob>& knobs, Checker& checker) {
  const YamlNode* tune = root.find("tune");
  const YamlNode* list = tune != nullptr ? tune->find("allow") : nullptr;
  if (list == nullptr) return;
  for (const YamlNode& item : list->items) {
    const std::string& name = item.scalar;
    // Other values have been reported already.
    if (item.kind != YamlNode::Kind::scalar || name.empty() || find_knob(knobs, name)) continue;
    const std::optional<RiskClass> risk = risk_class_from(name);
    if (risk == RiskClass::exact) {
      checker.report(item, "tune.allow: exact changes are always tried; leave \"exact\" out");
    } else if (!risk) {
      std::vector<std::string> known = names_of(knobs);
      known.insert(known.begin(), {"numerics", "semantics"});
      checker.report(item, "tune.allow: unknown name " + quote_for_message(name) +
                               remedy(checker, name, knobs, known));
    }
  }
}

void check_batch_size_limit(const YamlNode& root, const Json& values, Checker& checker) {
  const YamlNode* tune = root.find("tune");
  const YamlNode* rules = tune != nullptr ? tune->find("batch_size") : nullptr;
  const YamlNode* maximum = rules != nullptr ? rules->find("max") : nullptr;
  if (maximum == nullptr) return;
  const Json& largest = member(member(member(values, "tune"), "batch_size"), "max");
  const Json& own = member(member(values, "train"), "batch_size");
  if (largest.is_number() && own.is_number() && largest < own) {
    checker.report(*maximum, "tune.batch_size.max: expected at least train.batch_size, " +
                                 own.dump() + ", found " + largest.dump());
  }
}

void check_loss(const YamlNode& root, const Json& values, Checker& checker) {
  const YamlNode* loss = root.find("loss");
  const Json& type = member(member(values, "model"), "type");
  const Json& classes = member(member(values, "model"), "classes");
  for (const auto& [key, counted] :
       {std::pair{"class_weights", " classes"}, std::pair{"pos_weight", " outputs"}}) {
    const Json& weights = member(member(values, "loss"), key);
    if (loss == nullptr || !weights.is_array() || !classes.is_number() ||
        Json(weights.size()) == classes)
      continue;
    checker.report(*loss, std::string("loss: ") + key + " has " + std::to_string(weights.size()) +
                              " weights, the model " + classes.dump() + counted);
  }
  const Json& loss_type = member(member(values, "loss"), "type");
  const bool is_named = !member(member(values, "loss"), kPluginType).is_null();
  if (loss == nullptr || loss_type != kPluginType || is_named || type == kPluginType) return;
  checker.report(
      *loss,
      "loss: plugin is the loss of the model's plugin, but the model is not from a plugin; name "
      "one: loss: {plugin: NAME}");
}

// The node at which a mistake is reported: `node` if it is there, else `otherwise`.
const YamlNode& node_or(const YamlNode* node, const YamlNode& otherwise) {
  return node != nullptr ? *node : otherwise;
}

// Checks that loss, evaluation and model fit the targets of the data.
void check_targets(const YamlNode& root, const Json& values, Checker& checker) {
  const YamlNode* const data = root.find("data");
  const Json& type = member(member(values, "data"), "type");
  if (data == nullptr || !type.is_string()) return;
  const Target target = target_of(type.get<std::string>());
  const std::string targets = "data of type " + type.get<std::string>() + ", whose targets are " +
                              std::string(name_of(target));
  const auto is_in = [](const Json& name, const std::vector<std::string>& names) {
    return !name.is_string() || std::ranges::find(names, name.get<std::string>()) != names.end();
  };
  const Json& loss = member(member(values, "loss"), "type");
  if (!is_in(loss, losses_of(target))) {
    checker.report(node_or(root.find("loss"), *data), "loss: " + loss.get<std::string>() +
                                                          " does not fit " + targets + "; use " +
                                                          joined(losses_of(target)));
  }
  for (const char* const mixing : {"mixup_alpha", "cutmix_alpha"}) {
    if (!loss.is_string() || member(member(values, "train"), mixing).is_null()) continue;
    if (loss == "cross_entropy" && target != Target::masks) continue;
    const char* const why =
        target == Target::masks
            ? ": mixes the classes of whole samples, but a mask has a class for "
              "each pixel; leave it out"
            : ": is for the loss cross_entropy; leave it out";
    checker.report(node_or(root.find("train"), *data), std::string("train.") + mixing + why);
  }
  const std::string of_others = target == Target::tags ? "label_smoothing" : "pos_weight";
  if (!member(member(values, "loss"), of_others.c_str()).is_null()) {
    checker.report(node_or(root.find("loss"), *data),
                   "loss: " + of_others + " does not fit " + targets + "; leave it out");
  }
  const YamlNode* const model = root.find("model");
  const Json& model_type = member(member(values, "model"), "type");
  // check_tokens() compares the model with tokens.
  if (model != nullptr && model_type.is_string() && target != Target::tokens &&
      model_type != kTokenModel && !is_model_for(target, model_type.get<std::string>())) {
    checker.report(*model, "model: " + model_type.get<std::string>() + " does not fit " + targets +
                               "; use " +
                               (target == Target::masks ? "unet, torchscript or a plugin"
                                                        : "a model that classifies whole samples"));
  }
  const YamlNode* const width = model != nullptr ? model->find("classes") : nullptr;
  if (width != nullptr && target == Target::classes &&
      member(member(values, "model"), "classes") == 1) {
    checker.report(*width, "model.classes: expected at least 2 for " + targets + ", found 1");
  }
  const YamlNode* const evaluate = root.find("evaluate");
  if (evaluate == nullptr) return;
  const Json& checked = member(values, "evaluate");
  const Json& test_type = member(member(checked, "data"), "type");
  if (test_type.is_string() && target_of(test_type.get<std::string>()) != target) {
    checker.report(node_or(evaluate->find("data"), *evaluate),
                   "evaluate.data: the targets of " + test_type.get<std::string>() + " are " +
                       std::string(name_of(target_of(test_type.get<std::string>()))) +
                       ", those of the training data are " + std::string(name_of(target)));
  }
  const Json& figure = member(checked, "best_by");
  if (!is_in(figure, figures_of(target))) {
    checker.report(node_or(evaluate->find("best_by"), *evaluate),
                   "evaluate.best_by: " + figure.get<std::string>() + " does not fit " + targets +
                       "; use " + joined(figures_of(target)));
  }
}

// Checks that tokens come with the model for tokens, and without anything that is for pictures.
void check_tokens(const YamlNode& root, const Json& values, Checker& checker) {
  const YamlNode* const data = root.find("data");
  const YamlNode* const model = root.find("model");
  const Json& type = member(member(values, "data"), "type");
  const Json& model_type = member(member(values, "model"), "type");
  if (data == nullptr || model == nullptr || !type.is_string() || !model_type.is_string()) return;
  const bool has_tokens = target_of(type.get<std::string>()) == Target::tokens;
  if (has_tokens != (model_type == kTokenModel)) {
    checker.report(*model, has_tokens ? "model: data of type " + type.get<std::string>() +
                                            " need the model " + kTokenModel
                                      : "model: " + model_type.get<std::string>() +
                                            " needs data of type tokens or synthetic_tokens");
  }
  if (!has_tokens) return;
  const Json& evaluate = member(values, "evaluate");
  const YamlNode* const evaluation = root.find("evaluate");
  const auto refuse = [&](const YamlNode* node, const Json& list, const char* key) {
    if (node == nullptr || !list.is_array() || list.empty()) return;
    checker.report(*node, std::string(key) +
                              ": transforms are for pictures, but the samples are tokens; leave "
                              "it out");
  };
  refuse(root.find("input"), member(values, "input"), "input");
  refuse(evaluation != nullptr ? evaluation->find("input") : nullptr, member(evaluate, "input"),
         "evaluate.input");
  for (const char* const mixing : {"mixup_alpha", "cutmix_alpha"}) {
    if (member(member(values, "train"), mixing).is_null()) continue;
    checker.report(node_or(root.find("train"), *data),
                   std::string("train.") + mixing +
                       ": mixes pictures, but the samples are tokens; leave it out");
  }
}

void check_plateau(const YamlNode& root, const Json& values, Checker& checker) {
  const YamlNode* schedule = root.find("schedule");
  if (schedule == nullptr || member(member(values, "schedule"), "type") != "plateau") return;
  const Json& evaluate = member(values, "evaluate");
  if (evaluate.is_object() && member(evaluate, "every") != "end") return;
  checker.report(
      *schedule,
      "schedule: plateau needs the loss of an evaluation after every epoch; add evaluate "
      "with every: epoch");
}

void check_evaluation(const YamlNode& root, Checker& checker) {
  const YamlNode* evaluate = root.find("evaluate");
  const YamlNode* list = evaluate != nullptr ? evaluate->find("input") : nullptr;
  if (list == nullptr) return;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    const YamlNode& item = list->items[i];
    const bool is_map = item.kind == YamlNode::Kind::map && !item.entries.empty();
    const YamlNode& name = is_map ? item.entries.front().key : item;
    const Variant* transform = find_variant(transform_types(), name.scalar);
    if (transform == nullptr || transform->remedy_for_evaluation.empty()) continue;
    checker.report(name, "evaluate.input[" + std::to_string(i) + "]: " + transform->name +
                             " is random, but every evaluation must see the same samples; " +
                             std::string(transform->remedy_for_evaluation));
  }
}

auto place_of(const Diagnostic& problem) {
  return std::tuple(problem.line, problem.column);
}

// Sorts the problems by their places in the file. The first `refused` ones say that a value must not be there at all; other problems
// at the same places are left out.
std::vector<Diagnostic> in_order(std::vector<Diagnostic> problems, std::size_t refused) {
  const auto checked = problems.begin() + static_cast<std::ptrdiff_t>(refused);
  const auto is_refused = [&](const Diagnostic& problem) {
    return std::ranges::find(problems.begin(), checked, place_of(problem), place_of) != checked;
  };
  problems.erase(std::remove_if(checked, problems.end(), is_refused), problems.end());
  std::ranges::stable_sort(problems, {}, place_of);
  return problems;
}

}  // namespace

tl::expected<Recipe, std::vector<Diagnostic>> parse_recipe(std::string_view text,
                                                           const std::filesystem::path& file,
                                                           const std::vector<Knob>& knobs,
                                                           NamedFiles files) {
  std::error_code ignored;
  const std::filesystem::path absolute =
      std::filesystem::absolute(file, ignored).lexically_normal();

  YamlReading reading = read_as_far_as_possible(text, file.string());
  std::vector<Diagnostic>& problems = reading.problems;
  const std::size_t refused = problems.size();
  if (!reading.root) return tl::unexpected(std::move(problems));
  const YamlNode& root = *reading.root;

  Checker checker(file.string(), absolute.parent_path(), problems, files);
  const std::optional<Json> values = checker.check(recipe_field(), root, "");
  Configuration start;
  if (values) {
    check_start(root, knobs, checker, start);
    check_allow(root, knobs, checker);
    check_batch_size_limit(root, *values, checker);
    check_loss(root, *values, checker);
    check_targets(root, *values, checker);
    check_tokens(root, *values, checker);
    check_plateau(root, *values, checker);
    check_evaluation(root, checker);
  }
  if (!problems.empty()) return tl::unexpected(in_order(std::move(problems), refused));

  Json complete = *values;
  complete["file"] = absolute.string();
  complete["start"] = start.to_json();
  if (member(complete["output"], "dir").is_null()) {
    const std::filesystem::path dir = "out" / std::filesystem::path(complete["name"]);
    complete["output"]["dir"] = std::filesystem::absolute(dir, ignored).string();
  }
  // A batch size of the recipe that is larger than the default limit raises the limit.
  Json& largest = complete["tune"]["batch_size"]["max"];
  largest = std::max(largest, complete["train"]["batch_size"]);
  Result<Recipe> recipe = Recipe::from_json(complete);
  if (!recipe) {
    return tl::unexpected(std::vector{Diagnostic{file.string(), 0, 0, recipe.error().message()}});
  }
  return std::move(*recipe);
}

tl::expected<Recipe, std::vector<Diagnostic>> read_recipe(const std::filesystem::path& file,
                                                          const std::vector<Knob>& knobs) {
  const Result<std::string> text = read_file(file, kMaxYamlBytes);
  if (!text) {
    const Error& error = text.error();
    std::string message = error.what;
    if (!error.remedy.empty()) message += "; " + error.remedy;
    return tl::unexpected(std::vector{Diagnostic{file.string(), 0, 0, std::move(message)}});
  }
  return parse_recipe(*text, file, knobs);
}

Configuration Recipe::starting_configuration(const std::vector<Knob>& knobs) const {
  Configuration configuration = default_configuration(knobs);
  configuration.set("batch_size", train.batch_size);
  if (train.ranks > 1 && configuration.find("threads.intra_op") != nullptr) {
    const std::int64_t threads = configuration.integer("threads.intra_op");
    configuration.set("threads.intra_op", std::max<std::int64_t>(1, threads / train.ranks));
  }
  return configuration.with(start);
}

bool Recipe::allows(RiskClass risk, const Configuration& change) const {
  // A class permits the less risky ones, too.
  RiskClass permitted = RiskClass::exact;
  for (const std::string& allowed : tune.allow) {
    permitted = std::max(permitted, risk_class_from(allowed).value_or(RiskClass::exact));
  }
  if (risk <= permitted) return true;

  // Otherwise only the knobs that are permitted by name may be risky; the others must be exact.
  const std::vector<Knob> knobs = with_ranks(knobs_of(Machine{}), train.ranks);
  bool is_any_named = false;
  for (const auto& [knob_name, value] : change.values()) {
    if (std::ranges::find(tune.allow, knob_name) != tune.allow.end()) {
      is_any_named = true;
      continue;
    }
    const std::optional<Knob> knob = find_knob(knobs, knob_name);
    if (!knob || knob->risk > permitted) return false;
  }
  return is_any_named;
}

Result<void> refuse_ranks(const Recipe& recipe) {
  if (recipe.train.ranks == 1 || !recipe.device.starts_with("cuda:")) return {};
  return fail(ErrorKind::unsupported,
              std::to_string(recipe.train.ranks) +
                  " ranks need a GPU each, and device: " + recipe.device + " is one",
              "train.ranks", "write device: cuda; CUDA_VISIBLE_DEVICES says which GPUs");
}

double Recipe::learning_rate_at(std::int64_t batch_size) const {
  const Result<double> own = get_number(optimizer.parameters, "lr");
  assert(own && "the schema gives every optimizer a learning rate");
  const double growth = static_cast<double>(batch_size) / static_cast<double>(train.batch_size);
  switch (tune.lr_scaling) {
    case LearningRateScaling::none:
      return *own;
    case LearningRateScaling::linear:
      return *own * growth;
    case LearningRateScaling::sqrt:
      break;
  }
  return *own * std::sqrt(growth);
}

std::int64_t optimizer_states(const Component& optimizer) {
  const bool has_momentum = get_number(optimizer.parameters, "momentum").value_or(0.0) > 0.0;
  const bool is_centered = get_bool(optimizer.parameters, "centered").value_or(false);
  const std::string& type = optimizer.type;
  if (type == "sgd") return has_momentum ? 1 : 0;
  if (type == "rmsprop") return 1 + (has_momentum ? 1 : 0) + (is_centered ? 1 : 0);
  if (type == "adagrad" || type == "lion") return 1;
  if (type == "adam" || type == "adamw" || type == "nadam") return 2;
  return 0;
}

}  // namespace autotuned::recipes
