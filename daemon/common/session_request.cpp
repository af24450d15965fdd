// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/session_request.hpp"

#include <utility>

namespace autotuned::daemon {

Json ScriptRequest::to_json() const {
  return {{"name", name},
          {"command", command},
          {"content", content},
          {"budget_ns", budget ? Json(budget->count()) : Json()},
          {"allow", allow}};
}

Result<ScriptRequest> ScriptRequest::from_json(const Json& value) {
  const auto name = get_string(value, "name");
  const auto content = get_string(value, "content");
  if (!name) return tl::unexpected(name.error());
  if (!content) return tl::unexpected(content.error());
  ScriptRequest script{
      .name = *name, .command = {}, .content = *content, .budget = {}, .allow = {}};
  for (const auto& [field, list] :
       {std::pair{"command", &script.command}, std::pair{"allow", &script.allow}}) {
    for (const Json& word : member(value, field)) {
      if (word.is_string()) list->push_back(word.get<std::string>());
    }
  }
  if (!member(value, "budget_ns").is_null()) {
    const auto budget_ns = get_integer(value, "budget_ns");
    if (!budget_ns) return tl::unexpected(budget_ns.error());
    script.budget = std::chrono::nanoseconds(*budget_ns);
  }
  if (script.command.empty()) return fail(ErrorKind::invalid, "a script has no command");
  return script;
}

Json SessionRequest::to_json() const {
  Json folders = Json::array();
  for (const auto& folder : plugin_folders)
    folders.push_back(folder.string());
  Json fault_list = Json::array();
  for (const PluginFault& fault : faults) {
    fault_list.push_back(
        {{"plugin", fault.plugin}, {"outcome", fault.outcome}, {"is_loading", fault.is_loading}});
  }
  Json json = {{"history", history.string()},  {"plugin_folders", folders},
               {"without", without},           {"retune", retune},
               {"tune_only", tune_only},       {"is_ablated", is_ablated},
               {"continue_run", continue_run}, {"faults", fault_list},
               {"lost_trials", lost_trials},   {"block_limit_ns", block_limit.count()}};
  if (extends) json["extends"] = {{"schedule", extended_schedule}};
  if (script) {
    json["script"] = script->to_json();
  } else {
    json["recipe"] = recipe.to_json();
    if (recipe_budget) json["recipe_budget_ns"] = recipe_budget->count();
  }
  return json;
}

Result<SessionRequest> SessionRequest::from_json(const Json& value) {
  SessionRequest request;
  if (const Json& told = member(value, "script"); !told.is_null()) {
    auto script = ScriptRequest::from_json(told);
    if (!script) return tl::unexpected(script.error());
    request.script = *std::move(script);
  } else {
    auto recipe = recipes::Recipe::from_json(member(value, "recipe"));
    if (!recipe) return tl::unexpected(recipe.error());
    request.recipe = std::move(*recipe);
    if (const auto budget_ns = get_integer(value, "recipe_budget_ns")) {
      request.recipe_budget = std::chrono::nanoseconds(*budget_ns);
    }
  }
  const auto history = get_string(value, "history");
  const auto retune = get_bool(value, "retune");
  const auto tune_only = get_bool(value, "tune_only");
  const auto is_ablated = get_bool(value, "is_ablated");
  const auto continue_run = get_string(value, "continue_run");
  const auto block_limit_ns = get_integer(value, "block_limit_ns");
  if (!history) return tl::unexpected(history.error());
  if (!retune) return tl::unexpected(retune.error());
  if (!tune_only) return tl::unexpected(tune_only.error());
  if (!is_ablated) return tl::unexpected(is_ablated.error());
  if (!continue_run) return tl::unexpected(continue_run.error());
  if (!block_limit_ns) return tl::unexpected(block_limit_ns.error());
  request.history = *history;
  request.retune = *retune;
  request.tune_only = *tune_only;
  request.is_ablated = *is_ablated;
  request.continue_run = *continue_run;
  if (const Json& told = member(value, "extends"); !told.is_null()) {
    request.extends = true;
    request.extended_schedule = get_string(told, "schedule").value_or("");
  }
  request.block_limit = std::chrono::nanoseconds(*block_limit_ns);
  for (const Json& folder : member(value, "plugin_folders")) {
    if (folder.is_string()) request.plugin_folders.emplace_back(folder.get<std::string>());
  }
  for (const Json& name : member(value, "without")) {
    if (name.is_string()) request.without.push_back(name.get<std::string>());
  }
  for (const Json& fault : member(value, "faults")) {
    request.faults.push_back({get_string(fault, "plugin").value_or(""),
                              get_string(fault, "outcome").value_or(""),
                              get_bool(fault, "is_loading").value_or(false)});
  }
  for (const Json& number : member(value, "lost_trials")) {
    if (number.is_number_integer()) request.lost_trials.push_back(number.get<int>());
  }
  return request;
}

}  // namespace autotuned::daemon
