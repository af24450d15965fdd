// SPDX-License-Identifier: Apache-2.0
// Texts about the command line itself: help, messages for mistakes, and the table of all commands.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/guide/command_table.hpp"

namespace autotuned::daemon {

// The text of --help, broken at 80 columns. A broken line goes on below the start of its description.
[[nodiscard]] std::string in_80_columns(std::string_view help);

// The first word, if it is no command: CLI11 would only say that a command is required. Nothing if it is one.
[[nodiscard]] std::optional<std::string> unknown_command(const CLI::App& app, int argc,
                                                         char** argv);

// One line that says what is wrong with the command line `words`, and what to do.
[[nodiscard]] std::string mistake_text(const CLI::App& app, const CLI::ParseError& error,
                                       const std::vector<char*>& words);

// All commands and options of `app`.
[[nodiscard]] Command table_of(const CLI::App& app);

}  // namespace autotuned::daemon
