// SPDX-License-Identifier: Apache-2.0
// The situation of a question, and the reading of its answer.
#include "tuner/advisors.hpp"

#include <algorithm>
#include <cmath>
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

constexpr std::size_t kMaxCandidates = 1000;
constexpr double kMaxPreparation = 86'400.0;  // seconds; no budget is longer than a day

tl::unexpected<Error> nonsense(const std::string& plugin, const std::string& what) {
  return fail(ErrorKind::invalid, what, "answer of plugin " + plugin);
}

Result<Proposal> parse_proposal(const Json& item, const std::string& plugin,
                                const std::string& place) {
  if (!item.is_object()) return nonsense(plugin, place + " is not an object");
  Proposal proposal;
  proposal.plugin = plugin;
  auto change = Configuration::from_json(member(item, "change"));
  if (!change) return nonsense(plugin, place + ".change: " + change.error().what);
  if (change->empty()) return nonsense(plugin, place + ".change names no knob");
  proposal.change = std::move(*change);
  const auto gain = get_number(item, "expected_gain_ratio");
  if (!gain) return nonsense(plugin, place + ": " + gain.error().what);
  if (*gain <= 0.0) {
    return nonsense(plugin, place + ".expected_gain_ratio is not above 0");
  }
  proposal.expected_gain_ratio = *gain;
  if (const Json& share = member(item, "signal_share_ratio"); !share.is_null()) {
    const auto ratio = get_number(item, "signal_share_ratio");
    if (!ratio) return nonsense(plugin, place + ": " + ratio.error().what);
    if (*ratio < 0.0 || *ratio > 1.0) {
      return nonsense(plugin, place + ".signal_share_ratio is not between 0 and 1");
    }
    proposal.signal_share_ratio = *ratio;
  }
  if (const Json& preparation = member(item, "preparation_s"); !preparation.is_null()) {
    const auto seconds = get_number(item, "preparation_s");
    if (!seconds) return nonsense(plugin, place + ": " + seconds.error().what);
    if (*seconds < 0.0 || *seconds > kMaxPreparation) {
      return nonsense(plugin, place + ".preparation_s is not between 0 and 86,400");
    }
    proposal.preparation = std::chrono::nanoseconds(std::llround(*seconds * 1e9));
  }
  auto reason = get_string(item, "reason");
  if (!reason) return nonsense(plugin, place + ": " + reason.error().what);
  if (reason->empty()) return nonsense(plugin, place + ".reason is empty");
  proposal.reason = std::move(*reason);
  return proposal;
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

Result<Advice> parse_advice(const Json& answer, const std::string& plugin) {
  if (!answer.is_object()) return nonsense(plugin, "the answer is not an object");
  // The form in which the C++ façade of the SDK returns an exception.
  if (answer.contains("error")) {
    const Json& error = member(answer, "error");
    return nonsense(
        plugin, "it failed: " + (error.is_string() ? error.get<std::string>() : to_line(error)));
  }
  const Json& list = member(answer, "candidates");
  if (!list.is_array()) return nonsense(plugin, "candidates is not an array");
  if (list.size() > kMaxCandidates) {
    return nonsense(plugin, "there are more than 1,000 candidates");
  }
  Advice advice;
  for (std::size_t i = 0; i < list.size(); ++i) {
    auto proposal = parse_proposal(list[i], plugin, "candidates[" + std::to_string(i) + "]");
    if (!proposal) return forward_error(proposal);
    advice.proposals.push_back(std::move(*proposal));
  }
  const Json& because = member(answer, "none_because");
  if (because.is_string()) advice.none_because = because.get<std::string>();
  if (advice.proposals.empty() && advice.none_because.empty()) {
    return nonsense(plugin, "there is neither a candidate nor a reason in none_because");
  }
  return advice;
}

}  // namespace autotuned::tuner
