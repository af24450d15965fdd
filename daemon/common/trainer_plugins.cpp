// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/trainer_plugins.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "daemon/common/installation_paths.hpp"

namespace autotuned::daemon {

namespace {

using plugins::FoundPlugin;

constexpr const char* kExtension = "extension";
constexpr const char* kWorkload = "workload";

bool is_ready(const FoundPlugin& plugin, const char* kind) {
  return plugin.state == FoundPlugin::State::ready && plugin.kind == kind;
}

// The parts of a recipe that name a plugin: the key of each, and its value.
std::vector<std::pair<const char*, const Json*>> workloads_of(const recipes::Recipe& recipe) {
  std::vector<std::pair<const char*, const Json*>> all;
  const auto add = [&all](const char* part, const std::string& type, const Json& parameters) {
    if (type == "plugin") all.emplace_back(part, &parameters);
  };
  add("model", recipe.model.type, recipe.model.parameters);
  add("data", recipe.data.type, recipe.data.parameters);
  // Without a name it is the loss of the model's.
  if (recipe.loss_parameters.contains("plugin")) add("loss", recipe.loss, recipe.loss_parameters);
  if (recipe.evaluation) {
    add("evaluate.data", recipe.evaluation->data.type, recipe.evaluation->data.parameters);
  }
  return all;
}

bool has_name(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

// Why a recipe cannot have this workload, as a clause; empty: it can.
std::string obstacle(const std::string& name, const std::vector<FoundPlugin>& found,
                     const std::vector<std::string>& without) {
  if (has_name(without, name)) {
    return "the recipe needs plugin " + short_for_message(name) + ", which is left out";
  }
  const auto plugin = std::ranges::find(found, name, &FoundPlugin::name);
  if (plugin == found.end()) {
    std::vector<std::string> known;
    for (const FoundPlugin& one : found) {
      if (is_ready(one, kWorkload)) known.push_back(one.name);
    }
    const std::string shown = short_for_message(name);
    std::string text = "there is no workload plugin '" + shown + "'";
    if (const auto nearest = nearest_name(name, known)) {
      return text + "; did you mean \"" + *nearest + "\"?";
    }
    return text + "; its file lib" + shown +
           "_trainer.so must lie in a folder of --plugin-dir, AUTOTUNED_PLUGIN_PATH or the user's "
           "plugins";
  }
  if (plugin->state != FoundPlugin::State::ready) {
    return "plugin " + name + " is " + std::string(plugins::to_string(plugin->state)) + ": " +
           plugin->refusal;
  }
  return plugin->kind == kWorkload ? "" : "plugin " + name + " is an extension and no workload";
}

}  // namespace

std::vector<FoundPlugin> trainer_plugins_here(const std::vector<std::filesystem::path>& extra,
                                              const std::vector<std::string>& without) {
  std::vector<std::filesystem::path> absolute;
  for (const auto& folder : extra)
    absolute.push_back(std::filesystem::absolute(folder));
  return plugins::find_trainer_plugins(
      plugins::plugin_folders(absolute, find_installation_paths().built_in_plugins), without);
}

std::vector<recipes::Knob> knobs_with(std::vector<recipes::Knob> built_in,
                                      const std::vector<FoundPlugin>& trainer_plugins) {
  for (const FoundPlugin& plugin : trainer_plugins) {
    if (!is_ready(plugin, kExtension)) continue;
    built_in.insert(built_in.end(), plugin.knobs.begin(), plugin.knobs.end());
  }
  std::ranges::stable_sort(built_in, {}, &recipes::Knob::name);
  return built_in;
}

std::vector<std::string> extension_knobs(const std::vector<FoundPlugin>& trainer_plugins) {
  std::vector<std::string> names;
  for (const recipes::Knob& knob : knobs_with({}, trainer_plugins))
    names.push_back(knob.name);
  return names;
}

bool differ_in_extensions(const std::vector<std::string>& extension_knobs, const Configuration& one,
                          const Configuration& other) {
  return std::ranges::any_of(extension_knobs, [&](const std::string& name) {
    const KnobValue* const left = one.find(name);
    const KnobValue* const right = other.find(name);
    return (left == nullptr) != (right == nullptr) || (left != nullptr && *left != *right);
  });
}

std::vector<std::string> differing_extensions(const std::vector<FoundPlugin>& trainer_plugins,
                                              const Configuration& one,
                                              const Configuration& other) {
  std::vector<std::string> names;
  for (const FoundPlugin& plugin : trainer_plugins) {
    if (differ_in_extensions(extension_knobs({plugin}), one, other)) names.push_back(plugin.name);
  }
  return names;
}

Result<Json> libraries_for(const recipes::Recipe& recipe,
                           const std::vector<FoundPlugin>& trainer_plugins,
                           const std::vector<std::string>& without) {
  std::set<std::string> named;
  for (const auto& [part, parameters] : workloads_of(recipe)) {
    const std::string name = get_string(*parameters, "plugin").value_or("");
    if (std::string reason = obstacle(name, trainer_plugins, without); !reason.empty()) {
      return fail(ErrorKind::invalid, std::move(reason), part);
    }
    named.insert(name);
  }
  Json files = Json::array();
  for (const FoundPlugin& plugin : trainer_plugins) {
    if (is_ready(plugin, kExtension) ||
        (is_ready(plugin, kWorkload) && named.contains(plugin.name))) {
      files.push_back(plugin.path.string());
    }
  }
  return files;
}

std::vector<recipes::Diagnostic> workload_problems(const recipes::Recipe& recipe,
                                                   const std::vector<FoundPlugin>& trainer_plugins,
                                                   const std::vector<std::string>& without) {
  std::vector<recipes::Diagnostic> problems;
  for (const auto& [part, said] : workloads_of(recipe)) {
    const Json& parameters = *said;
    const std::string name = get_string(parameters, "plugin").value_or("");
    std::string reason = obstacle(name, trainer_plugins, without);
    if (reason.empty()) continue;
    if (has_name(without, name)) reason += "; remove --without " + short_for_message(name);
    const auto place = [&](const char* field) {
      return static_cast<int>(get_integer(parameters, field).value_or(0));
    };
    problems.push_back(
        {recipe.file.string(), place("line"), place("column"), std::string(part) + ": " + reason});
  }
  return problems;
}

}  // namespace autotuned::daemon
