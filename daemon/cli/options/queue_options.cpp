// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "daemon/cli/options/option_groups.hpp"
#include "daemon/cli/options/shared_options.hpp"

namespace autotuned::daemon {

namespace {

CLI::App& add_serve(CLI::App& app, ServeOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "serve", "The daemon: take runs into a queue and do them, one at a time per device");
  CLI::Option* const web =
      command
          .add_option(
              "--web", options.web,
              "Also serve a web page with runs and history, for browsers of this machine only")
          ->expected(0, 1)
          ->default_str("0")
          ->type_name("PORT");
  command.add_flag("--web-control", options.web_control, "The page may also cancel runs")
      ->needs(web);
  add_history(command, options.history);
  return command;
}

CLI::App& add_submit(CLI::App& app, SubmitOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "submit", "Submit a run to Slurm as a job, or several recipes as an array of jobs");
  command
      .add_option(
          "RECIPE", options.recipes,
          "Recipe files; options of sbatch come after --: -- --partition gpu --time 2:00:00")
      ->required()
      ->type_name("FILE");
  add_ranks(command, options.ranks);
  command.add_option("--budget", options.budget, "Time for tuning, instead of the recipe's")
      ->type_name("TIME");
  command.add_option("-s,--set", options.settings, "Start from this knob value (KNOB=VALUE)")
      ->type_name("KNOB=VALUE")
      ->allow_extra_args(false);
  command.add_flag("--tune-only", options.tune_only,
                   "Tune and keep the best configuration; no training");
  command.add_flag("--retune", options.retune,
                   "Search again, even if a best configuration is stored");
  command
      .add_option("--job-dir", options.job_folder,
                  "Folder for script, log and history of the job; the nodes must see it, too")
      ->check(not_empty())
      ->type_name("DIR")
      ->capture_default_str();
  command.add_option("--plugin-dir", options.plugin_folders, "Look for plugins here first")
      ->check(not_empty())
      ->type_name("DIR")
      ->allow_extra_args(false);
  add_history(command, options.history);
  add_json(command, options.as_json);
  return command;
}

void add_id(CLI::App& command, std::string& id) {
  command.add_option("ID", id, "Its number in the queue, a run of the history, or 'last'")
      ->required()
      ->type_name(kRunType);
}

}  // namespace

void add_queue(CLI::App& app, QueueOptions& options, Subcommands& commands) {
  commands.push_back({&add_serve(app, options.serve), [&options] { return serve(options.serve); }});
  CLI::App& status_command =
      *app.add_subcommand("status", "What the daemon runs and what waits; or jobs of Slurm");
  status_command.add_option("ID", options.id, "slurm: all jobs of `submit`; slurm:N: one of them");
  add_json(status_command, options.as_json);
  commands.push_back({&status_command, [&options] { return status(options.id, options.as_json); }});
  CLI::App& attach_command =
      *app.add_subcommand("attach", "Follow a run of the daemon from its beginning");
  add_id(attach_command, options.id);
  add_json(attach_command, options.as_json);
  add_screen(attach_command, options.screen);
  commands.push_back({&attach_command,
                      [&options] { return attach(options.id, options.as_json, options.screen); }});
  CLI::App& cancel_command = *app.add_subcommand(
      "cancel", "Stop a run of the daemon, or slurm:N; a second time ends it at once");
  add_id(cancel_command, options.id);
  add_json(cancel_command, options.as_json);
  commands.push_back({&cancel_command, [&options] { return cancel(options.id, options.as_json); }});
  CLI::App& stop_command =
      *app.add_subcommand("stop", "End the daemon; the next one goes on with what is not finished");
  add_json(stop_command, options.as_json);
  commands.push_back({&stop_command, [&options] { return stop(options.as_json); }});
  commands.push_back(
      {&add_submit(app, options.submit), [&options] { return submit(options.submit); }});
}

}  // namespace autotuned::daemon
