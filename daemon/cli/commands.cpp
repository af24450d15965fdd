// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/commands.hpp"

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/printable.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/cli/command_profile.hpp"
#include "daemon/cli/commands_guide.hpp"
#include "daemon/cli/commands_results.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/profile_view/profile_views.hpp"
#include "recipes/recipe.hpp"

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

}  // namespace

CLI::Validator not_empty() {
  return {[](const std::string& value) {
            return value.empty() ? std::string("the path is empty") : std::string();
          },
          ""};
}

void add_json(CLI::App& command, bool& as_json) {
  command.add_flag("--json", as_json, "Print JSON on standard output");
}

void add_history(CLI::App& command, std::filesystem::path& history) {
  command
      .add_option("--history", history,
                  "History file (default: $AUTOTUNED_HISTORY, else below $XDG_STATE_HOME)")
      ->check(not_empty())
      ->type_name("FILE");
}

void add_plugin_folders(CLI::App& command, std::vector<std::filesystem::path>& folders) {
  command.add_option("--plugin-dir", folders, "Look for plugins here first")
      ->check(not_empty())
      ->type_name("DIR");
}

namespace {

// Of commands that show a run while it goes on.
void add_screen(CLI::App& command, ScreenOptions& options) {
  static const std::map<std::string, ColorChoice> kChoices = {{"auto", ColorChoice::automatic},
                                                              {"always", ColorChoice::always},
                                                              {"never", ColorChoice::never}};
  command
      .add_option("--color", options.color,
                  "Colours: auto (on a terminal, unless NO_COLOR is set), always or never")
      ->transform(CLI::CheckedTransformer(kChoices).description(""))
      ->type_name("WHEN");
  command.add_flag("--verbose", options.is_verbose,
                   "Show every plugin with nothing to try, every reason and every upper bound");
}

void add_recipe(CLI::App& command, std::filesystem::path& recipe) {
  command.add_option("RECIPE", recipe, "Recipe file")->required()->type_name("FILE");
}

void add_run(CLI::App& app, RunOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "run", "Tune if needed, then train; a script of yours is tuned while it trains");
  command
      .add_option("RECIPE", options.recipe,
                  "Recipe file; or a script (*.py) with its arguments; or -- and a command")
      ->required()
      ->type_name("FILE");
  command
      .add_option("--allow", options.allow,
                  "What may change in a script beside what is exact: numerics, semantics, a knob")
      ->type_name("CLASS");
  command
      .add_option("--budget", options.budget,
                  "Time for tuning, instead of the job's own (90s, 10min)")
      ->type_name("TIME");
  command.add_option("-s,--set", options.settings, "Start from this knob value (KNOB=VALUE)")
      ->type_name("KNOB=VALUE");
  command.add_option("--output", options.output, "Output folder, instead of the recipe's")
      ->check(not_empty())
      ->type_name("DIR");
  command
      .add_option("--ranks", options.ranks,
                  "Processes that train together, instead of the recipe's train.ranks")
      ->transform(decimal())
      ->check(CLI::Range(1, recipes::kMostRanks))
      ->type_name("N");
  command.add_flag("--tune-only", options.tune_only,
                   "Tune and keep the best configuration; no training");
  command.add_flag("--ablate", options.ablate, "At the end, measure what each kept change gives");
  command.add_flag("--retune", options.retune,
                   "Search again, even if a best configuration is stored");
  CLI::Option* const detach = command.add_flag(
      "--detach", options.detach,
      "Leave the run to the daemon; print its number in the queue and how to follow it");
  command.add_flag("--no-daemon", options.no_daemon, "Run here although a daemon serves")
      ->excludes(detach);
  // Nobody waits for the end of a detached run.
  command
      .add_flag("--require-gain", options.require_gain, "Exit with 3 when nothing faster was found")
      ->excludes(detach);
  add_sequel(command, options);
  add_plugin_folders(command, options.plugin_folders);
  command.add_option("--without", options.without, "Leave this plugin out")->type_name("NAME");
  command
      .add_option("--block-limit", options.block_limit,
                  "A block of steps that takes longer than this has hung")
      ->type_name("TIME")
      ->capture_default_str();
  add_screen(command, options.screen);
  add_history(command, options.history);
  add_json(command, options.as_json);
}

void add_history_list(CLI::App& app, HistoryOptions& options) {
  CLI::App& command = *app.add_subcommand("history", "List runs, newest first");
  command.add_option("--recipe", options.recipe, "Only runs of this recipe or script (its name)")
      ->type_name("NAME");
  command.add_option("--machine", options.machine, "Only runs of this environment (its key)")
      ->type_name("KEY");
  command.add_option("--plugin", options.plugin, "Only runs in which this plugin was tried")
      ->type_name("NAME");
  command.add_option("--verdict", options.verdict, "Only runs with a trial that ended so")
      ->type_name("VERDICT");
  command.add_option("--since", options.since, "Only runs from this day on")
      ->type_name("YYYY-MM-DD");
  command.add_option("--limit", options.limit, "At most this many")
      ->transform(decimal())
      ->capture_default_str();
  command.add_flag("--trend", options.is_trend,
                   "For each job here: is the newest run slower than the fastest one before it?");
  add_history(command, options.history);
  add_json(command, options.as_json);
}

CLI::App& add_plugins(CLI::App& app, ListPluginsOptions& options) {
  CLI::App& command =
      *app.add_subcommand("plugins", "List plugins: how often each won, and why one is refused");
  add_plugin_folders(command, options.plugin_folders);
  command
      .add_option("--require", options.required, "Only this plugin; exit with 1 unless it is ready")
      ->type_name("NAME");
  command.add_flag("--gains", options.is_gains,
                   "Which plugin paid off, for which job on which machine, and by how much");
  add_history(command, options.history);
  add_json(command, options.as_json);
  return command;
}

CLI::App& add_new_plugin(CLI::App& plugins, NewPluginOptions& options) {
  CLI::App& command = *plugins.add_subcommand("new", "Write a plugin to start from into NAME/");
  command.add_option("NAME", options.name, "Lower-case letters, digits and _, a letter first")
      ->required();
  std::vector<CLI::Option*> kinds;
  const auto add_kind = [&](const std::string& kind, const std::string& description) {
    kinds.push_back(command.add_flag_callback(
        "--" + kind, [&options, kind] { options.kind = kind; }, description));
  };
  add_kind("policy", "A policy in C++ (the default)");
  add_kind("yaml", "A list of values to try; no code");
  add_kind("extension", "A knob of your own, obeyed inside the trainer; C++ with LibTorch");
  add_kind("workload", "Your model, data and loss; C++ with LibTorch");
  for (CLI::Option* one : kinds) {
    for (CLI::Option* other : kinds) {
      if (one != other) one->excludes(other);
    }
  }
  command.add_option("--into", options.into, "Make the folder NAME in here")
      ->check(not_empty())
      ->type_name("DIR")
      ->capture_default_str();
  add_json(command, options.as_json);
  return command;
}

void add_views(CLI::App& command, AnalyzeOptions& options) {
  command.add_option("--view", options.views, "What to print; several with commas between")
      ->check(CLI::IsMember(view_names()))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command.add_option("--top", options.top, "Rows of a table (default: 10, with --json all)")
      ->transform(decimal())
      ->check(CLI::PositiveNumber);
  command.add_option("--sort", options.sort, "Sort tables by this column, largest first")
      ->type_name("COLUMN");
  command.add_option("--html", options.html, "Also write all views as one page, for a browser")
      ->type_name("FILE");
}

void add_analyze(CLI::App& app, AnalyzeOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "analyze",
      "Where the time went in traces that torch.profiler wrote, and what to do about it");
  command.add_option("TRACE", options.traces, "*.pt.trace.json or .json.gz; one for each rank")
      ->required()
      ->type_name("FILE");
  add_views(command, options);
  command.add_flag("--shapes", options.by_shape, "Operators by the shapes of their inputs too");
  command.add_flag("--stacks", options.by_stack, "Operators by the functions that called them too");
  command.add_option("--range", options.range, "Stretch of the memory view, in milliseconds")
      ->type_name("FROM:TO");
  command
      .add_option("--against", options.against,
                  "Traces from before a change: what costs more now, and what less")
      ->type_name("FILE")
      ->allow_extra_args(false);
  add_json(command, options.as_json);
}

void add_profile(CLI::App& app, ProfileOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "profile", "Record some steps of a recipe as a trace, and say where the time goes");
  add_recipe(command, options.recipe);
  add_views(command, options.analysis);
  add_plugin_folders(command, options.plugin_folders);
  command.add_option("-s,--set", options.settings, "Start from this knob value (KNOB=VALUE)")
      ->type_name("KNOB=VALUE");
  command
      .add_option("--ranks", options.ranks,
                  "Processes that train together, instead of the recipe's train.ranks")
      ->transform(decimal())
      ->check(CLI::Range(1, recipes::kMostRanks))
      ->type_name("N");
  command
      .add_option("--output", options.output,
                  "Write the trace into this folder, or as this file (*.json.gz), instead of into "
                  "the recipe's output folder")
      ->check(not_empty())
      ->type_name("PATH");
  command.add_option("--steps", options.steps, "Steps in the trace")
      ->transform(decimal())
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      .add_option("--warmup", options.warmup,
                  "Steps before those of the trace, recorded and dropped")
      ->transform(decimal())
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--wait", options.wait, "Steps before the warm-up, not recorded")
      ->transform(decimal())
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--repeat", options.repeat, "Repeat wait, warm-up and recording this often")
      ->transform(decimal())
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      .add_option("--skip-first", options.skip_first, "Steps before the first wait, not recorded")
      ->transform(decimal())
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--limit", options.limit, "After this time no further step begins")
      ->type_name("TIME")
      ->capture_default_str();
  command.add_flag("--shapes", options.shapes, "Record sizes and types of what operators get");
  command.add_flag("--memory", options.memory, "Record allocations and releases");
  command.add_flag("--checkpoint", options.checkpoint,
                   "Save a checkpoint after the steps, record what it costs, and remove it");
  add_json(command, options.as_json);
}

CLI::App& add_serve(CLI::App& app, ServeOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "serve", "The daemon: take runs into a queue and do them, one at a time per device");
  CLI::Option* const web =
      command.add_option("--web", options.web, "Also show runs and history to browsers, here only")
          ->expected(0, 1)
          ->default_str("0")
          ->type_name("PORT");
  command.add_flag("--web-control", options.web_control, "The page may also cancel runs")
      ->needs(web);
  add_history(command, options.history);
  return command;
}

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

}  // namespace

int run_command(int argc, char** argv) {
  if (argc <= 1) return welcome();
  CLI::App app{kDescription, "autotuned"};
  app.footer(kFooter);
  app.set_version_flag("--version", "autotuned " AUTOTUNED_VERSION);
  app.set_help_all_flag("--help-all", "Help for every command");
  app.require_subcommand(1);

  RunOptions run_options;
  HistoryOptions history_options;
  std::filesystem::path history;
  std::filesystem::path recipe;
  std::string id;
  std::string other_id;
  ListPluginsOptions list_plugins_options;
  NewPluginOptions new_plugin_options;
  bool as_json = false;

  GuideOptions guide_options;
  add_init(app, guide_options);
  add_run(app, run_options);
  add_history_list(app, history_options);
  ResultOptions result_options;
  CLI::App& history_command = *app.get_subcommand("history");
  add_upkeep(history_command, result_options);
  ProfileOptions profile_options;
  add_profile(app, profile_options);
  AnalyzeOptions analyze_options;
  add_analyze(app, analyze_options);
  ServeOptions serve_options;
  const CLI::App& serve_command = add_serve(app, serve_options);
  CLI::App& status_command =
      *app.add_subcommand("status", "What the daemon runs and what waits; or jobs of Slurm");
  CLI::App& attach_command =
      *app.add_subcommand("attach", "Follow a run of the daemon from its beginning");
  CLI::App& cancel_command = *app.add_subcommand(
      "cancel", "Stop a run of the daemon, or slurm:N; a second time ends it at once");
  CLI::App& stop_command =
      *app.add_subcommand("stop", "End the daemon; the next one goes on with what is not finished");
  for (CLI::App* command : {&attach_command, &cancel_command}) {
    command->add_option("ID", id, "Its number in the queue, a run of the history, or 'last'")
        ->required()
        ->type_name(kRunType);
  }
  status_command.add_option("ID", id, "slurm: all jobs of `submit`; slurm:N: one of them");
  for (CLI::App* command : {&status_command, &attach_command, &cancel_command, &stop_command})
    add_json(*command, as_json);
  ScreenOptions screen_options;
  add_screen(attach_command, screen_options);

  add_results(app, result_options);
  CLI::App& show_command = *app.add_subcommand("show", "One run, or one trial (RUN.NUMBER)");
  show_command.add_option("ID", id, "A run, the beginning of its name, or 'last'")
      ->required()
      ->type_name(kRunType);
  CLI::App& explain_command = *app.add_subcommand(
      "explain", "The story of a run: what was slow, what was tried, what it gave, what it cost");
  explain_command.add_option("ID", id, "A run, the beginning of its name, or 'last'")
      ->required()
      ->type_name(kRunType);
  ExplainOptions explain_options;
  explain_command.add_flag("--break-even", explain_options.is_break_even,
                           "Only what tuning cost, and after how much training it is repaid");
  bool is_verbose = false;
  for (CLI::App* command : {&show_command, &explain_command}) {
    command->add_flag("--verbose", is_verbose,
                      "Also why each plugin proposed nothing, and each proposal without a trial");
  }
  CLI::App& compare_command =
      *app.add_subcommand("compare", "Two runs or two trials: what differs, and how much");
  compare_command.add_option("A", id, "A run or a trial (RUN.NUMBER)")
      ->required()
      ->type_name(kRunType);
  compare_command.add_option("B", other_id, "The other one")->required()->type_name(kRunType);
  bool is_all = false;
  compare_command.add_flag("--all", is_all, "Every difference, with spans, metrics and checks");
  CLI::App& best_command =
      *app.add_subcommand("best", "The kept configuration of a recipe, or of every job here");
  CLI::App& forget_command =
      *app.add_subcommand("forget", "Drop the kept configuration of a recipe here");
  best_command.add_option("RECIPE", recipe, "Recipe file; without one, a list of all jobs here")
      ->type_name("FILE");
  add_recipe(forget_command, recipe);
  CLI::App& patch_command =
      *app.add_subcommand("patch", "What was kept for a script, as a unified diff against it");
  patch_command.add_option("SCRIPT", recipe, "The script, as it was tuned")->required();
  CLI::App& check_command = *app.add_subcommand("check", "Check a recipe and do nothing else");
  add_recipe(check_command, recipe);
  CLI::App& schema_command =
      *app.add_subcommand("schema", "The recipe reference (--json: JSON Schema)");
  CLI::App& knobs_command = *app.add_subcommand(
      "knobs", "The knobs that can be tuned, with their domains on this machine");
  std::vector<std::filesystem::path> plugin_folders;
  for (CLI::App* command : {&best_command, &forget_command, &check_command, &knobs_command})
    add_plugin_folders(*command, plugin_folders);
  const CLI::App& plugins_command = add_plugins(app, list_plugins_options);
  const CLI::App& new_plugin_command =
      add_new_plugin(*app.get_subcommand("plugins"), new_plugin_options);
  CLI::App& doctor_command =
      *app.add_subcommand("doctor", "What works on this machine, what does not, and what to do");
  CLI::App& findings_command = *app.add_subcommand(
      "findings", "The rules that analyze knows: when each fires, and what acts on it");
  add_json(findings_command, as_json);
  add_guides(app, guide_options);
  for (CLI::App* command : {&show_command, &explain_command, &compare_command, &best_command,
                            &forget_command, &patch_command, &doctor_command}) {
    add_history(*command, history);
    add_json(*command, as_json);
  }
  for (CLI::App* command : {&check_command, &schema_command, &knobs_command})
    add_json(*command, as_json);

  if (const auto unknown = unknown_command(app, argc, argv)) {
    std::cerr << printable(*unknown) << "\n";
    return kUsageError;
  }
  const int begin = script_begin(*app.get_subcommand("run"), argc, argv);
  std::vector<char*> own(argv, argv + begin);
  if (const int end = slurm_options_begin(argc, argv); end < argc) {
    own.resize(static_cast<std::size_t>(end));
    result_options.submit.slurm_options.assign(argv + end + 1, argv + argc);
  }
  if (begin < argc) {
    run_options.is_script_file = std::string_view(argv[begin]) != "--";
    run_options.command.assign(argv + begin + (run_options.is_script_file ? 0 : 1), argv + argc);
    own.push_back(argv[begin]);
    // In the place of the recipe.
    if (!run_options.is_script_file && begin + 1 < argc) own.push_back(argv[begin + 1]);
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
    // It may name files, which others gave their names.
    std::cerr << printable(mistake_text(app, error, own)) << "\n";
    return kUsageError;
  }
  if (const auto code = run_guide(app, guide_options)) return *code;
  if (app.got_subcommand("run")) return run(run_options);
  if (const auto code = run_upkeep(history_command, result_options, history_options.history)) {
    return *code;
  }
  if (serve_command.parsed()) return serve(serve_options);
  if (const auto code = run_results(app, result_options)) return *code;
  if (status_command.parsed()) return status(id, as_json);
  if (attach_command.parsed()) return attach(id, as_json, screen_options);
  if (cancel_command.parsed()) return cancel(id, as_json);
  if (stop_command.parsed()) return stop(as_json);
  if (app.got_subcommand("history")) return list_history(history_options);
  if (app.got_subcommand("profile")) return profile(profile_options);
  if (app.got_subcommand("analyze")) return analyze(analyze_options);
  if (findings_command.parsed()) return print_findings(as_json);
  if (show_command.parsed()) return show(history, id, is_verbose, as_json);
  if (explain_command.parsed()) {
    explain_options.history = history;
    explain_options.run = id;
    explain_options.is_whole = is_verbose;
    explain_options.as_json = as_json;
    return explain(explain_options);
  }
  if (compare_command.parsed()) return compare(history, id, other_id, is_all, as_json);
  if (best_command.parsed()) return best(history, recipe, plugin_folders, as_json);
  if (forget_command.parsed()) return forget(history, recipe, plugin_folders, as_json);
  if (patch_command.parsed()) return patch(history, recipe, as_json);
  if (check_command.parsed()) return check(recipe, plugin_folders, as_json);
  if (schema_command.parsed()) return print_schema(as_json);
  if (knobs_command.parsed()) return print_knobs(plugin_folders, as_json);
  if (new_plugin_command.parsed()) return new_plugin(new_plugin_options);
  if (plugins_command.parsed()) return list_plugins(list_plugins_options);
  return doctor(history, as_json);
}

}  // namespace autotuned::daemon
