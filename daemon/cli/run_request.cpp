// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/run_request.hpp"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "base/json.hpp"
#include "base/text.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/installation_paths.hpp"
#include "daemon/report/history_reading.hpp"
#include "recipes/recipe.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

SessionRequest request_of(const RunOptions& options) {
  SessionRequest request;
  const std::filesystem::path history =
      options.history.empty() ? storage::History::default_path() : options.history;
  // Paths are made absolute, because the daemon, which may store the end of the run, works in another folder. In a
  // deleted folder relative paths have no meaning.
  std::error_code failed;
  request.history = std::filesystem::absolute(history, failed);
  if (failed) request.history = history;
  for (const std::filesystem::path& folder : options.plugin_folders)
    request.plugin_folders.push_back(std::filesystem::absolute(folder));
  request.without = options.without;
  request.retune = options.retune;
  request.is_ablated = options.ablate;
  request.extends = options.extend;
  request.extended_schedule = options.schedule;
  return request;
}

Result<void> check_paths(const SessionRequest& request) {
  std::vector<std::filesystem::path> paths = {request.recipe.file, request.recipe.output_dir,
                                              request.history};
  paths.insert(paths.end(), request.plugin_folders.begin(), request.plugin_folders.end());
  for (const std::filesystem::path& path : paths) {
    const Json text = path.string();
    const auto arrived = parse_json(to_line(text), "a path");
    if (arrived && *arrived == text) continue;
    return fail(ErrorKind::invalid, "the path is no UTF-8", path.string(),
                "rename it, or name another one");
  }
  return {};
}

Result<std::optional<std::chrono::nanoseconds>> budget_of(const RunOptions& options) {
  if (!options.budget) return std::nullopt;
  const auto budget = parse_duration(*options.budget);
  if (budget) return *budget;
  return fail(ErrorKind::invalid, "--budget " + *options.budget + ": " + budget.error().message());
}

int once_for_launcher(const std::function<int(const LauncherRank* place)>& work) {
  const auto place =
      launcher_rank_from([](const char* name) -> const char* { return std::getenv(name); });
  if (!place) return report_error(place.error(), kUsageError);
  if (!*place) return work(nullptr);
  const auto folder = lock_folder();
  if (!folder) return report_error(folder.error(), kEnvironmentUnusable);
  const std::filesystem::path file = meeting_file(*folder, **place);
  if ((**place).rank > 0) {
    // Ctrl-C is for the process that does the work; this one ends after it.
    std::signal(SIGINT, SIG_IGN);
    const auto code = wait_for_lead(file);
    return code ? *code : report_error(code.error(), kWorkFailed);
  }
  auto lead = LaunchedLead::begin(file);
  if (!lead) return report_error(lead.error(), kEnvironmentUnusable);
  const int code = work(&**place);
  lead->end(code);
  return code;
}

std::string started_text(const LauncherRank& place) {
  return place.launcher + " has started " + std::to_string(place.ranks) + " processes";
}

int measure_once_for_launcher(const std::function<int(std::optional<int> ranks)>& work) {
  return once_for_launcher([&work](const LauncherRank* place) -> int {
    if (place == nullptr) return work(std::nullopt);
    if (place->ranks > recipes::kMaxRanks) {
      return usage_error(started_text(*place) + ", and a recipe has " +
                         std::to_string(recipes::kMaxRanks) + " ranks at most: start fewer");
    }
    std::cerr << started_text(*place) << ": this measures with " << place->ranks << " ranks\n";
    return work(place->ranks);
  });
}

}  // namespace autotuned::daemon
