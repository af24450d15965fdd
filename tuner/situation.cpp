// SPDX-License-Identifier: Apache-2.0
#include "tuner/situation.hpp"

#include <algorithm>
#include <utility>

#include "tuner/one_time_cost.hpp"

namespace autotuned::tuner {
namespace {

constexpr int kSchema = 1;

Json knobs_json(const SessionInput& input) {
  Json knobs = Json::object();
  for (const recipes::Knob& knob : input.knobs) {
    if (std::ranges::find(input.supported_knobs, knob.name) == input.supported_knobs.end())
      continue;
    Json json = knob.to_json();
    json["switch"] = recipes::to_string(knob.how);
    knobs[knob.name] = std::move(json);
  }
  // Stands for every environment variable of a trainer. A script has already started, so its variables cannot change.
  if (input.is_script) return knobs;
  if (const auto variable = recipes::find_knob(input.knobs, "env.NAME")) {
    knobs["env.*"] = variable->to_json();
  }
  return knobs;
}

// The facts of a recipe, as far as they are known for a script.
Json script_json(const SessionInput& input) {
  Json known = Json::object();
  if (const auto samples = get_integer(input.job_facts, "samples_per_step");
      samples && *samples > 0) {
    known["batch_size"] = *samples;
  }
  const Json& optimizers = member(input.job_facts, "optimizers");
  if (optimizers.is_array() && optimizers.size() == 1) {
    std::string type = get_string(optimizers.front(), "type").value_or("");
    std::ranges::transform(type, type.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    if (!type.empty()) known["optimizer"] = type;
  }
  return known;
}

Json recipe_json(const SessionInput& input) {
  if (input.is_script) return script_json(input);
  const recipes::Recipe& recipe = input.recipe;
  Json transforms = Json::array();
  for (const recipes::Component& transform : recipe.input)
    transforms.push_back(transform.type);
  Json json = {{"batch_size", recipe.train.batch_size},
               {"train_samples_total", training_samples(recipe, input.job_facts)},
               {"checkpoint_every_ns", recipe.checkpoint_every.count()},
               {"optimizer", recipe.optimizer.type},
               {"model", recipe.model.type},
               {"data", recipe.data.type},
               {"input", std::move(transforms)},
               {"deterministic", recipe.deterministic}};
  if (recipe.train.ranks > 1) json["ranks"] = recipe.train.ranks;
  return json;
}

// The part of the machine for one of several ranks, because metrics and knobs are those of a rank.
Json environment_json(const SessionInput& input) {
  Machine machine = input.machine;
  if (const int ranks = input.recipe.train.ranks; ranks > 1) {
    machine.cpus_allowed = std::max(1, machine.cpus_allowed / ranks);
    machine.physical_cores = std::max(1, machine.physical_cores / ranks);
  }
  return machine.to_json();
}

std::string_view scaling_name(recipes::LearningRateScaling scaling) {
  switch (scaling) {
    case recipes::LearningRateScaling::none:
      return "none";
    case recipes::LearningRateScaling::linear:
      return "linear";
    case recipes::LearningRateScaling::sqrt:
      return "sqrt";
  }
  return "none";
}

Json permissions_json(const SessionInput& input) {
  const recipes::Tune& tune = input.recipe.tune;
  Json knobs = Json::array();
  bool allows_numerics = false;
  bool allows_semantics = false;
  for (const std::string& name : tune.allow) {
    if (name == "numerics") {
      allows_numerics = true;
    } else if (name == "semantics") {
      allows_semantics = allows_numerics = true;  // a class permits what is less risky
    } else {
      knobs.push_back(name);
    }
  }
  Json permissions = {{"exact", true},
                      {"numerics", allows_numerics},
                      {"semantics", allows_semantics},
                      {"knobs", std::move(knobs)},
                      {"batch_size_max", tune.batch_size_max},
                      {"lr_scaling", scaling_name(tune.lr_scaling)},
                      {"memory_limit_bytes", memory_to_plan_with_bytes(input)}};
  if (input.is_script) permissions["option"] = "--allow";
  return permissions;
}

Json check_json(const CheckRecord& check) {
  return {{"risk", check.risk},
          {"detail", check.detail},
          {"parameters", check.parameters},
          {"failed", check.failed},
          {"compared", check.compared}};
}

Json trials_json(const std::vector<TrialRecord>& trials, const std::string& plugin) {
  Json list = Json::array();
  for (const TrialRecord& trial : trials) {
    if (trial.plugin == plugin && trial.kind == TrialKind::proposal) {
      list.push_back(trial.to_json(""));
      if (trial.failed_check) list.back()["check"] = check_json(*trial.failed_check);
    }
  }
  return list;
}

}  // namespace

Json situation_for(const std::string& plugin, const SessionInput& input,
                   const Configuration& incumbent, const Json& metrics, const Json& places,
                   const std::vector<TrialRecord>& trials) {
  return {{"schema", kSchema},
          {"metrics", metrics},
          {"places", places},
          {"environment", environment_json(input)},
          {"job", input.job_facts},
          {"recipe", recipe_json(input)},
          {"knobs", knobs_json(input)},
          {"starting", input.starting.to_json()},
          {"incumbent", incumbent.to_json()},
          {"permissions", permissions_json(input)},
          {"trials", trials_json(trials, plugin)},
          {"history", trials_json(input.history, plugin)}};
}

}  // namespace autotuned::tuner
