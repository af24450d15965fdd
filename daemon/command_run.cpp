// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <iostream>

#include "base/text.hpp"
#include "daemon/command_functions.hpp"
#include "daemon/commands.hpp"
#include "daemon/progress_view.hpp"
#include "daemon/recipe_reading.hpp"
#include "daemon/settings.hpp"
#include "daemon/supervisor.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

namespace {

int usage_error(const std::string& text) {
  std::cerr << "error: " << text << "\n";
  return kUsageError;
}

}  // namespace

int run(const RunOptions& options) {
  const auto knobs = recipes::knobs_of(detect_machine());
  auto recipe = read_recipe_or_report(options.recipe, knobs, options.as_json);
  if (!recipe) return kUsageError;
  if (auto applied = apply_settings(options.settings, knobs, *recipe); !applied) {
    return usage_error(applied.error().message());
  }
  if (options.budget) {
    auto budget = parse_duration(*options.budget);
    if (!budget)
      return usage_error("--budget " + *options.budget + ": " + budget.error().message());
    recipe->tune.budget = *budget;
  }
  if (options.output) recipe->output_dir = std::filesystem::absolute(*options.output);
  auto block_limit = parse_duration(options.block_limit);
  if (!block_limit || block_limit->count() <= 0) {
    return usage_error("--block-limit " + options.block_limit + ": expected a time such as 60s");
  }

  SessionRequest request;
  request.recipe = std::move(*recipe);
  request.history = options.history.empty() ? storage::History::default_path()
                                            : std::filesystem::absolute(options.history);
  for (const auto& folder : options.plugin_folders) {
    request.plugin_folders.push_back(std::filesystem::absolute(folder));
  }
  request.without = options.without;
  request.retune = options.retune;
  request.tune_only = options.tune_only;
  request.block_limit = *block_limit;

  Json result;
  std::string text;
  std::string problem;
  ProgressView view(stderr, isatty(STDERR_FILENO) != 0);
  auto exit_code = supervise(std::move(request), SupervisorLimits{}, [&](const Json& event) {
    view.show(event);
    if (get_string(event, "event").value_or("") == "error") {
      problem = get_string(event, "text").value_or("");
    }
    if (get_string(event, "event").value_or("") != "result") return;
    result = member(event, "result");
    text = get_string(event, "text").value_or("");
  });
  if (!exit_code) {
    problem = exit_code.error().message();
    view.show({{"event", "error"}, {"text", problem}});
  }
  if (options.as_json) {
    // It may have ended before there was a run to tell about.
    if (!result.is_object()) result = {{"run", nullptr}, {"error", problem}};
    std::cout << to_line(result) << "\n";
  } else if (!text.empty()) {
    std::cout << "\n" << text;
  }
  if (!exit_code) return kWorkFailed;
  if (*exit_code == kDone && options.require_gain) {
    const double low = get_number(member(result, "best"), "speedup_low").value_or(1.0);
    if (low <= 1.0) return kNothingFaster;
  }
  return *exit_code;
}

}  // namespace autotuned::daemon
