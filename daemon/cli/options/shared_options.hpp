// SPDX-License-Identifier: Apache-2.0
// Options that several commands share, and checks of what is typed.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <vector>

#include "daemon/cli/command_functions.hpp"

namespace autotuned::daemon {

// The type_name() of arguments that name a run: completions offer the newest ones there.
inline constexpr const char* kRunType = "RUN";

// Refuses an empty path. It usually comes from an unset variable in a script, and would otherwise mean the current
// folder.
[[nodiscard]] CLI::Validator not_empty();
// Reads a whole number as decimal, also with leading zeros, which CLI11 would read as octal. For transform().
[[nodiscard]] CLI::Validator decimal();

// Each value must live until the command line is parsed.
void add_json(CLI::App& command, bool& as_json);
void add_history(CLI::App& command, std::filesystem::path& history);
void add_plugin_folders(CLI::App& command, std::vector<std::filesystem::path>& folders);
void add_ranks(CLI::App& command, std::optional<int>& ranks);
void add_recipe(CLI::App& command, std::filesystem::path& recipe);
// Adds the options of commands that show a run while it goes on.
void add_screen(CLI::App& command, ScreenOptions& options);

}  // namespace autotuned::daemon
