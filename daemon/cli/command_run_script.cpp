// SPDX-License-Identifier: Apache-2.0
// `autotuned run train.py ARGS` and `autotuned run -- COMMAND`: a script that is tuned while it trains.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/digest.hpp"
#include "base/machine/machine.hpp"
#include "base/process/process.hpp"
#include "base/text.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/cli/run_request.hpp"
#include "daemon/cli/script_screen.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/given_umask.hpp"
#include "daemon/common/installation_paths.hpp"
#include "daemon/plugin_list/plugin_names.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/supervisor/script_supervisor.hpp"
#include "recipes/knobs.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {
namespace {

constexpr std::string_view kPythonPath = "PYTHONPATH=";

// The name of an option that means something for recipes only; empty where none was given.
std::string option_of_recipes(const RunOptions& options) {
  if (!options.settings.empty()) return "--set";
  if (options.output) return "--output";
  if (options.ranks) return "--ranks";
  if (options.tune_only) return "--tune-only";
  if (options.extend) return "--extend";
  if (options.detach) return "--detach";
  if (options.require_gain) return "--require-gain";
  if (options.as_json) return "--json";
  return {};
}

// As the user would type it: that of an active virtual environment is the first in PATH.
std::string python_here() {
  const bool is_other = program_in_path("python3").empty() && !program_in_path("python").empty();
  return is_other ? "python" : "python3";
}

// Describes the script that a command runs: its name and content.
ScriptRequest describe(const std::vector<std::string>& command) {
  ScriptRequest script;
  script.command = command;
  script.name = std::filesystem::path(command.front()).filename().string();
  const auto file =
      std::ranges::find_if(command, [](const std::string& word) { return word.ends_with(".py"); });
  const auto module = std::ranges::find(command, "-m");
  if (module != command.end() && module + 1 != command.end() && module < file) {
    script.name = *(module + 1);
  } else if (file != command.end()) {
    script.name = std::filesystem::path(*file).filename().string();
    script.content = sha256_hex_of_file(*file).value_or("");
  }
  return script;
}

// Ours, with the folder in front of PYTHONPATH from which Python loads the agent.
std::vector<std::string> environment_with(const std::filesystem::path& startup) {
  std::vector<std::string> environment;
  std::string path = std::string(kPythonPath) + startup.string();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (!text.starts_with(kPythonPath)) {
      environment.emplace_back(text);
    } else if (text.size() > kPythonPath.size()) {
      path += ":" + std::string(text.substr(kPythonPath.size()));
    }
  }
  environment.push_back(std::move(path));
  return environment;
}

// The first value of --allow that is neither a risk class nor a knob.
std::string unknown_permission(const std::vector<std::string>& allow) {
  const auto knobs = recipes::knobs_of(detect_machine());
  for (const std::string& name : allow) {
    const bool is_class = name == "numerics" || name == "semantics";
    // Knobs that only scripts have are known to the agent.
    const bool is_knob = recipes::find_knob(knobs, name) || name.find('.') != std::string::npos;
    if (!is_class && !is_knob) return name;
  }
  return {};
}

}  // namespace

int run_script(const RunOptions& options) {
  if (const std::string option = option_of_recipes(options); !option.empty()) {
    return usage_error(option + " is for recipes; a script runs as it is");
  }
  if (auto checked = check_plugin_folders(options.plugin_folders); !checked) {
    return report_error(checked.error(), kUsageError);
  }
  const std::vector<std::string> names = plugin_names_here(options.plugin_folders);
  if (auto checked = check_plugin_names("--without", options.without, names); !checked) {
    return report_error(checked.error(), kUsageError);
  }
  if (const std::string name = unknown_permission(options.allow); !name.empty()) {
    return usage_error("--allow " + name + ": expected numerics, semantics or a knob");
  }
  std::vector<std::string> command = options.command;
  if (options.is_script_file) {
    if (::access(command.front().c_str(), R_OK) != 0) {
      return report_error(system_error(errno, "cannot read the script", command.front()),
                          kUsageError);
    }
    command.insert(command.begin(), python_here());
  }
  const auto budget = budget_of(options);
  if (!budget) return report_error(budget.error(), kUsageError);
  SessionRequest request = request_of(options);
  if (const auto checked = check_paths(request); !checked) {
    return report_error(checked.error(), kUsageError);
  }
  request.script = describe(command);
  request.script->allow = options.allow;
  request.script->budget = *budget;

  const ScriptScreen screen(request.script->name);
  const std::filesystem::path startup = find_installation_paths().startup;
  std::error_code ignored;
  if (!std::filesystem::is_directory(startup, ignored)) {
    screen.show({{"event", "warning"},
                 {"text", "the Python package is not installed: there is no " + startup.string()}});
  }
  ScriptSpec spec;
  spec.command = std::move(command);
  spec.environment = environment_with(startup);
  spec.umask = given_umask();
  const auto exit = supervise_script(std::move(request), std::move(spec),
                                     [&screen](const Json& event) { screen.show(event); });
  if (!exit) return report_error(exit.error(), kUsageError);
  if (exit->signal != 0) end_like(*exit);
  return exit->code;
}

}  // namespace autotuned::daemon
