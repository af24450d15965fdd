// SPDX-License-Identifier: Apache-2.0
#include "daemon/plugin_record.hpp"

#include <fmt/format.h>

#include <ranges>
#include <set>

namespace autotuned::daemon {

Json PluginRecord::to_json() const {
  return {{"asked", asked}, {"proposed", proposed}, {"accepted", accepted},
          {"used", used},   {"failed", failed},     {"last_failure", last_failure}};
}

std::string PluginRecord::text() const {
  if (asked == 0 && used > 0) return fmt::format("used in {} run{}", used, used == 1 ? "" : "s");
  if (asked == 0) return "-";
  std::string text = fmt::format("asked {}, proposed {}, accepted {}", asked, proposed, accepted);
  if (failed > 0) text += fmt::format(", failed {}", failed);
  return text;
}

Result<std::map<std::string, PluginRecord>> plugin_records(const storage::History& history) {
  const auto runs = history.runs({.limit = -1});
  if (!runs) return tl::unexpected(runs.error());
  std::map<std::string, PluginRecord> records;
  for (const storage::RunRow& run : *runs | std::views::reverse) {  // oldest first
    std::set<std::string> workloads;
    for (const char* part : {"model", "data"}) {
      const Json& typed = member(run.recipe, part);
      if (member(typed, "type") == "plugin") {
        workloads.insert(get_string(typed, "plugin").value_or(""));
      }
    }
    for (const std::string& name : workloads)
      ++records[name].used;
    const auto answers = history.plugin_answers(run.id);
    if (!answers) return tl::unexpected(answers.error());
    for (const storage::PluginAnswerRow& answer : *answers) {
      PluginRecord& record = records[answer.plugin];
      ++record.asked;
      if (!answer.is_failure) continue;
      ++record.failed;
      record.last_failure = answer.outcome;
    }
    const auto trials = history.trials(run.id);
    if (!trials) return tl::unexpected(trials.error());
    for (const TrialRecord& trial : *trials) {
      if (trial.kind == TrialKind::ablation) continue;  // nobody proposed it
      PluginRecord& record = records[trial.plugin];
      ++record.proposed;
      if (trial.verdict == Verdict::accepted) ++record.accepted;
    }
  }
  return records;
}

}  // namespace autotuned::daemon
