// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "daemon/cli/options/option_groups.hpp"
#include "daemon/cli/options/shared_options.hpp"

namespace autotuned::daemon {

namespace {

CLI::App& add_plugins(CLI::App& app, ListPluginsOptions& options) {
  CLI::App& command =
      *app.add_subcommand("plugins", "List plugins: how often each won, and why one is refused");
  add_plugin_folders(command, options.plugin_folders);
  command
      .add_option("--require", options.required,
                  "List only this plugin; exit with 1 unless it is ready")
      ->type_name("NAME");
  command.add_flag("--gains", options.is_gains,
                   "Which plugin paid off, for which job on which machine, and by how much");
  add_history(command, options.history);
  add_json(command, options.as_json);
  return command;
}

CLI::App& add_new_plugin(CLI::App& plugins, NewPluginOptions& options) {
  CLI::App& command = *plugins.add_subcommand("new", "Write a plugin to start from into NAME/");
  command.add_option("NAME", options.name, "Lower-case letters, digits and _, a letter first")
      ->required();
  std::vector<CLI::Option*> kinds;
  const auto add_kind = [&](const std::string& kind, const std::string& description) {
    kinds.push_back(command.add_flag_callback(
        "--" + kind, [&options, kind] { options.kind = kind; }, description));
  };
  add_kind("policy", "A policy in C++ (the default)");
  add_kind("yaml", "A list of values to try; no code");
  add_kind("extension", "A knob of your own that the trainer obeys; C++ with LibTorch");
  add_kind("workload", "Your model, data and loss; C++ with LibTorch");
  for (CLI::Option* one : kinds) {
    for (CLI::Option* other : kinds) {
      if (one != other) one->excludes(other);
    }
  }
  command.add_option("--into", options.into, "Make the folder NAME in this folder")
      ->check(not_empty())
      ->type_name("DIR")
      ->capture_default_str();
  add_json(command, options.as_json);
  return command;
}

}  // namespace

void add_choices(CLI::App& app, ChoiceOptions& options, Subcommands& commands) {
  CLI::App& check_command = *app.add_subcommand("check", "Check a recipe and do nothing else");
  add_recipe(check_command, options.recipe);
  CLI::App& schema_command =
      *app.add_subcommand("schema", "The recipe reference (--json: JSON Schema)");
  CLI::App& knobs_command = *app.add_subcommand(
      "knobs", "The knobs that can be tuned, with their domains on this machine");
  for (CLI::App* command : {&check_command, &knobs_command})
    add_plugin_folders(*command, options.plugin_folders);
  for (CLI::App* command : {&check_command, &schema_command, &knobs_command})
    add_json(*command, options.as_json);
  commands.push_back({&check_command, [&options] {
                        return check(options.recipe, options.plugin_folders, options.as_json);
                      }});
  commands.push_back({&schema_command, [&options] { return print_schema(options.as_json); }});
  commands.push_back({&knobs_command,
                      [&options] { return print_knobs(options.plugin_folders, options.as_json); }});
  CLI::App& plugins = add_plugins(app, options.list_plugins);
  commands.push_back({&plugins, [&options] { return list_plugins(options.list_plugins); }});
  commands.push_back({&add_new_plugin(plugins, options.new_plugin),
                      [&options] { return new_plugin(options.new_plugin); }});
}

}  // namespace autotuned::daemon
