// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "base/result.hpp"
#include "daemon/cli/options/option_groups.hpp"
#include "daemon/cli/options/shared_options.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/report/history_reading.hpp"

namespace autotuned::daemon {

namespace {

CLI::App& add_export(CLI::App& app, ExportOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "export", "Write a run for others: as a page, for TensorBoard, as CSV or as JSON lines");
  command.add_option("RUN", options.run, "A run, the beginning of its name, or 'last'")
      ->required()
      ->type_name(kRunType);
  const auto add_target = [&](const char* name, std::filesystem::path& target,
                              const char* description, const char* type) {
    command.add_option(name, target, description)->check(not_empty())->type_name(type);
  };
  add_target("--html", options.html, "One page, with its charts, for any browser", "FILE");
  add_target("--tensorboard", options.tensorboard,
             "Event files for TensorBoard: training curves and trials", "DIR");
  add_target("--csv", options.csv, "Training curves and trials as a table", "FILE");
  add_target("--jsonl", options.jsonl, "The same, a JSON object in each line", "FILE");
  command.add_flag("--overwrite", options.overwrite, "Replace a FILE that an export has written");
  add_history(command, options.history);
  add_json(command, options.as_json);
  return command;
}

CLI::App& add_predict(CLI::App& app, PredictOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "predict", "Ask a trained model about pictures: classes, tags, numbers or masks");
  command
      .add_option("RUN", options.model,
                  "A run, the beginning of its name, or 'last', the newest; or its output folder")
      ->required()
      ->type_name(kRunType);
  command.add_option("FILE", options.pictures, "JPEG and PNG files")->required()->type_name("FILE");
  command.add_option("--top", options.top, "The number of classes to print for a picture")
      ->check(CLI::Range(1, 1000))
      ->type_name("N")
      ->capture_default_str();
  command
      .add_option("--masks", options.masks, "Write the masks here, as PNG files of class numbers")
      ->check(not_empty())
      ->type_name("DIR");
  command
      .add_option("--weights", options.weights,
                  "Other weights of the same model, such as model_best.pt; without it model.pt, or "
                  "model_ema.pt of a training with train.ema_decay")
      ->check(not_empty())
      ->type_name("FILE");
  command.add_option("--plugin-dir", options.plugin_folders, "Look for plugins here first")
      ->check(not_empty())
      ->type_name("DIR")
      ->allow_extra_args(false);
  add_history(command, options.history);
  add_json(command, options.as_json);
  return command;
}

CLI::App& add_guard(CLI::App& app, ResultOptions& options) {
  GuardOptions& guard = options.guard;
  CLI::App& command = *app.add_subcommand(
      "guard",
      "Is a recipe slower than it was? Measure it in turns with other settings or another build");
  add_recipe(command, guard.recipe);
  command
      .add_option("--against", guard.against,
                  "A recipe (such as best.yaml), a run of the history, or 'best': the kept "
                  "configuration of RECIPE here")
      ->type_name("REF");
  command
      .add_option(
          "--against-trainer", guard.against_trainer,
          "The autotuned-trainer of another build to compare with, with the settings of --against "
          "or the same ones")
      ->check(not_empty())
      ->type_name("FILE");
  command
      .add_option("--tolerance", options.tolerance,
                  "A slow-down up to this still counts as not slower")
      ->type_name("PERCENT")
      ->capture_default_str();
  command.add_option("--budget", guard.budget, "Time for measuring")
      ->type_name("TIME")
      ->capture_default_str();
  command.add_option("-s,--set", guard.settings, "Start RECIPE from this knob value (KNOB=VALUE)")
      ->type_name("KNOB=VALUE");
  add_plugin_folders(command, guard.plugin_folders);
  add_history(command, guard.history);
  add_json(command, guard.as_json);
  return command;
}

// "5%", "5 %" or "5"; above 0 and below 100.
std::optional<double> ratio_from(std::string_view text) {
  if (text.ends_with('%')) text.remove_suffix(1);
  while (text.ends_with(' '))
    text.remove_suffix(1);
  double percent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!(percent > 0 && percent < 100)) return std::nullopt;
  return percent / 100;
}

int run_guard(ResultOptions& options) {
  const auto tolerance = ratio_from(options.tolerance);
  if (!tolerance) {
    return report_error({ErrorKind::invalid,
                         "expected a share above 0 and below 100 %, such as 5%",
                         "--tolerance " + options.tolerance,
                         {}},
                        kUsageError);
  }
  options.guard.tolerance_ratio = *tolerance;
  return guard(options.guard);
}

void add_run_name(CLI::App& command, std::string& run) {
  command.add_option("ID", run, "A run, the beginning of its name, or 'last'")
      ->required()
      ->type_name(kRunType);
}

void add_whole(CLI::App& command, bool& is_whole) {
  command.add_flag("--verbose", is_whole,
                   "Also why each plugin proposed nothing, and each proposal without a trial");
}

// The commands that show runs and trials.
void add_stories(CLI::App& app, ResultOptions& options, Subcommands& commands) {
  CLI::App& show_command = *app.add_subcommand("show", "One run, or one trial (RUN.NUMBER)");
  add_run_name(show_command, options.id);
  add_whole(show_command, options.is_verbose);
  add_history(show_command, options.history);
  add_json(show_command, options.as_json);
  commands.push_back({&show_command, [&options] {
                        return show(options.history, options.id, options.is_verbose,
                                    options.as_json);
                      }});
  CLI::App& explain_command = *app.add_subcommand(
      "explain", "The story of a run: what was slow, what was tried, what it gave, what it cost");
  add_run_name(explain_command, options.explain.run);
  explain_command.add_flag("--break-even", options.explain.is_break_even,
                           "Only what tuning cost, and after how much training it is repaid");
  add_whole(explain_command, options.explain.is_whole);
  add_history(explain_command, options.explain.history);
  add_json(explain_command, options.explain.as_json);
  commands.push_back({&explain_command, [&options] { return explain(options.explain); }});
  CLI::App& compare_command =
      *app.add_subcommand("compare", "Two runs or two trials: what differs, and how much");
  compare_command.add_option("A", options.id, "A run or a trial (RUN.NUMBER)")
      ->required()
      ->type_name(kRunType);
  compare_command.add_option("B", options.other_id, "The other one")
      ->required()
      ->type_name(kRunType);
  compare_command.add_flag("--all", options.is_all,
                           "Every difference, with spans, metrics and checks");
  add_history(compare_command, options.history);
  add_json(compare_command, options.as_json);
  commands.push_back({&compare_command, [&options] {
                        return compare(options.history, options.id, options.other_id,
                                       options.is_all, options.as_json);
                      }});
}

// The commands about kept configurations.
void add_kept(CLI::App& app, ResultOptions& options, Subcommands& commands) {
  CLI::App& best_command =
      *app.add_subcommand("best", "The kept configuration of a recipe, or of every job here");
  best_command
      .add_option("RECIPE", options.recipe, "Recipe file; without one, a list of all jobs here")
      ->type_name("FILE");
  CLI::App& forget_command =
      *app.add_subcommand("forget", "Drop the kept configuration of a recipe here");
  add_recipe(forget_command, options.recipe);
  CLI::App& patch_command =
      *app.add_subcommand("patch", "What was kept for a script, as a unified diff against it");
  patch_command.add_option("SCRIPT", options.recipe, "The script, as it was tuned")->required();
  for (CLI::App* command : {&best_command, &forget_command})
    add_plugin_folders(*command, options.plugin_folders);
  for (CLI::App* command : {&best_command, &forget_command, &patch_command}) {
    add_history(*command, options.history);
    add_json(*command, options.as_json);
  }
  commands.push_back({&best_command, [&options] {
                        return best(options.history, options.recipe, options.plugin_folders,
                                    options.as_json);
                      }});
  commands.push_back({&forget_command, [&options] {
                        return forget(options.history, options.recipe, options.plugin_folders,
                                      options.as_json);
                      }});
  commands.push_back({&patch_command, [&options] {
                        return patch(options.history, options.recipe, options.as_json);
                      }});
}

}  // namespace

void add_results(CLI::App& app, ResultOptions& options, Subcommands& commands) {
  commands.push_back(
      {&add_export(app, options.exported), [&options] { return export_run(options.exported); }});
  commands.push_back(
      {&add_predict(app, options.predict), [&options] { return predict(options.predict); }});
  commands.push_back({&add_guard(app, options), [&options] { return run_guard(options); }});
  add_stories(app, options, commands);
  add_kept(app, options, commands);
}

}  // namespace autotuned::daemon
