// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/run_request.hpp"

#include <filesystem>
#include <system_error>
#include <vector>

#include "base/json.hpp"
#include "base/text.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

SessionRequest request_of(const RunOptions& options) {
  SessionRequest request;
  const std::filesystem::path history =
      options.history.empty() ? storage::History::default_path() : options.history;
  // The daemon, which may have to store the end of the run, works in another folder. In a folder that was
  // deleted nothing is relative to anything.
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

}  // namespace autotuned::daemon
