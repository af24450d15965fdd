// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/run_request.hpp"

#include <filesystem>

#include "base/text.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

SessionRequest request_of(const RunOptions& options) {
  SessionRequest request;
  request.history = options.history.empty() ? storage::History::default_path()
                                            : std::filesystem::absolute(options.history);
  for (const std::filesystem::path& folder : options.plugin_folders)
    request.plugin_folders.push_back(std::filesystem::absolute(folder));
  request.without = options.without;
  request.retune = options.retune;
  request.is_ablated = options.ablate;
  request.extends = options.extend;
  request.extended_schedule = options.schedule;
  return request;
}

Result<std::optional<std::chrono::nanoseconds>> budget_of(const RunOptions& options) {
  if (!options.budget) return std::nullopt;
  const auto budget = parse_duration(*options.budget);
  if (budget) return *budget;
  return fail(ErrorKind::invalid, "--budget " + *options.budget + ": " + budget.error().message());
}

}  // namespace autotuned::daemon
