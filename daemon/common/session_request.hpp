// SPDX-License-Identifier: Apache-2.0
// What a supervisor tells the session process it starts.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::daemon {

// A plugin that crashed or hung a session process of this run.
struct PluginFault {
  std::string plugin;
  std::string outcome;      // "did not answer within 2 s"
  bool is_loading = false;  // it failed while its library was loaded, before it was asked
};

// The descriptor number of the socket to the agent, in a session process that tunes a script.
inline constexpr int kAgentDescriptor = 4;

// A command of the user that trains, and is tuned meanwhile.
struct ScriptRequest {
  std::string name;                  // for people: "train.py", "pkg.train"
  std::vector<std::string> command;  // as the user's shell would run it, the program first
  // The content of the script, as SHA-256; empty where the command does not name its file.
  std::string content;
  std::optional<std::chrono::nanoseconds>
      budget;                      // nothing: as for recipes, or less where the script is short
  std::vector<std::string> allow;  // "numerics", "semantics" or knob names

  [[nodiscard]] Json to_json() const;
  // ErrorKind::invalid names the field that is missing or wrong.
  [[nodiscard]] static Result<ScriptRequest> from_json(const Json& value);
};

struct SessionRequest {
  recipes::Recipe recipe;               // of no meaning where there is a script
  std::optional<ScriptRequest> script;  // what is tuned instead of a recipe
  // The budget of the recipe's file, if --budget replaces it for this run: best.yaml gets the one of the file.
  std::optional<std::chrono::nanoseconds> recipe_budget;
  std::filesystem::path history;
  std::vector<std::filesystem::path> plugin_folders;  // --plugin-dir, in order
  std::vector<std::string> without;                   // plugins left out
  bool retune =
      false;  // search again: ignore the stored best configuration, and continue no run that was begun without this
  bool tune_only = false;   // do not train
  bool is_ablated = false;  // measure at the end what each kept change gives
  // `extends`: go on with the training of the run whose results are in the output folder. `extended_schedule`: what a
  // learning-rate schedule that depends on the length does then: "stretch", "restart", or empty if nothing was said.
  bool extends = false;
  std::string extended_schedule;
  // Set when a session of this run died and is started again: continue exactly that run.
  std::string continue_run;
  std::vector<PluginFault> faults;  // to be recorded, and left out
  // Numbers of trials of that run in which sessions ended: to be recorded as failed, and not tried again.
  std::vector<int> lost_trials;
  std::chrono::nanoseconds block_limit = std::chrono::seconds(60);

  [[nodiscard]] Json to_json() const;
  // ErrorKind::invalid names the field that is missing or wrong.
  [[nodiscard]] static Result<SessionRequest> from_json(const Json& value);
};

}  // namespace autotuned::daemon
