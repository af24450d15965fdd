// SPDX-License-Identifier: Apache-2.0
#include "daemon/continued_run.hpp"

#include <algorithm>
#include <utility>

namespace autotuned::daemon {
namespace {

using storage::History;
using storage::RunRow;

Result<std::optional<RunRow>> find_run(const History& history, const SessionRequest& request,
                                       const std::string& recipe_hash,
                                       const std::string& environment) {
  if (!request.continue_run.empty()) {
    return history.run(request.continue_run).map([](RunRow row) {
      return std::optional(std::move(row));
    });
  }
  auto row = history.unfinished_run(recipe_hash, environment);
  // To search anew is to go on with nothing, except with such a search that was interrupted.
  if (row && *row && request.retune && !(*row)->is_retuned) row->reset();
  return row;
}

}  // namespace

Result<ClaimedRun> claim_run(const History& history, const SessionRequest& request,
                             const std::string& recipe_hash, const std::string& environment) {
  Descriptor claim;
  for (std::string claimed;;) {
    auto run = find_run(history, request, recipe_hash, environment);
    if (!run) return tl::unexpected(run.error());
    if (!*run) return ClaimedRun{};
    if ((*run)->id.text == claimed) return ClaimedRun{*std::move(run), std::move(claim)};
    auto next = history.claim((*run)->id);
    if (!next) return tl::unexpected(next.error());
    claim = *std::move(next);
    claimed = (*run)->id.text;
  }
}

Result<void> put_faults(History& history, const RunId& run, const std::vector<PluginFault>& faults,
                        std::int64_t asked_unix_ns) {
  for (const PluginFault& fault : faults) {
    const auto answers = history.plugin_answers(run);
    if (!answers) return tl::unexpected(answers.error());
    const bool is_known = std::ranges::any_of(*answers, [&](const auto& answer) {
      return answer.is_failure && answer.plugin == fault.plugin;
    });
    if (is_known) continue;
    if (fault.is_loading) {
      // Nobody had asked it anything yet.
      storage::PluginAnswerRow question;
      question.plugin = fault.plugin;
      question.asked_unix_ns = asked_unix_ns;
      if (auto stored = history.put_plugin_asked(run, question); !stored) return stored;
    }
    auto stored = history.put_plugin_answered(run, fault.plugin, fault.outcome, true);
    if (!stored) return stored;
  }
  return {};
}

}  // namespace autotuned::daemon
