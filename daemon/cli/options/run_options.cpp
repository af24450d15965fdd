// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "daemon/cli/command_functions.hpp"
#include "daemon/cli/options/option_groups.hpp"
#include "daemon/cli/options/shared_options.hpp"
#include "daemon/cli/options/usage_forms.hpp"

namespace autotuned::daemon {

namespace {

// Adds the options that extend a finished training. REQUIRES: the options that exclude them were added before.
void add_sequel(CLI::App& command, RunOptions& options) {
  CLI::Option* const extend = command.add_flag(
      "--extend", options.extend,
      "Go on with the finished training in the output folder, to the recipe's new length");
  // A sequel keeps the configuration, so nothing is searched or measured.
  for (const char* const other :
       {"--budget", "--tune-only", "--ablate", "--retune", "--require-gain"})
    extend->excludes(command.get_option(other));
  command
      .add_option(
          "--schedule", options.schedule,
          "With --extend, if the learning rate depends on the length: stretch (the curve of "
          "the whole new length) or restart (a new curve for the added part)")
      ->check(CLI::IsMember({"stretch", "restart"}))
      ->needs(extend)
      ->type_name("HOW");
}

}  // namespace

void add_run(CLI::App& app, RunOptions& options, Subcommands& commands) {
  CLI::App& command = *app.add_subcommand(
      "run", "Tune if needed, then train; a script of yours is tuned while it trains");
  // The parser knows of the recipe alone: what belongs to a script is taken out of the words before.
  command.formatter(std::make_shared<UsageForms>(
      std::vector<std::string>{"RECIPE", "SCRIPT.py ARGS...", "-- COMMAND..."}));
  command
      .add_option("RECIPE", options.recipe,
                  "Recipe file; or a script (*.py) with its arguments; or -- and a command")
      ->required()
      ->type_name("FILE");
  command
      .add_option(
          "--allow", options.allow,
          "Permit these changes in a script besides exact ones: numerics, semantics or a knob")
      ->type_name("CLASS");
  command
      .add_option("--budget", options.budget,
                  "Time for tuning, instead of the job's own (90s, 10min)")
      ->type_name("TIME");
  command.add_option("-s,--set", options.settings, "Start from this knob value (KNOB=VALUE)")
      ->type_name("KNOB=VALUE");
  command.add_option("--output", options.output, "Output folder, instead of the recipe's")
      ->check(not_empty())
      ->type_name("DIR");
  add_ranks(command, options.ranks);
  command.add_flag("--tune-only", options.tune_only,
                   "Tune and keep the best configuration; no training");
  command.add_flag("--ablate", options.ablate, "At the end, measure what each kept change gives");
  command.add_flag("--retune", options.retune,
                   "Search again, even if a best configuration is stored");
  CLI::Option* const detach = command.add_flag(
      "--detach", options.detach,
      "Leave the run to the daemon; print its number in the queue and how to follow it");
  command.add_flag("--no-daemon", options.no_daemon, "Run here although a daemon serves")
      ->excludes(detach);
  // Nobody waits for the end of a detached run.
  command
      .add_flag("--require-gain", options.require_gain, "Exit with 3 when nothing faster was found")
      ->excludes(detach);
  add_sequel(command, options);
  add_plugin_folders(command, options.plugin_folders);
  command.add_option("--without", options.without, "Leave this plugin out")->type_name("NAME");
  command
      .add_option("--block-limit", options.block_limit,
                  "A block of steps that takes longer than this has hung")
      ->type_name("TIME")
      ->capture_default_str();
  add_screen(command, options.screen);
  add_history(command, options.history);
  add_json(command, options.as_json);
  commands.push_back({&command, [&options] { return run(options); }});
}

}  // namespace autotuned::daemon
