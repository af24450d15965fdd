// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/commands_results.hpp"

#include <charconv>
#include <string_view>

#include "base/result.hpp"
#include "daemon/cli/commands_guide.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/report/history_reading.hpp"

namespace autotuned::daemon {
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
  add_export(app, options.exported);
  add_guard(app, options);
}

std::optional<int> run_results(const CLI::App& app, ResultOptions& options) {
  if (app.got_subcommand("export")) return export_run(options.exported);
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
