// SPDX-License-Identifier: Apache-2.0
// guard: a recipe measured in turns with other settings, or with another build.
#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/cli/recipe_reading.hpp"
#include "daemon/cli/run_request.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/installation_paths.hpp"
#include "daemon/common/settings.hpp"
#include "daemon/common/trainer_plugins.hpp"
#include "daemon/guard/guard.hpp"
#include "daemon/plugin_list/plugin_names.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/report.hpp"
#include "daemon/screen/wrapped_text.hpp"
#include "daemon/session/command_device.hpp"
#include "daemon/session/known_best.hpp"
#include "daemon/trainers/trainer_backend.hpp"

namespace autotuned::daemon {
namespace {

using std::chrono::nanoseconds;

constexpr const char* kBest = "best";
constexpr const char* kAgainst = "--against takes a recipe file, a run of the history, or 'best'";
constexpr const char* kLogsOfThis = "guard-this";
constexpr nanoseconds kBetweenLines = std::chrono::seconds(5);

// The machine, its knobs and plugins, which both sides share.
struct Here {
  Machine machine = detect_machine();
  std::vector<plugins::FoundPlugin> trainer_plugins;
  std::vector<recipes::Knob> knobs;
  std::optional<int> ranks;  // that a launcher has started, instead of the recipes' train.ranks
};

// The side with the settings of a run, or with the kept ones of the recipe, instead of the recipe's own.
// ErrorKind::not_found: there is no such run.
Result<GuardSide> side_of_history(const GuardOptions& options, const GuardSide& own,
                                  const Here& here) {
  auto history = open_history(options.history, storage::Access::read_only);
  if (!history) return tl::unexpected(history.error());
  GuardSide side = own;
  Configuration stored;
  if (options.against == kBest) {
    auto best = find_best(*history, own.recipe.hash(), here.machine);
    if (!best) return tl::unexpected(best.error());
    if (!*best) {
      return fail(ErrorKind::not_found,
                  "the history has no best configuration of this recipe for this machine",
                  options.recipe.string(), "`autotuned run` finds one");
    }
    stored = (**best).best;
    side.name = "best, run " + (**best).run.text;
  } else {
    auto named = find_named_run(*history, options.against);
    if (!named) return tl::unexpected(named.error());
    stored = named->run.best.empty() ? named->run.starting : named->run.best;
    side.name = "run " + named->run.id.text;
  }
  // Knobs that an earlier version had, or a plugin that is not here, are left out.
  for (const auto& [name, value] : stored.values()) {
    if (recipes::find_knob(here.knobs, name)) side.configuration.set(name, value);
  }
  return side;
}

// Whether the file is certainly not a recipe. Only that is reported, because its mistakes as a recipe would quote its
// content. A file that cannot be read is left to the reader of recipes.
bool is_no_recipe(const std::filesystem::path& file) {
  const auto text = read_file(file, recipes::kMaxYamlBytes);
  return text && text->find("autotuned") == std::string::npos;
}

// No run is called so.
bool names_file(const std::string& against) {
  return against.find('/') != std::string::npos || against.ends_with(".yaml") ||
         against.ends_with(".yml");
}

// Nothing where a mistake was reported; then `code` is that of the command.
std::optional<GuardSide> other_side(const GuardOptions& options, const GuardSide& own,
                                    const Here& here, int& code) {
  GuardSide side = own;
  std::error_code ignored;
  if (!options.against.empty() && std::filesystem::is_regular_file(options.against, ignored)) {
    code = kUsageError;
    if (is_no_recipe(options.against)) {
      report_problems({{options.against, 0, 0,
                        "this is no recipe of autotuned; --against takes a recipe file such as "
                        "best.yaml, a run of the history, or 'best'"}},
                      options.as_json);
      return std::nullopt;
    }
    auto recipe = read_recipe_or_report(options.against, here.knobs, options.as_json);
    if (!recipe) return std::nullopt;
    if (report_problems(workload_problems(*recipe, here.trainer_plugins), options.as_json)) {
      return std::nullopt;
    }
    side.name = options.against;
    side.recipe = *std::move(recipe);
    side.recipe.train.ranks = here.ranks.value_or(side.recipe.train.ranks);
    side.configuration = side.recipe.starting_configuration(here.knobs);
  } else if (names_file(options.against)) {
    code =
        report_error({ErrorKind::not_found,
                      std::filesystem::exists(options.against, ignored) ? "it is no file"
                                                                        : "there is no such file",
                      options.against, kAgainst},
                     kUsageError);
    return std::nullopt;
  } else if (!options.against.empty()) {
    auto found = side_of_history(options, own, here);
    if (!found) {
      Error error = found.error();
      if (error.kind == ErrorKind::not_found && options.against != kBest) {
        error.remedy = kAgainst;
      }
      code = report_error(error, exit_code_of(error));
      return std::nullopt;
    }
    side = *std::move(found);
  }
  if (!options.against_trainer.empty()) {
    side.trainer = std::filesystem::absolute(options.against_trainer);
    if (options.against.empty()) side.name = "the same settings";
  }
  return side;
}

// `locks`: for the trainers to inherit.
Result<TrainerBackendSpec> spec_of(const GuardSide& side, const Here& here, std::vector<int> locks,
                                   const std::filesystem::path& folder) {
  auto libraries = libraries_for(side.recipe, here.trainer_plugins);
  if (!libraries) return tl::unexpected(libraries.error());
  TrainerBackendSpec spec;
  spec.recipe = side.recipe;
  spec.knobs = recipes::with_ranks(here.knobs, side.recipe.train.ranks);
  spec.extension_knobs = extension_knobs(here.trainer_plugins);
  spec.plugins = *std::move(libraries);
  spec.trainer = side.trainer;
  spec.folder = folder;
  spec.device_locks = std::move(locks);
  spec.measurement_lock = measurement_lock_file();
  spec.on_warning = report_warning;
  return spec;
}

Result<GuardResult> measure(const GuardSpec& plan, const Here& here, bool as_json) {
  const auto lock = lock_device_for("guard", plan.own.recipe, here.machine);
  if (!lock) return tl::unexpected(lock.error());
  const std::filesystem::path log = plan.own.recipe.output_dir / "log";
  // One lock covers both folders.
  const auto logs = lock_logs_for("guard", plan.own.recipe, log / kLogsOfThis);
  if (!logs) return forward_error(logs);
  std::vector<int> locks = lock->descriptors();
  if (logs->is_open()) locks.push_back(logs->get());
  auto own_spec = spec_of(plan.own, here, locks, log / kLogsOfThis);
  if (!own_spec) return tl::unexpected(own_spec.error());
  SignalCancel cancel;
  TrainerBackend own(*std::move(own_spec), cancel);
  std::optional<TrainerBackend> against;
  if (plan.has_two_jobs()) {
    const std::filesystem::path folder = log / "guard-against";
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed) {
      return tl::unexpected(
          system_error(failed.value(), "cannot make the folder for logs", folder.string()));
    }
    auto spec = spec_of(plan.against, here, locks, folder);
    if (!spec) return tl::unexpected(spec.error());
    against.emplace(*std::move(spec), cancel);
  }
  const SystemClock clock;
  nanoseconds told = clock.now();
  if (!as_json) {
    std::cerr << "measuring for at most " << format_duration(plan.budget)
              << " besides starting the trainers\n";
  }
  return run_guard(plan, recipes::with_ranks(here.knobs, plan.own.recipe.train.ranks), here.machine,
                   own, against ? &*against : nullptr, clock, [&](const Estimate& ratio) {
                     if (as_json || clock.now() - told < kBetweenLines) return;
                     told = clock.now();
                     std::cerr << "so far " << estimate_text(ratio) << ", "
                               << format_counted(ratio.pairs, "pair") << " of blocks\n";
                   });
}

int code_of(GuardVerdict verdict) {
  switch (verdict) {
    case GuardVerdict::not_slower:
      return kDone;
    case GuardVerdict::slower:
      return kWorkFailed;
    case GuardVerdict::undecided:
      break;
  }
  return kUndecided;
}

int guard_recipe(const GuardOptions& options, std::optional<int> ranks) {
  // Relative paths in the options start at the current folder, so it must be there.
  if (auto folder = current_folder(); !folder) {
    return report_error(folder.error(), kEnvironmentUnusable);
  }
  if (options.against.empty() && options.against_trainer.empty()) {
    return report_error({ErrorKind::invalid,
                         "there is nothing to compare the recipe with",
                         {},
                         "give --against REF, --against-trainer FILE, or both"},
                        kUsageError);
  }
  if (auto checked = check_plugin_folders(options.plugin_folders); !checked) {
    return report_error(checked.error(), kUsageError);
  }
  const auto budget = parse_duration(options.budget);
  if (!budget || budget->count() <= 0) {
    return report_error(
        {ErrorKind::invalid, "expected a time such as 2min", "--budget " + options.budget, {}},
        kUsageError);
  }
  Here here;
  here.trainer_plugins = trainer_plugins_here(options.plugin_folders);
  here.knobs = knobs_with(recipes::knobs_of(here.machine), here.trainer_plugins);
  here.ranks = ranks;
  auto recipe = read_recipe_or_report(options.recipe, here.knobs, options.as_json);
  if (!recipe) return kUsageError;
  if (report_problems(workload_problems(*recipe, here.trainer_plugins), options.as_json)) {
    return kUsageError;
  }
  recipe->train.ranks = ranks.value_or(recipe->train.ranks);
  GuardSpec plan;
  plan.tolerance_ratio = options.tolerance_ratio;
  plan.budget = *budget;
  plan.own = {.name = options.recipe.string(),
              .recipe = *recipe,
              .configuration = recipe->starting_configuration(here.knobs),
              .trainer = find_installation_paths().trainer};
  int code = kDone;
  // The stored recipe is identified with its own start.
  auto against = other_side(options, plan.own, here, code);
  if (!against) return code;
  plan.against = *std::move(against);
  if (auto applied = apply_settings(options.settings, here.knobs, plan.own.recipe); !applied) {
    return report_error(applied.error(), kUsageError);
  }
  plan.own.configuration = plan.own.recipe.starting_configuration(here.knobs);
  if (options.against.empty()) {
    plan.against.recipe = plan.own.recipe;
    plan.against.configuration = plan.own.configuration;
  }
  for (const GuardSide* const side : {&plan.own, &plan.against}) {
    const auto allowed = recipes::refuse_ranks(side->recipe);
    if (!allowed) return report_error(allowed.error(), kUsageError);
  }
  const auto result =
      plan.is_of_one() ? Result<GuardResult>(unmeasured()) : measure(plan, here, options.as_json);
  if (!result) return report_measuring_error(result.error());
  if (options.as_json) {
    std::cout << to_line(guard_json(plan, *result)) << "\n";
  } else {
    print_text(guard_text(plan, *result));
  }
  return code_of(result->verdict);
}

}  // namespace

int guard(const GuardOptions& options) {
  return measure_once_for_launcher(
      [&options](std::optional<int> ranks) { return guard_recipe(options, ranks); });
}

}  // namespace autotuned::daemon
