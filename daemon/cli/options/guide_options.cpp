// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <string>

#include "daemon/cli/options/command_texts.hpp"
#include "daemon/cli/options/option_groups.hpp"
#include "daemon/cli/options/shared_options.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/guide/completions.hpp"
#include "daemon/guide/man_page.hpp"

namespace autotuned::daemon {

namespace {

std::string man_page_of(const CLI::App& app) {
  return man_page(table_of(app), {.version = AUTOTUNED_VERSION,
                                  .date = AUTOTUNED_DATE,
                                  .description = app.get_description() +
                                                 "\n\nWithout a command it says what lies in the "
                                                 "folder, and what to type next.",
                                  .exit_codes = app.get_footer()});
}

int print_man_page(const CLI::App& app) {
  std::cout << man_page_of(app);
  return kDone;
}

int print_completions(const CLI::App& app, const std::string& shell) {
  const Command program = table_of(app);
  std::cout << (shell == "zsh"    ? zsh_completions(program)
                : shell == "fish" ? fish_completions(program)
                                  : bash_completions(program));
  return kDone;
}

}  // namespace

void add_init(CLI::App& app, GuideOptions& options, Subcommands& commands) {
  CLI::App& command = *app.add_subcommand(
      "init", "Write a recipe for what lies in a folder, or for a text; overwrites nothing");
  command
      .add_option("DIR", options.init.folder,
                  "Folder with the data (default: this one): pictures in a folder for each class, "
                  "beside masks, or named by a table; also below train/ and val/; arrays, shards, "
                  "texts, or none; or a text, FILE.txt")
      ->type_name("DIR");
  command
      .add_option("--output", options.init.output,
                  "The recipe (default: recipe.yaml, or the name of DIR)")
      ->type_name("FILE");
  add_json(command, options.init.as_json);
  commands.push_back({&command, [&options] { return init(options.init); }});
}

void add_guides(CLI::App& app, GuideOptions& options, Subcommands& commands) {
  CLI::App& doctor_command =
      *app.add_subcommand("doctor", "What works on this machine, what does not, and what to do");
  add_history(doctor_command, options.history);
  add_json(doctor_command, options.as_json);
  commands.push_back(
      {&doctor_command, [&options] { return doctor(options.history, options.as_json); }});
  CLI::App& findings_command = *app.add_subcommand(
      "findings", "The rules that analyze knows: when each fires, and what acts on it");
  add_json(findings_command, options.as_json);
  commands.push_back({&findings_command, [&options] { return print_findings(options.as_json); }});
  CLI::App& completions_command =
      *app.add_subcommand("completions", "Print what a shell needs to complete these commands");
  completions_command.add_option("SHELL", options.shell, "The shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  commands.push_back(
      {&completions_command, [&app, &options] { return print_completions(app, options.shell); }});
  const CLI::App& man_command =
      *app.add_subcommand("man", "Print the manual page: autotuned man | man -l -");
  commands.push_back({&man_command, [&app] { return print_man_page(app); }});
}

}  // namespace autotuned::daemon
