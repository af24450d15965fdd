// SPDX-License-Identifier: Apache-2.0
// One function per command, free of command-line parsing. Each prints its answer on standard output (JSON
// when asked), problems on standard error, and returns the exit code.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "daemon/screen/styled_line.hpp"

namespace autotuned::daemon {

// How a run is shown in the terminal.
struct ScreenOptions {
  ColorChoice color = ColorChoice::automatic;
  bool is_verbose = false;
};

struct RunOptions {
  std::filesystem::path recipe;
  // Instead of a recipe: a command that trains, or a script and its arguments.
  std::vector<std::string> command;
  bool is_script_file = false;  // the first word of `command` is the file, and Python runs it
  std::vector<std::string>
      allow;                      // permitted for a script: "numerics", "semantics", names of knobs
  std::filesystem::path history;  // empty: the default place
  std::vector<std::filesystem::path> plugin_folders;
  std::vector<std::string> without;
  std::vector<std::string> settings;  // KNOB=VALUE, over the recipe's start
  std::optional<std::string> budget;
  std::optional<std::string> output;
  std::optional<int> ranks;  // instead of the recipe's train.ranks
  std::string block_limit = "60s";
  bool retune = false;
  bool extend = false;   // go on with the training that the output folder has
  std::string schedule;  // with extend: "stretch", "restart" or empty
  bool tune_only = false;
  bool ablate = false;
  bool require_gain = false;
  bool detach = false;     // submit and leave; needs a daemon
  bool no_daemon = false;  // run here although a daemon serves
  bool as_json = false;
  ScreenOptions screen;
};
int run(const RunOptions& options);
// Tunes the script that a command line starts. Returns the script's exit code. If a signal ended the script, the same
// signal ends this program.
int run_script(const RunOptions& options);

struct ServeOptions {
  std::optional<std::string> web;  // the port of the page, "0" for any; nothing: no page
  bool web_control = false;        // the page may cancel runs
  std::filesystem::path history;   // which the page shows; empty: the default path
};
// The daemon and its queue. `id` is a number of the queue, a run of the history, or "last"; or a job of Slurm, as slurm:7.
int serve(const ServeOptions& options);
// Prints one entry of the queue. `id` empty: the whole daemon; "slurm": all jobs of Slurm that `submit` has made.
int status(const std::string& id, bool as_json);
int attach(const std::string& id, bool as_json, const ScreenOptions& screen);
int cancel(const std::string& id, bool as_json);
int stop(bool as_json);

// Runs as jobs of Slurm (daemon/cli/cluster).
struct SubmitOptions {
  std::vector<std::filesystem::path> recipes;  // several: an array
  std::optional<int> ranks;                    // instead of the recipe's train.ranks
  std::optional<std::string> budget;
  std::vector<std::string> settings;  // KNOB=VALUE, over the recipe's start
  std::vector<std::filesystem::path> plugin_folders;
  bool tune_only = false;
  bool retune = false;
  std::filesystem::path job_folder = "autotuned-slurm";  // for script, log and history of the job
  std::vector<std::string> slurm_options;                // of sbatch, as they were typed
  std::filesystem::path history;                         // of which the job gets a copy
  bool as_json = false;
};
int submit(const SubmitOptions& options);
int slurm_status(const std::string& id, bool as_json);
int slurm_cancel(const std::string& id, bool as_json);

struct HistoryOptions {
  std::filesystem::path history;
  std::optional<std::string> recipe;
  std::optional<std::string> machine;
  std::optional<std::string> plugin;
  std::optional<std::string> verdict;
  std::optional<std::string> since;  // YYYY-MM-DD
  std::int64_t limit = 50;
  bool is_trend = false;  // list jobs instead: the newest run beside the fastest before it
  bool as_json = false;
};
int list_history(const HistoryOptions& options);

struct BackupOptions {
  std::filesystem::path history;
  std::filesystem::path target;
  bool overwrite = false;
  bool drops_runs = false;  // replaces a copy with runs that the history lacks
  bool as_json = false;
};
int back_up_history(const BackupOptions& options);

struct PruneOptions {
  std::filesystem::path history;
  std::optional<double> older_than_days;
  std::optional<std::int64_t> keep_last;  // runs
  bool dry_run = false;
  bool vacuum = false;
  bool as_json = false;
};
int prune_history(const PruneOptions& options);

struct ImportOptions {
  std::filesystem::path history;
  std::vector<std::filesystem::path> files;  // other histories
  bool as_json = false;
};
int import_history(const ImportOptions& options);

// What to write: an empty path writes nothing. At least one must be given.
struct ExportOptions {
  std::filesystem::path history;
  std::string run;
  std::filesystem::path html;         // a file
  std::filesystem::path tensorboard;  // a folder
  std::filesystem::path csv;          // a file
  std::filesystem::path jsonl;        // a file
  bool overwrite = false;             // the files
  bool as_json = false;
};
int export_run(const ExportOptions& options);

// Predictions of a trained model for pictures (daemon/cli/model).
struct PredictOptions {
  std::string model;  // a run, "last", or the output folder of one
  std::vector<std::filesystem::path> pictures;
  std::filesystem::path masks;    // folder for the masks that it gives; empty: none are written
  std::filesystem::path weights;  // empty: those of the end of the training
  std::int64_t top = 5;           // classes of a picture
  std::vector<std::filesystem::path> plugin_folders;
  std::filesystem::path history;
  bool as_json = false;
};
int predict(const PredictOptions& options);

struct GuardOptions {
  std::filesystem::path recipe;
  std::string against;  // a recipe file, a run, "best"; empty: the recipe's own settings
  std::filesystem::path against_trainer;  // empty: our own
  double tolerance_ratio = 0.05;
  std::string budget = "2min";
  std::vector<std::string> settings;  // KNOB=VALUE, over the recipe's start
  std::vector<std::filesystem::path> plugin_folders;
  std::filesystem::path history;
  bool as_json = false;
};
int guard(const GuardOptions& options);

// `id` is a run, or a trial as RUN.NUMBER. `is_whole`: also what every plugin said that had nothing to try.
int show(const std::filesystem::path& history, const std::string& id, bool is_whole, bool as_json);

struct ExplainOptions {
  std::filesystem::path history;
  std::string run;
  bool is_break_even = false;  // only what the run cost, and when that is repaid
  bool is_whole = false;       // also why plugins proposed nothing, and all that had no trial
  bool as_json = false;
};
int explain(const ExplainOptions& options);
// Prints a summary of the comparison or, with `is_all`, every difference.
int compare(const std::filesystem::path& history, const std::string& a, const std::string& b,
            bool is_all, bool as_json);
// Prints the best configuration of a recipe's job. Without a recipe (an empty path): lists all jobs whose best
// configuration on this machine is known.
int best(const std::filesystem::path& history, const std::filesystem::path& recipe,
         const std::vector<std::filesystem::path>& plugin_folders, bool as_json);
int forget(const std::filesystem::path& history, const std::filesystem::path& recipe,
           const std::vector<std::filesystem::path>& plugin_folders, bool as_json);
// Prints what was kept for a script as a unified diff against the script.
int patch(const std::filesystem::path& history, const std::filesystem::path& script, bool as_json);

int check(const std::filesystem::path& recipe,
          const std::vector<std::filesystem::path>& plugin_folders, bool as_json);
int print_schema(bool as_json);
int print_knobs(const std::vector<std::filesystem::path>& plugin_folders, bool as_json);

struct ListPluginsOptions {
  std::filesystem::path history;
  std::vector<std::filesystem::path> plugin_folders;
  std::optional<std::string> required;  // fails unless this one is ready
  bool is_gains = false;                // list what plugins gained in the history instead
  bool as_json = false;
};
int list_plugins(const ListPluginsOptions& options);

struct NewPluginOptions {
  std::string name;
  std::filesystem::path into = ".";  // the plugin's folder is made in here
  std::string kind = "policy";       // or "yaml", "extension", "workload"
  bool as_json = false;
};
int new_plugin(const NewPluginOptions& options);
int doctor(const std::filesystem::path& history, bool as_json);

struct InitOptions {
  std::filesystem::path folder = ".";  // with the data
  std::filesystem::path output;        // the recipe; empty: a name in the current folder
  bool as_json = false;
};
int init(const InitOptions& options);
// Prints what `autotuned` without arguments shows: what the folder holds, and which commands come next.
int welcome();

struct AnalyzeOptions {
  std::vector<std::filesystem::path> traces;      // of one job: one file for each rank
  std::vector<std::string> views = {"overview"};  // names of ProfileView
  std::size_t top = 0;                            // rows of a table; 0: all in JSON, ten in text
  std::string sort;                               // a column
  std::string range;                              // FROM:TO in milliseconds, of the memory view
  bool by_shape = false;                          // operators by the shapes of their inputs
  bool by_stack = false;                          // operators by who called them
  std::vector<std::filesystem::path> against;     // an earlier profile: one file for each rank
  std::filesystem::path html;                     // where to write the page
  bool as_json = false;
};
int analyze(const AnalyzeOptions& options);
int print_findings(bool as_json);

}  // namespace autotuned::daemon
