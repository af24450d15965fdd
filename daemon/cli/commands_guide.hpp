// SPDX-License-Identifier: Apache-2.0
// The part of the command line that leads a newcomer: init, completions, man.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/cli/command_functions.hpp"
#include "daemon/guide/command_table.hpp"

namespace autotuned::daemon {

// The type_name() of arguments that name a run: completions offer the newest ones there.
inline constexpr const char* kRunType = "RUN";

struct GuideOptions {
  InitOptions init;
  std::string shell;  // of `completions`
};

// Add the commands, in the order of --help; `options` must live until the command line is parsed.
void add_init(CLI::App& app, GuideOptions& options);
void add_guides(CLI::App& app, GuideOptions& options);

// Does what one of them was asked for; nothing when it was another command. `app` has been parsed and holds every command.
[[nodiscard]] std::optional<int> run_guide(const CLI::App& app, const GuideOptions& options);

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
