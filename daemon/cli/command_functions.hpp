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

namespace autotuned::daemon {

struct RunOptions {
  std::filesystem::path recipe;
  std::filesystem::path history;  // empty: the default place
  std::vector<std::filesystem::path> plugin_folders;
  std::vector<std::string> without;
  std::vector<std::string> settings;  // KNOB=VALUE, over the recipe's start
  std::optional<std::string> budget;
  std::optional<std::string> output;
  std::string block_limit = "60s";
  bool retune = false;
  bool tune_only = false;
  bool ablate = false;
  bool require_gain = false;
  bool detach = false;     // submit and leave; needs a daemon
  bool no_daemon = false;  // run here although a daemon serves
  bool as_json = false;
};
int run(const RunOptions& options);

// The daemon and its queue. `id` is a number of the queue, a run of the history, or "last".
int serve();
int status(bool as_json);
int attach(const std::string& id, bool as_json);
int cancel(const std::string& id, bool as_json);
int stop(bool as_json);

struct HistoryOptions {
  std::filesystem::path history;
  std::optional<std::string> recipe;
  std::optional<std::string> machine;
  std::optional<std::string> plugin;
  std::optional<std::string> verdict;
  std::optional<std::string> since;  // YYYY-MM-DD
  std::int64_t limit = 50;
  bool as_json = false;
};
int list_history(const HistoryOptions& options);

struct BackupOptions {
  std::filesystem::path history;
  std::filesystem::path target;
  bool overwrite = false;
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

// `id` is a run, or a trial as RUN.NUMBER.
int show(const std::filesystem::path& history, const std::string& id, bool as_json);
int explain(const std::filesystem::path& history, const std::string& id, bool as_json);
int compare(const std::filesystem::path& history, const std::string& a, const std::string& b,
            bool as_json);
int best(const std::filesystem::path& history, const std::filesystem::path& recipe,
         const std::vector<std::filesystem::path>& plugin_folders, bool as_json);
int forget(const std::filesystem::path& history, const std::filesystem::path& recipe,
           const std::vector<std::filesystem::path>& plugin_folders, bool as_json);

int check(const std::filesystem::path& recipe,
          const std::vector<std::filesystem::path>& plugin_folders, bool as_json);
int print_schema(bool as_json);
int print_knobs(const std::vector<std::filesystem::path>& plugin_folders, bool as_json);

struct ListPluginsOptions {
  std::filesystem::path history;
  std::vector<std::filesystem::path> plugin_folders;
  std::optional<std::string> required;  // fails unless this one is ready
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
