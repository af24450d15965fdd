// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/commands_results.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "daemon/cli/commands_guide.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/report/history_reading.hpp"
#include "recipes/recipe.hpp"

namespace autotuned::daemon {

CLI::Validator decimal() {
  CLI::Validator validator;
  validator.operation([](std::string& value) {
    // CLI11 takes 010 for eight, and 0x10 for sixteen.
    const std::size_t first = value.starts_with('-') ? 1 : 0;
    const std::string digits = value.substr(first);
    if (digits.size() < 2 || digits.front() != '0' || digits[1] == '.') return std::string();
    if (digits.find_first_not_of("0123456789") != std::string::npos) {
      return "expected a whole number, found '" + value + "'";
    }
    value.erase(first, std::min(digits.find_first_not_of('0'), digits.size() - 1));
    return std::string();
  });
  return validator;
}

namespace {

void add_export(CLI::App& app, ExportOptions& options) {
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
}

void add_predict(CLI::App& app, PredictOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "predict", "Ask a trained model about pictures: classes, tags, numbers or masks");
  command
      .add_option("RUN", options.model,
                  "A run, the beginning of its name, or 'last'; or its output folder")
      ->required()
      ->type_name(kRunType);
  command.add_option("FILE", options.pictures, "JPEG and PNG files")->required()->type_name("FILE");
  command.add_option("--top", options.top, "Classes that are told of a picture")
      ->check(CLI::Range(1, 1000))
      ->type_name("N")
      ->capture_default_str();
  command
      .add_option("--masks", options.masks, "Write the masks here, as PNG files of class numbers")
      ->check(not_empty())
      ->type_name("DIR");
  command
      .add_option("--weights", options.weights,
                  "Other weights of the same model, such as model_best.pt")
      ->check(not_empty())
      ->type_name("FILE");
  command.add_option("--plugin-dir", options.plugin_folders, "Look for plugins here first")
      ->check(not_empty())
      ->type_name("DIR")
      ->allow_extra_args(false);
  add_history(command, options.history);
  add_json(command, options.as_json);
}

void add_guard(CLI::App& app, ResultOptions& options) {
  GuardOptions& guard = options.guard;
  CLI::App& command = *app.add_subcommand(
      "guard",
      "Is a recipe slower than it was? Measure it in turns with other settings or another build");
  command.add_option("RECIPE", guard.recipe, "Recipe file")->required()->type_name("FILE");
  command
      .add_option("--against", guard.against,
                  "A recipe (such as best.yaml), a run of the history, or 'best': the kept "
                  "configuration of RECIPE here")
      ->type_name("REF");
  command
      .add_option(
          "--against-trainer", guard.against_trainer,
          "The autotuned-trainer of another build; without --against with the same settings")
      ->check(not_empty())
      ->type_name("FILE");
  command.add_option("--tolerance", options.tolerance, "Loss that still counts as not slower")
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
}

void add_backup(CLI::App& list, BackupOptions& options) {
  CLI::App& command = *list.add_subcommand(
      "backup", "Copy the history, also while it is written to; check the copy");
  command.add_option("FILE", options.target, "The copy")->required()->type_name("FILE");
  command.add_flag("--overwrite", options.overwrite, "Replace FILE if it exists");
  add_history(command, options.history);
  add_json(command, options.as_json);
}

void add_prune(CLI::App& list, PruneOptions& options) {
  CLI::App& command = *list.add_subcommand(
      "prune", "Remove old runs; never those that a best configuration or unfinished work needs");
  command.add_option("--older-than", options.older_than_days, "Only runs started so long ago")
      ->type_name("DAYS")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--keep-last", options.keep_last, "Only runs that are not among the newest N")
      ->type_name("N")
      ->transform(decimal())
      ->check(CLI::NonNegativeNumber);
  CLI::Option* const dry_run = command.add_flag("--dry-run", options.dry_run,
                                                "Say what would be removed, and remove nothing");
  command.add_flag("--vacuum", options.vacuum, "Give the space back to the file system")
      ->excludes(dry_run);
  add_history(command, options.history);
  add_json(command, options.as_json);
}

void add_import(CLI::App& list, ImportOptions& options) {
  CLI::App& command = *list.add_subcommand(
      "import", "Take over the runs of other histories; those that are here stay as they are");
  command.add_option("FILE", options.files, "The history of another machine or job")
      ->required()
      ->type_name("FILE");
  add_history(command, options.history);
  add_json(command, options.as_json);
}

void add_submit(CLI::App& app, SubmitOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "submit", "Hand a run to Slurm as a job; of several recipes an array of jobs");
  command
      .add_option("RECIPE", options.recipes,
                  "Recipe files; behind -- options of sbatch: -- --partition gpu --time 2:00:00")
      ->required()
      ->type_name("FILE");
  command
      .add_option("--ranks", options.ranks,
                  "Processes that train together, instead of the recipe's train.ranks")
      ->transform(decimal())
      ->check(CLI::Range(1, recipes::kMostRanks))
      ->type_name("N");
  command.add_option("--budget", options.budget, "Time for tuning, instead of the recipe's")
      ->type_name("TIME");
  command.add_option("-s,--set", options.settings, "Start from this knob value (KNOB=VALUE)")
      ->type_name("KNOB=VALUE")
      ->allow_extra_args(false);
  command.add_flag("--tune-only", options.tune_only,
                   "Tune and keep the best configuration; no training");
  command.add_flag("--retune", options.retune,
                   "Search again, even if a best configuration is stored");
  command
      .add_option("--job-dir", options.job_folder,
                  "Folder for script, log and history of the job, which its node sees too")
      ->check(not_empty())
      ->type_name("DIR")
      ->capture_default_str();
  command.add_option("--plugin-dir", options.plugin_folders, "Look for plugins here first")
      ->check(not_empty())
      ->type_name("DIR")
      ->allow_extra_args(false);
  add_history(command, options.history);
  add_json(command, options.as_json);
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

}  // namespace

void add_sequel(CLI::App& run, RunOptions& options) {
  CLI::Option* const extend = run.add_flag(
      "--extend", options.extend,
      "Go on with the finished training in the output folder, to the recipe's new length");
  // Its configuration stays, so nothing is searched or measured.
  for (const char* const other :
       {"--budget", "--tune-only", "--ablate", "--retune", "--require-gain"})
    extend->excludes(run.get_option(other));
  run.add_option("--schedule", options.schedule,
                 "With --extend, where the learning rate depends on the length: stretch (the "
                 "curve of the new length) or restart (the curve anew for what is added)")
      ->check(CLI::IsMember({"stretch", "restart"}))
      ->needs(extend)
      ->type_name("HOW");
}

void add_results(CLI::App& app, ResultOptions& options) {
  add_submit(app, options.submit);
  add_export(app, options.exported);
  add_predict(app, options.predict);
  add_guard(app, options);
}

void add_upkeep(CLI::App& history, ResultOptions& options) {
  add_backup(history, options.backup);
  add_import(history, options.imports);
  add_prune(history, options.prune);
}

std::optional<int> run_upkeep(const CLI::App& history, ResultOptions& options,
                              const std::filesystem::path& given) {
  for (std::filesystem::path* file :
       {&options.backup.history, &options.imports.history, &options.prune.history}) {
    if (file->empty()) *file = given;
  }
  if (history.got_subcommand("backup")) return back_up_history(options.backup);
  if (history.got_subcommand("import")) return import_history(options.imports);
  if (history.got_subcommand("prune")) return prune_history(options.prune);
  return std::nullopt;
}

int slurm_options_begin(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "submit") return argc;
  for (int i = 2; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--") return i;
  }
  return argc;
}

std::optional<int> run_results(const CLI::App& app, ResultOptions& options) {
  if (app.got_subcommand("submit")) return submit(options.submit);
  if (app.got_subcommand("export")) return export_run(options.exported);
  if (app.got_subcommand("predict")) return predict(options.predict);
  if (!app.got_subcommand("guard")) return std::nullopt;
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

}  // namespace autotuned::daemon
