// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/options/option_groups.hpp"
#include "daemon/cli/options/shared_options.hpp"
#include "daemon/profile_view/profile_views.hpp"

namespace autotuned::daemon {

namespace {

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

CLI::App& add_analyze(CLI::App& app, AnalyzeOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "analyze",
      "Where the time went in traces that torch.profiler wrote, and what to do about it");
  command.add_option("TRACE", options.traces, "*.pt.trace.json or .json.gz; one for each rank")
      ->required()
      ->type_name("FILE");
  add_views(command, options);
  command.add_flag("--shapes", options.by_shape, "Operators by the shapes of their inputs too");
  command.add_flag("--stacks", options.by_stack, "Operators by the functions that called them too");
  command
      .add_option("--range", options.range,
                  "Show only this part of the memory view, in milliseconds")
      ->type_name("FROM:TO");
  command
      .add_option("--against", options.against,
                  "Traces from before a change: what costs more now, and what less")
      ->type_name("FILE")
      ->allow_extra_args(false);
  add_json(command, options.as_json);
  return command;
}

CLI::App& add_profile(CLI::App& app, ProfileOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "profile", "Record some steps of a recipe as a trace, and say where the time goes");
  add_recipe(command, options.recipe);
  add_views(command, options.analysis);
  add_plugin_folders(command, options.plugin_folders);
  command.add_option("-s,--set", options.settings, "Start from this knob value (KNOB=VALUE)")
      ->type_name("KNOB=VALUE");
  add_ranks(command, options.ranks);
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
  return command;
}

}  // namespace

void add_traces(CLI::App& app, TraceOptions& options, Subcommands& commands) {
  commands.push_back(
      {&add_profile(app, options.profile), [&options] { return profile(options.profile); }});
  commands.push_back(
      {&add_analyze(app, options.analyze), [&options] { return analyze(options.analyze); }});
}

}  // namespace autotuned::daemon
