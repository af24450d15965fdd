// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <random>
#include <utility>

#include "base/printable.hpp"
#include "base/process/process.hpp"
#include "base/text.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/cli/recipe_reading.hpp"
#include "daemon/cli/run_request.hpp"
#include "daemon/cli/run_screen.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/installation_paths.hpp"
#include "daemon/common/settings.hpp"
#include "daemon/common/submitted_variables.hpp"
#include "daemon/common/trainer_plugins.hpp"
#include "daemon/common/used_device.hpp"
#include "daemon/plugin_list/plugin_names.hpp"
#include "daemon/queue/client.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/session/output_folder.hpp"
#include "daemon/supervisor/supervisor.hpp"
#include "daemon/trainers/data_check.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

namespace {

std::string random_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

std::string detached_text(std::int64_t job, const std::string& recipe) {
  return fmt::format(
      "run {0} of the queue: {1}\n"
      "  `autotuned attach {0}` follows it, `autotuned cancel {0}` stops it,\n"
      "  `autotuned status` shows the queue\n",
      job, printable(recipe));
}

// The daemon does the run; what the user sees is the same.
int run_in_daemon(DaemonClient client, SessionRequest request, const std::filesystem::path& folder,
                  const RunOptions& options) {
  Submission submission;
  submission.token = random_token();
  submission.folder = folder.string();
  submission.device = device_of(request.recipe, detect_machine());
  submission.environment = environment_of(submitted_variables());
  submission.session = std::move(request);
  // Ctrl-C cancels the run also while it is being submitted.
  if (!options.detach) hold_signals();
  const auto id = submit(client, submission);
  if (!id) return report_error(id.error(), kEnvironmentUnusable);
  if (options.detach) {
    if (options.as_json) {
      std::cout << to_line({{"job", *id}}) << "\n";
    } else {
      std::cout << detached_text(*id, submission.session.recipe.name);
    }
    return kDone;
  }
  RunScreen screen(options.screen);
  const auto followed = follow(
      std::move(client), *id, OnInterrupt::cancel,
      [&screen](const Json& event) { screen.show(event); }, [&screen] { screen.tick(); });
  const Result<int> outcome =
      followed ? Result<int>(followed->exit_code) : tl::unexpected(followed.error());
  return screen.conclude(outcome, options.as_json, options.require_gain);
}

int run_recipe(const RunOptions& options) {
  if (!options.allow.empty()) {
    return usage_error("--allow is for scripts; a recipe says it in tune.allow");
  }
  // Relative paths in the options start at the current folder, so it must be there.
  const auto here = current_folder();
  if (!here) return report_error(here.error(), kEnvironmentUnusable);
  if (auto checked = check_plugin_folders(options.plugin_folders); !checked) {
    return report_error(checked.error(), kUsageError);
  }
  const std::vector<std::string> names = plugin_names_here(options.plugin_folders);
  if (auto checked = check_plugin_names("--without", options.without, names); !checked) {
    return report_error(checked.error(), kUsageError);
  }
  const auto trainer_plugins = trainer_plugins_here(options.plugin_folders, options.without);
  // The recipe may name knobs of plugins that are left out: the same command with --without continues its run, and the
  // session drops their values with a warning.
  const auto knobs = knobs_with(
      recipes::knobs_of(detect_machine()),
      options.without.empty() ? trainer_plugins : trainer_plugins_here(options.plugin_folders));
  auto recipe = read_recipe_or_report(options.recipe, knobs, options.as_json, names);
  if (!recipe) return kUsageError;
  if (report_problems(workload_problems(*recipe, trainer_plugins, options.without),
                      options.as_json)) {
    return kUsageError;
  }
  if (auto applied = apply_settings(options.settings, knobs, *recipe); !applied) {
    return usage_error(applied.error().message());
  }
  const auto budget = budget_of(options);
  if (!budget) return report_error(budget.error(), kUsageError);
  if (options.ranks) recipe->train.ranks = *options.ranks;
  if (options.output) {
    recipe->output_dir = std::filesystem::absolute(*options.output);
    if (const std::string refusal = output_refusal(recipe->output_dir); !refusal.empty()) {
      return usage_error("--output " + printable(*options.output) +
                         ": results cannot be written there: " + refusal +
                         "; name another folder, or change its mode");
    }
  } else if (report_problems(output_problems(*recipe, options.recipe), options.as_json)) {
    return kUsageError;
  }
  if (auto checked = check_purpose_of_output(recipe->output_dir); !checked) {
    return report_error(checked.error(), kUsageError);
  }
  auto block_limit = parse_duration(options.block_limit);
  if (!block_limit || block_limit->count() <= 0) {
    return usage_error("--block-limit " + options.block_limit + ": expected a time such as 60s");
  }

  SessionRequest request = request_of(options);
  request.recipe = std::move(*recipe);
  if (*budget) request.recipe_budget = std::exchange(request.recipe.tune.budget, **budget);
  // A sequel keeps the configuration of the training that it continues, so it has no time for tuning.
  if (request.extends) {
    request.recipe_budget = std::exchange(request.recipe.tune.budget, std::chrono::nanoseconds(0));
  }
  const auto allowed = recipes::refuse_ranks(request.recipe);
  if (!allowed) return usage_error(allowed.error().message());
  request.tune_only = options.tune_only;
  request.block_limit = *block_limit;

  if (const auto checked = check_paths(request); !checked) {
    return report_error(checked.error(), kUsageError);
  }
  if (!options.no_daemon) {
    auto daemon = DaemonClient::connect();
    if (!daemon) return report_error(daemon.error(), kEnvironmentUnusable);
    if (*daemon) {
      return run_in_daemon(std::move(**daemon), std::move(request), *here, options);
    }
    if (options.detach) return report_error(connect_or_explain().error(), kEnvironmentUnusable);
  }
  RunScreen screen(options.screen);
  const std::filesystem::path folder = request.recipe.output_dir;
  const auto outcome = supervise(
      std::move(request), SupervisorLimits{}, [&screen](const Json& event) { screen.show(event); },
      [&screen] { screen.tick(); });
  // A second Ctrl-C ends the processes at once, which may leave unfinished files in the output folder.
  if (outcome && *outcome == kCancelled) clear_output_folder(folder);
  return screen.conclude(outcome, options.as_json, options.require_gain);
}

// With as many ranks as the launcher has started, unless the user says another number.
int run_launched(const LauncherRank& place, const RunOptions& options) {
  RunOptions own = options;
  // --ranks overrides the launcher's number: the shell of an interactive job step has the launcher's variables, although
  // the launcher has started no other process.
  own.ranks = options.ranks.value_or(place.ranks);
  own.no_daemon = true;  // the launcher does not know the processes of a daemon
  const std::string started = started_text(place);
  if (*own.ranks > recipes::kMaxRanks) {
    return usage_error(started + ", and a run has " + std::to_string(recipes::kMaxRanks) +
                       " ranks at most: start fewer, or say --ranks N");
  }
  if (options.detach)
    return usage_error("--detach: " + place.launcher + " waits for its processes");
  if (!options.ranks) {
    std::cerr << started << ": this run trains with " << place.ranks
              << " ranks (--ranks N for another number)\n";
  }
  return run_recipe(own);
}

}  // namespace

int run(const RunOptions& options) {
  if (!options.command.empty()) return run_script(options);
  return once_for_launcher([&options](const LauncherRank* place) {
    return place != nullptr ? run_launched(*place, options) : run_recipe(options);
  });
}

}  // namespace autotuned::daemon
