// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/options/commands.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/printable.hpp"
#include "base/result.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/cli/options/command_texts.hpp"
#include "daemon/cli/options/option_groups.hpp"
#include "daemon/cli/options/subcommand.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/report/history_reading.hpp"

namespace autotuned::daemon {

namespace {

constexpr const char* kDescription =
    "autotuned runs a training job, finds out where its time goes, tries one optimisation at a "
    "time, "
    "keeps what is measured to be faster and checked to train the same model, and trains with "
    "that.";

constexpr const char* kFooter =
    "Exit codes: 0 done, 1 the work failed (guard: slower), 2 usage or recipe error, 3 nothing "
    "faster found (only with --require-gain; guard: undecided), 4 environment unusable, 130 "
    "cancelled.";

// Where the command line of a script begins, all of which is the script's; `argc` where there is none.
int script_begin(const CLI::App& run, int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != run.get_name()) return argc;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") return i;
    if (!word.starts_with('-')) return word.ends_with(".py") ? i : argc;
    const CLI::Option* const option = run.get_option_no_throw(word);
    if (option != nullptr && option->get_items_expected_max() > 0) ++i;
  }
  return argc;
}

// Where the `--` of `submit` stands, behind which all is sbatch's; `argc` where there is none.
int slurm_options_begin(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "submit") return argc;
  for (int i = 2; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--") return i;
  }
  return argc;
}

// The one that was typed, below all that lead to it. REQUIRES: `app` has been parsed.
const CLI::App& typed_command(const CLI::App& app) {
  const CLI::App* typed = &app;
  for (;;) {
    const std::vector<CLI::App*> below = typed->get_subcommands();
    if (below.empty()) return *typed;
    typed = below.front();
  }
}

int run_typed(const CLI::App& app, const Subcommands& commands) {
  const CLI::App& typed = typed_command(app);
  const auto found = std::ranges::find(commands, &typed, &Subcommand::command);
  if (found != commands.end()) return found->run();
  return report_error(
      {ErrorKind::internal, "no function does this command", typed.get_name(), "report this"});
}

}  // namespace

Subcommands add_commands(CLI::App& app, AllOptions& options) {
  Subcommands commands;
  add_init(app, options.guides, commands);
  add_run(app, options.run, commands);
  add_past(app, options.past, commands);
  add_traces(app, options.traces, commands);
  add_queue(app, options.queue, commands);
  add_results(app, options.results, commands);
  add_choices(app, options.choices, commands);
  add_guides(app, options.guides, commands);
  return commands;
}

int run_command(int argc, char** argv) {
  if (argc <= 1) return welcome();
  CLI::App app{kDescription, "autotuned"};
  app.footer(kFooter);
  app.set_version_flag("--version", "autotuned " AUTOTUNED_VERSION);
  app.set_help_all_flag("--help-all", "Help for every command");
  app.require_subcommand(1);
  AllOptions options;
  const Subcommands commands = add_commands(app, options);

  if (const auto unknown = unknown_command(app, argc, argv)) {
    std::cerr << printable(*unknown) << "\n";
    return kUsageError;
  }
  const int begin = script_begin(*app.get_subcommand("run"), argc, argv);
  std::vector<char*> own(argv, argv + begin);
  if (const int end = slurm_options_begin(argc, argv); end < argc) {
    own.resize(static_cast<std::size_t>(end));
    options.queue.submit.slurm_options.assign(argv + end + 1, argv + argc);
  }
  if (begin < argc) {
    options.run.is_script_file = std::string_view(argv[begin]) != "--";
    options.run.command.assign(argv + begin + (options.run.is_script_file ? 0 : 1), argv + argc);
    own.push_back(argv[begin]);
    // The first word after `--` takes the place of the recipe, which the parser requires.
    if (!options.run.is_script_file && begin + 1 < argc) own.push_back(argv[begin + 1]);
  }
  try {
    app.parse(static_cast<int>(own.size()), own.data());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      std::ostringstream text;
      const int code = app.exit(error, text, std::cerr);
      std::cout << in_80_columns(text.str());
      return code;
    }
    // The text may contain names of files, and those may contain control characters.
    std::cerr << printable(mistake_text(app, error, own)) << "\n";
    return kUsageError;
  }
  return run_typed(app, commands);
}

}  // namespace autotuned::daemon
