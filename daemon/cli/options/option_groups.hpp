// SPDX-License-Identifier: Apache-2.0
// All commands in groups: their options and the functions that do their work. Each function adds a group to the command
// line, in the order of --help, and an entry for each of its commands to the table. `options` must live as long as that
// table.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "daemon/cli/command_functions.hpp"
#include "daemon/cli/command_profile.hpp"
#include "daemon/cli/options/subcommand.hpp"

namespace autotuned::daemon {

void add_run(CLI::App& app, RunOptions& options, Subcommands& commands);

// The options of `history` and its subcommands.
struct PastOptions {
  HistoryOptions list;
  BackupOptions backup;
  ImportOptions imports;
  PruneOptions prune;
};
void add_past(CLI::App& app, PastOptions& options, Subcommands& commands);

struct TraceOptions {
  ProfileOptions profile;
  AnalyzeOptions analyze;
};
void add_traces(CLI::App& app, TraceOptions& options, Subcommands& commands);

// The options of the commands for the daemon and for Slurm.
struct QueueOptions {
  ServeOptions serve;
  SubmitOptions submit;
  std::string id;  // of status, attach and cancel
  ScreenOptions screen;
  bool as_json = false;
};
void add_queue(CLI::App& app, QueueOptions& options, Subcommands& commands);

struct ResultOptions {
  ExportOptions exported;
  PredictOptions predict;
  GuardOptions guard;
  std::string tolerance = "5%";  // of the guard, as it was typed
  ExplainOptions explain;
  // The options of the other commands of this group.
  std::filesystem::path history;
  std::string id;
  std::string other_id;
  std::filesystem::path recipe;  // of `patch` the script
  std::vector<std::filesystem::path> plugin_folders;
  bool is_verbose = false;
  bool is_all = false;
  bool as_json = false;
};
void add_results(CLI::App& app, ResultOptions& options, Subcommands& commands);

// The options of commands about recipes, knobs and plugins.
struct ChoiceOptions {
  std::filesystem::path recipe;
  std::vector<std::filesystem::path> plugin_folders;
  bool as_json = false;
  ListPluginsOptions list_plugins;
  NewPluginOptions new_plugin;
};
void add_choices(CLI::App& app, ChoiceOptions& options, Subcommands& commands);

// The options of `init`, `doctor`, `completions` and `findings`.
struct GuideOptions {
  InitOptions init;
  std::filesystem::path history;  // of `doctor`
  std::string shell;              // of `completions`
  bool as_json = false;           // of `doctor` and `findings`
};
void add_init(CLI::App& app, GuideOptions& options, Subcommands& commands);
void add_guides(CLI::App& app, GuideOptions& options, Subcommands& commands);

// The values of all options.
struct AllOptions {
  RunOptions run;
  PastOptions past;
  TraceOptions traces;
  QueueOptions queue;
  ResultOptions results;
  ChoiceOptions choices;
  GuideOptions guides;
};

// Adds every command; `app` and `options` must live as long as the table that this returns. In commands.cpp.
[[nodiscard]] Subcommands add_commands(CLI::App& app, AllOptions& options);

}  // namespace autotuned::daemon
