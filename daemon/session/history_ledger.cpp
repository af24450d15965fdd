// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/history_ledger.hpp"

#include <algorithm>
#include <utility>

#include "daemon/report/token_report.hpp"

namespace autotuned::daemon {

HistoryLedger::HistoryLedger(storage::History& history, storage::RunRow& run,
                             const std::vector<plugins::FoundPlugin>& plugins, const Clock& clock,
                             EventSink events)
    : history_(&history),
      run_(&run),
      plugins_(&plugins),
      clock_(&clock),
      events_(std::move(events)) {}

void HistoryLedger::warned(const std::string& text) {
  events_({{"event", "warning"}, {"text", text}});
}

void HistoryLedger::progressed(const tuner::TuningProgress& progress) {
  events_({{"event", "tuning"},
           {"trials_done", progress.trials_done},
           {"trials_expected", progress.trials_expected},
           {"budget_ns", progress.budget.count()},
           {"budget_spent_ns", progress.budget_spent.count()}});
}

Result<void> HistoryLedger::baseline(const Configuration& starting, double samples_per_second) {
  run_->starting = starting;
  run_->baseline_samples_per_second = samples_per_second;
  if (auto stored = history_->update_run(*run_); !stored) return stored;
  Json event = {{"event", "baseline"}, {"samples_per_second", samples_per_second}};
  if (const std::int64_t tokens = tokens_per_sample(run_->recipe); tokens > 0)
    event["tokens_per_second"] = samples_per_second * static_cast<double>(tokens);
  events_(event);
  return {};
}

Result<void> HistoryLedger::ceiling(const tuner::Ceiling& ceiling) {
  run_->ceiling_samples_per_second = ceiling.samples_per_second;
  run_->ceiling_bound_by = ceiling.bound_by;
  run_->ceiling_ladder = tuner::ladder_json(ceiling);
  auto stored = history_->put_ceiling(run_->id, ceiling.samples_per_second, ceiling.bound_by,
                                      run_->ceiling_ladder);
  if (!stored) return stored;
  events_({{"event", "ceiling"},
           {"samples_per_second", ceiling.samples_per_second},
           {"bound_by", ceiling.bound_by},
           {"ladder", run_->ceiling_ladder}});
  return {};
}

Result<void> HistoryLedger::profiled(const Configuration& incumbent,
                                     const tuner::StepProfile& profile) {
  auto stored = history_->put_profile(run_->id, incumbent, profile.metrics, profile.spans,
                                      profile.operators, clock_->unix_time_ns(), profile.findings);
  if (!stored) return stored;
  Json findings = Json::array();
  for (const FindingRecord& finding : profile.findings)
    findings.push_back(finding.to_json());
  events_({{"event", "profiled"},
           {"is_start", incumbent == run_->starting},
           {"metrics", profile.metrics},
           {"findings", std::move(findings)}});
  for (const std::string& note : profile.notes) {
    if (told_.insert(note).second) events_({{"event", "warning"}, {"text", note}});
  }
  return {};
}

Result<void> HistoryLedger::not_profiled(const Error& error) {
  events_({{"event", "warning"},
           {"text", "the job could not be profiled, so most plugins know nothing to propose: " +
                        error.message()}});
  return {};
}

Result<void> HistoryLedger::asking(const std::string& plugin) {
  storage::PluginAnswerRow question;
  question.plugin = plugin;
  question.asked_unix_ns = clock_->unix_time_ns();
  const auto found = std::find_if(plugins_->begin(), plugins_->end(), [&plugin](const auto& known) {
    return known.name == plugin && known.policy != nullptr;
  });
  if (found != plugins_->end()) {
    question.version = found->version;
    question.sha256 = found->build_digest();
  }
  if (auto stored = history_->put_plugin_asked(run_->id, question); !stored) return stored;
  events_({{"event", "asking"}, {"plugin", plugin}});
  return {};
}

Result<void> HistoryLedger::answered(const std::string& plugin, const std::string& outcome,
                                     bool is_failure) {
  auto stored = history_->put_plugin_answered(run_->id, plugin, outcome, is_failure);
  if (!stored) return stored;
  events_({{"event", "answered"},
           {"plugin", plugin},
           {"outcome", outcome},
           {"is_failure", is_failure}});
  return {};
}

Result<void> HistoryLedger::trial_started(const TrialRecord& trial) {
  if (auto stored = history_->put_trial(run_->id, trial); !stored) return stored;
  events_({{"event", "trial_started"}, {"trial", trial.to_json(run_->id.text)}});
  return {};
}

Result<void> HistoryLedger::block_measured(const TrialRecord& trial, const TrialBlock& block,
                                           const Estimate& estimate) {
  if (auto stored = history_->put_block(id_of(trial), block); !stored) return stored;
  events_({{"event", "block"},
           {"trial", trial.number},
           {"pair", block.pair},
           {"is_candidate", block.is_candidate},
           {"samples_per_second", block.block.samples_per_second()},
           {"ratio", estimate.ratio},
           {"ratio_low", estimate.low},
           {"ratio_high", estimate.high},
           {"pairs", estimate.pairs},
           {"loss", block.block.last_loss},
           {"data_wait_ns", block.block.data_wait_ns},
           {"duration_ns", block.block.duration_ns},
           {"peak_host_memory_bytes", block.block.peak_host_memory_bytes},
           {"peak_device_memory_bytes", block.block.peak_device_memory_bytes}});
  return {};
}

Result<void> HistoryLedger::checked(const TrialRecord& trial, const CheckRecord& check) {
  if (auto stored = history_->put_check(id_of(trial), check); !stored) return stored;
  events_({{"event", "checked"},
           {"trial", trial.number},
           {"passed", check.passed},
           {"detail", check.detail}});
  return {};
}

Result<void> HistoryLedger::trial_finished(const TrialRecord& trial) {
  if (auto stored = history_->put_trial(run_->id, trial); !stored) return stored;
  events_({{"event", "trial_finished"},
           {"trial", trial.to_json(run_->id.text)},
           {"drops_change", trial.kind == TrialKind::ablation && drops_its_change(trial)}});
  return {};
}

}  // namespace autotuned::daemon
