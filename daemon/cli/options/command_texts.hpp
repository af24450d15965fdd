// SPDX-License-Identifier: Apache-2.0
// What is said of the command line itself: its help, the mistakes in it, and all that may be typed.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/guide/command_table.hpp"

namespace autotuned::daemon {

// What --help prints, with no line over 80 columns: those that are longer go on below the beginning of their description.
[[nodiscard]] std::string in_80_columns(std::string_view help);

// A first word that is no command, where CLI11 would say that one is required; nothing when it is one.
[[nodiscard]] std::optional<std::string> unknown_command(const CLI::App& app, int argc,
                                                         char** argv);

// What is wrong with the command line `words`, and what to do, in one line.
[[nodiscard]] std::string mistake_text(const CLI::App& app, const CLI::ParseError& error,
                                       const std::vector<char*>& words);

// Everything that may be typed.
[[nodiscard]] Command table_of(const CLI::App& app);

}  // namespace autotuned::daemon
