// SPDX-License-Identifier: Apache-2.0
// The part of the command line that hands work and results on, uses and judges them and goes on with them: submit, export,
// predict, guard, run --extend, and what becomes of a whole history.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cli/command_functions.hpp"

namespace autotuned::daemon {

// Options that several commands share; in commands.cpp.
// An empty path comes from an unset variable in a script: better said than taken for this folder.
[[nodiscard]] CLI::Validator not_empty();
// Of a whole number: its digits are decimal, also behind a zero. For transform(); in commands_results.cpp.
[[nodiscard]] CLI::Validator decimal();
void add_json(CLI::App& command, bool& as_json);
void add_history(CLI::App& command, std::filesystem::path& history);
void add_plugin_folders(CLI::App& command, std::vector<std::filesystem::path>& folders);

struct ResultOptions {
  SubmitOptions submit;
  BackupOptions backup;
  ImportOptions imports;
  PruneOptions prune;
  ExportOptions exported;
  PredictOptions predict;
  GuardOptions guard;
  std::string tolerance = "5%";  // of the guard, as it was typed
};

// Adds the commands; `options` must live until the command line is parsed.
void add_results(CLI::App& app, ResultOptions& options);

// The commands below `history`.
void add_upkeep(CLI::App& history, ResultOptions& options);
// Does what one of them was asked for; `given`: the --history in front of its name, which is meant for it.
[[nodiscard]] std::optional<int> run_upkeep(const CLI::App& history, ResultOptions& options,
                                            const std::filesystem::path& given);

// Where the `--` of `submit` stands, behind which all is sbatch's; `argc` where there is none.
[[nodiscard]] int slurm_options_begin(int argc, char** argv);

// The options of `run` that go on with a finished training. REQUIRES: the options that exclude it are there.
void add_sequel(CLI::App& run, RunOptions& options);

// Does what one of them was asked for; nothing when it was another command. `app` has been parsed.
[[nodiscard]] std::optional<int> run_results(const CLI::App& app, ResultOptions& options);

}  // namespace autotuned::daemon
