// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/text.hpp"
#include "daemon/command_functions.hpp"
#include "daemon/commands.hpp"
#include "daemon/progress_view.hpp"
#include "daemon/recipe_reading.hpp"
#include "daemon/supervisor.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

namespace {

int usage_error(const std::string& text) {
  std::cerr << "error: " << text << "\n";
  return kUsageError;
}

// Applies -s KNOB=VALUE. Empty, or what is wrong.
std::string apply_settings(const std::vector<std::string>& settings,
                           const std::vector<recipes::Knob>& knobs, recipes::Recipe& recipe) {
  std::vector<std::string> names;
  for (const recipes::Knob& knob : knobs)
    names.push_back(knob.name);
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos) return "-s " + setting + ": expected KNOB=VALUE";
    const std::string name = setting.substr(0, equals);
    const auto knob = recipes::find_knob(knobs, name);
    if (!knob) {
      const auto near = nearest_name(name, names);
      return "-s " + setting + ": there is no knob '" + name + "'" +
             (near ? "; did you mean '" + *near + "'?" : "; `autotuned knobs` lists them");
    }
    auto value = recipes::parse_value(*knob, setting.substr(equals + 1));
    if (!value) return "-s " + setting + ": " + value.error().message();
    if (auto checked = recipes::check_value(*knob, *value); !checked) {
      return "-s " + setting + ": " + checked.error().message();
    }
    if (name == "batch_size") {
      recipe.train.batch_size = std::get<std::int64_t>(*value);
    } else {
      recipe.start.set(name, std::move(*value));
    }
  }
  return {};
}

}  // namespace

int run(const RunOptions& options) {
  const auto knobs = recipes::knobs_of(detect_machine());
  auto recipe = read_recipe_or_report(options.recipe, knobs, options.as_json);
  if (!recipe) return kUsageError;
  if (const std::string wrong = apply_settings(options.settings, knobs, *recipe); !wrong.empty()) {
    return usage_error(wrong);
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
