// SPDX-License-Identifier: Apache-2.0
#include "daemon/plugin_list/plugin_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/machine/machine.hpp"
#include "base/text.hpp"
#include "recipes/knobs.hpp"

namespace autotuned::daemon {

Json PluginRecord::to_json() const {
  return {{"asked", asked},
          {"proposed", proposed},
          {"accepted", accepted},
          {"used", used},
          {"failed", failed},
          {"failed_trials", failed_trials},
          {"last_failure", last_failure}};
}

std::string PluginRecord::text() const {
  std::vector<std::string> parts;
  if (asked > 0) {
    parts.push_back(fmt::format("asked {}, proposed {}, accepted {}", asked, proposed, accepted));
  } else if (used > 0) {
    parts.push_back("used in " + format_counted(used, "run"));
  }
  if (failed > 0) parts.push_back(fmt::format("failed {}", failed));
  if (failed_trials > 0) parts.push_back(format_counted(failed_trials, "trial") + " failed");
  return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, ", "));
}

namespace {

// The extensions whose knobs a change turns: NAME of NAME.WORD.
std::set<std::string> extensions_of(const Configuration& change) {
  static const std::vector<recipes::Knob> kBuiltIn = recipes::knobs_of(Machine{});
  std::set<std::string> names;
  for (const auto& [knob, value] : change.values()) {
    if (!recipes::find_knob(kBuiltIn, knob)) names.insert(knob.substr(0, knob.find('.')));
  }
  return names;
}

}  // namespace

Result<std::map<std::string, PluginRecord>> plugin_records(const storage::History& history) {
  auto runs = history.runs({.limit = -1});
  if (!runs) return tl::unexpected(runs.error());
  std::ranges::reverse(*runs);  // oldest first
  std::map<std::string, PluginRecord> records;
  for (const storage::RunRow& run : *runs) {
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
      if (trial.verdict != Verdict::failed) continue;
      for (const std::string& name : extensions_of(trial.change)) {
        PluginRecord& extension = records[name];
        ++extension.failed_trials;
        extension.last_failure =
            fmt::format("trial {} of run {}, {}: {}", trial.number, run.id.text,
                        trial.change.canonical_text(), trial.reason);
      }
    }
  }
  return records;
}

}  // namespace autotuned::daemon
