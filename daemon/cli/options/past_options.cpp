// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "daemon/cli/options/option_groups.hpp"
#include "daemon/cli/options/shared_options.hpp"

namespace autotuned::daemon {

namespace {

CLI::App& add_list(CLI::App& app, HistoryOptions& options) {
  CLI::App& command = *app.add_subcommand("history", "List runs, newest first");
  command.add_option("--recipe", options.recipe, "Only runs of this recipe or script (its name)")
      ->type_name("NAME");
  command.add_option("--machine", options.machine, "Only runs of this environment (its key)")
      ->type_name("KEY");
  command.add_option("--plugin", options.plugin, "Only runs in which this plugin was tried")
      ->type_name("NAME");
  command.add_option("--verdict", options.verdict, "Only runs with a trial that ended so")
      ->type_name("VERDICT");
  command.add_option("--since", options.since, "Only runs from this day on")
      ->type_name("YYYY-MM-DD");
  command.add_option("--limit", options.limit, "At most this many")
      ->transform(decimal())
      ->capture_default_str();
  command.add_flag("--trend", options.is_trend,
                   "For each job here: is the newest run slower than the fastest one before it?");
  add_history(command, options.history);
  add_json(command, options.as_json);
  return command;
}

CLI::App& add_backup(CLI::App& list, BackupOptions& options) {
  CLI::App& command = *list.add_subcommand(
      "backup", "Copy the history, also while it is written to; check the copy");
  command.add_option("FILE", options.target, "The copy")->required()->type_name("FILE");
  CLI::Option* const overwrite =
      command.add_flag("--overwrite", options.overwrite, "Replace FILE, an earlier copy");
  command
      .add_flag("--drop-runs", options.drops_runs,
                "Replace FILE even if it has runs that the history lacks, such as pruned ones; "
                "they are lost")
      ->needs(overwrite);
  add_history(command, options.history);
  add_json(command, options.as_json);
  return command;
}

CLI::App& add_import(CLI::App& list, ImportOptions& options) {
  CLI::App& command = *list.add_subcommand(
      "import", "Take over the runs of other histories; those that are here stay as they are");
  command.add_option("FILE", options.files, "The history of another machine or job")
      ->required()
      ->type_name("FILE");
  add_history(command, options.history);
  add_json(command, options.as_json);
  return command;
}

CLI::App& add_prune(CLI::App& list, PruneOptions& options) {
  CLI::App& command = *list.add_subcommand(
      "prune", "Remove old runs; never those that a best configuration or unfinished work needs");
  command
      .add_option("--older-than", options.older_than_days,
                  "Only runs that started at least so many days ago")
      ->type_name("DAYS")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--keep-last", options.keep_last, "Keep the newest N runs")
      ->type_name("N")
      ->transform(decimal())
      ->check(CLI::NonNegativeNumber);
  CLI::Option* const dry_run = command.add_flag("--dry-run", options.dry_run,
                                                "Say what would be removed, and remove nothing");
  command.add_flag("--vacuum", options.vacuum, "Give the space back to the file system")
      ->excludes(dry_run);
  add_history(command, options.history);
  add_json(command, options.as_json);
  return command;
}

// A --history in front of the command's name is meant for it.
void take_history(std::filesystem::path& file, const std::filesystem::path& given) {
  if (file.empty()) file = given;
}

}  // namespace

void add_past(CLI::App& app, PastOptions& options, Subcommands& commands) {
  CLI::App& list = add_list(app, options.list);
  commands.push_back({&list, [&options] { return list_history(options.list); }});
  commands.push_back({&add_backup(list, options.backup), [&options] {
                        take_history(options.backup.history, options.list.history);
                        return back_up_history(options.backup);
                      }});
  commands.push_back({&add_import(list, options.imports), [&options] {
                        take_history(options.imports.history, options.list.history);
                        return import_history(options.imports);
                      }});
  commands.push_back({&add_prune(list, options.prune), [&options] {
                        take_history(options.prune.history, options.list.history);
                        return prune_history(options.prune);
                      }});
}

}  // namespace autotuned::daemon
