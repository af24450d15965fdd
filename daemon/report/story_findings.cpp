// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/story_findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/printable.hpp"
#include "daemon/report/report.hpp"

namespace autotuned::daemon {

namespace {

// The trial of the finding's plugin or knob: the first one that was kept, else the last one. Null if there is none.
const TrialRecord* trial_of_finding(const RunRecord& record, const Json& finding) {
  if (!finding.is_object()) return nullptr;
  const std::string plugin = get_string(finding, "plugin").value_or("");
  const std::string knob = get_string(finding, "knob").value_or("");
  const auto outcomes = outcomes_of(record);
  const TrialRecord* found = nullptr;
  for (const TrialRecord& trial : record.trials) {
    const bool is_decided =
        trial.verdict != Verdict::running && trial.verdict != Verdict::interrupted;
    const bool is_answer = (!plugin.empty() && trial.plugin == plugin) ||
                           (!knob.empty() && trial.change.find(knob) != nullptr);
    if (trial.kind != TrialKind::proposal || !is_answer || !is_decided) continue;
    if (found == nullptr || outcomes.at(found->number) != Outcome::kept) found = &trial;
  }
  return found;
}

// What became of it, where a finding would advise to try it.
std::string tried_text(const TrialRecord& trial, Outcome outcome) {
  std::string text = fmt::format(
      "{} was tried (trial {}): ", change_text(trial.reference, trial.change), trial.number);
  switch (outcome) {
    case Outcome::kept:
      text += "kept";
      break;
    case Outcome::dropped:
      text += "accepted at first, and dropped later";
      break;
    case Outcome::slower:
      text += "slower";
      break;
    case Outcome::no_gain:
      text += no_gain_text(trial);
      break;
    case Outcome::wrong_result:
      return text + "it does not train the same model";
    case Outcome::failed:
      return text + "it failed, " + trial.reason;
    default:
      return text + "rejected, " + trial.reason;
  }
  return trial.estimate.pairs > 0 ? text + ", " + gain_text(trial.estimate) : text;
}

// What a plugin without a trial does about a finding: its last word, if it spoke against a trial.
std::string silence_text(const std::vector<Silence>& silences, const std::string& plugin) {
  const auto silence = std::ranges::find(silences, plugin, &Silence::plugin);
  if (silence == silences.end()) return "the plugin " + printable(plugin) + " acts on it";
  return fmt::format("the plugin {} {}: {}", printable(plugin),
                     silence->is_failure ? "was left out" : "proposed nothing",
                     printable(silence->because));
}

}  // namespace

Json findings_json(const RunRecord& record, const Json& profile) {
  Json findings = member(profile, "findings");
  if (!findings.is_array()) return findings;
  const auto outcomes = outcomes_of(record);
  const std::vector<Silence> silences = silent_plugins(record);
  for (Json& finding : findings) {
    const TrialRecord* const trial = trial_of_finding(record, finding);
    if (trial == nullptr) {
      const auto silence =
          std::ranges::find(silences, get_string(finding, "plugin").value_or(""), &Silence::plugin);
      if (silence == silences.end()) continue;
      finding["declined"] = {{"because", silence->because}, {"is_failure", silence->is_failure}};
      continue;
    }
    finding["tried"] = {
        {"trial", trial->number},
        {"outcome", to_string(outcomes.at(trial->number))},
        {"rejection", trial->rejection ? Json(to_string(*trial->rejection)) : Json()},
        {"is_given_up", trial->is_given_up},
        {"reason", trial->reason}};
  }
  return findings;
}

std::string findings_text(const RunRecord& record, const Json& profile, const char* heading) {
  const auto outcomes = outcomes_of(record);
  const std::vector<Silence> silences = silent_plugins(record);
  std::string text;
  for (const Json& finding : member(profile, "findings")) {
    const auto word = [&](const char* field) {
      return printable(get_string(finding, field).value_or(""));
    };
    const std::string plugin = get_string(finding, "plugin").value_or("");
    const std::string severity = word("severity");
    const TrialRecord* const trial = trial_of_finding(record, finding);
    const std::string remedy = trial != nullptr ? tried_text(*trial, outcomes.at(trial->number))
                               : plugin.empty() ? word("advice")
                                                : silence_text(silences, plugin);
    text += fmt::format("{} {}{}: {}; {}.\n", heading, word("id"),
                        severity.empty() ? "" : " (" + severity + ")", word("evidence"), remedy);
  }
  return text;
}

}  // namespace autotuned::daemon
