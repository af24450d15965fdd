// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/story.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/enum_names.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/script_report.hpp"
#include "daemon/report/story_findings.hpp"
#include "daemon/report/training_fallback.hpp"
#include "profiler/operators.hpp"

namespace autotuned::daemon {

namespace {

constexpr std::array<std::pair<const char*, const char*>, 8> kShares = {{
    {"step.data_wait_ratio", "waiting for data"},
    {"step.transfer_ratio", "handing the batch to the device"},
    {"step.zero_grad_ratio", "resetting gradients"},
    {"step.forward_ratio", "forward pass"},
    {"step.loss_ratio", "loss"},
    {"step.backward_ratio", "backward pass"},
    {"step.optimizer_ratio", "optimizer"},
    {"step.other_ratio", "other things"},
}};

constexpr EnumNames<Outcome, 11> kOutcomes = {{
    {Outcome::kept, "kept"},
    {Outcome::dropped, "dropped"},
    {Outcome::held, "held"},
    {Outcome::did_not_hold, "did_not_hold"},
    {Outcome::undecided, "undecided"},
    {Outcome::slower, "slower"},
    {Outcome::no_gain, "no_gain"},
    {Outcome::wrong_result, "wrong_result"},
    {Outcome::rejected, "rejected"},
    {Outcome::failed, "failed"},
    {Outcome::interrupted, "interrupted"},
}};

bool is_decided(const TrialRecord& trial) {
  return trial.verdict != Verdict::running && trial.verdict != Verdict::interrupted;
}

Outcome outcome_of_rejected(const TrialRecord& trial, const std::vector<CheckRecord>& checks) {
  if (trial.rejection) {
    switch (*trial.rejection) {
      case RejectionReason::slower:
        return Outcome::slower;
      case RejectionReason::no_gain:
      case RejectionReason::undecided_in_time:
        return Outcome::no_gain;
      case RejectionReason::not_same_model:
        return Outcome::wrong_result;
      case RejectionReason::totals:
      case RejectionReason::memory_limit:
      case RejectionReason::not_repaid:
        return Outcome::rejected;
    }
  }
  // A file of an older version, which is only read, does not have it.
  if (!checks.empty() && !checks.back().passed) return Outcome::wrong_result;
  if (trial.estimate.pairs > 0 && trial.estimate.high < 1.0) return Outcome::slower;
  return Outcome::rejected;
}

Outcome outcome_alone(const TrialRecord& trial, const std::vector<CheckRecord>& checks) {
  switch (trial.verdict) {
    case Verdict::accepted:
      return trial.kind == TrialKind::proposal ? Outcome::kept : Outcome::held;
    case Verdict::rejected:
      if (trial.kind == TrialKind::proposal) return outcome_of_rejected(trial, checks);
      return is_undecided(trial) ? Outcome::undecided : Outcome::did_not_hold;
    case Verdict::failed:
    case Verdict::not_applicable:
      return trial.kind == TrialKind::proposal ? Outcome::failed : Outcome::did_not_hold;
    case Verdict::running:
    case Verdict::interrupted:
      break;
  }
  return Outcome::interrupted;
}

// Accepted proposals by the trial that dropped them: a confirmation drops the last that stands, an ablation before it the
// change that it was about.
std::multimap<int, const TrialRecord*> drops_of(const RunRecord& record) {
  std::multimap<int, const TrialRecord*> drops;
  std::vector<const TrialRecord*> standing;
  bool is_confirming = false;
  for (const TrialRecord& trial : record.trials) {
    const bool is_accepted = trial.verdict == Verdict::accepted;
    if (trial.kind == TrialKind::proposal && is_accepted) standing.push_back(&trial);
    if (trial.kind == TrialKind::ablation && !is_confirming && drops_its_change(trial)) {
      std::erase_if(standing, [&](const TrialRecord* kept) {
        if (!trial.change.contains(kept->change)) return false;
        drops.emplace(trial.number, kept);
        return true;
      });
    }
    if (trial.kind != TrialKind::confirmation || !is_decided(trial)) continue;
    is_confirming = true;
    if (!is_accepted && !standing.empty()) {
      drops.emplace(trial.number, standing.back());
      standing.pop_back();
    }
  }
  return drops;
}

Json profile_json(const RunRecord& record, const Json* profile) {
  if (profile == nullptr) return nullptr;
  Json shares = Json::array();
  for (const Share& share : shares_of(*profile))
    shares.push_back({{"metric", share.metric}, {"what", share.text}, {"ratio", share.ratio}});
  Json operators = Json::array();
  for (const Share& share : operators_of(*profile, 10))
    operators.push_back({{"name", share.text}, {"ratio", share.ratio}});
  return {{"metrics", member(*profile, "metrics")},
          {"shares", std::move(shares)},
          {"operators", std::move(operators)},
          {"findings", findings_json(record, *profile)}};
}

Json trials_json(const RunRecord& record) {
  const auto outcomes = outcomes_of(record);
  Json list = Json::array();
  for (const TrialRecord& trial : record.trials) {
    if (trial.kind == TrialKind::ablation) continue;
    Json json = trial.to_json(record.run.id.text);
    json["outcome"] = to_string(outcomes.at(trial.number));
    json["checks"] = Json::array();
    if (const auto checks = record.checks.find(trial.number); checks != record.checks.end()) {
      for (const CheckRecord& check : checks->second)
        json["checks"].push_back(check_json(check));
    }
    const TrialRecord* dropped = dropped_by(record, trial);
    json["dropped"] = dropped == nullptr ? Json() : Json(dropped->number);
    list.push_back(std::move(json));
  }
  return list;
}

Json break_even_json(const storage::RunRow& run) {
  const auto pays = break_even(run);
  if (!pays) return nullptr;
  const auto savings = savings_of(run);
  const bool is_told = savings && busier_text(run).empty();
  return {{"seconds", pays->seconds},
          {"samples", pays->samples},
          {"samples_low", pays->samples_low},
          {"samples_high", pays->samples_high ? Json(*pays->samples_high) : Json()},
          {"saved_seconds", is_told ? Json(savings->saved_s) : Json()},
          {"is_reached", is_told ? Json(savings->is_repaid) : Json()}};
}

}  // namespace

Result<RunRecord> read_run(const storage::History& history, const storage::RunRow& run,
                           std::vector<TrialRecord> trials) {
  RunRecord record{.run = run, .environment = {}, .trials = std::move(trials)};
  auto environment = history.environment(run.environment_key);
  if (!environment) return tl::unexpected(environment.error());
  record.environment = std::move(*environment);
  for (const TrialRecord& trial : record.trials) {
    auto checks = history.checks({run.id, trial.number});
    if (!checks) return tl::unexpected(checks.error());
    record.checks[trial.number] = std::move(*checks);
  }
  auto answers = history.plugin_answers(run.id);
  if (!answers) return tl::unexpected(answers.error());
  record.answers = std::move(*answers);
  auto profiles = history.profiles(run.id);
  if (!profiles) return tl::unexpected(profiles.error());
  record.profiles = std::move(*profiles);
  return record;
}

Result<void> find_profiling_run(const storage::History& history, RunRecord& record) {
  const storage::RunRow& run = record.run;
  if (is_script(run.recipe) || profile_of(record.profiles, run.starting) != nullptr) return {};
  const auto runs = history.runs({.recipe = run.recipe_hash,
                                  .environment = run.environment_key,
                                  .plugin = {},
                                  .verdict = {},
                                  .since_unix_ns = {}});
  if (!runs) return tl::unexpected(runs.error());
  for (const storage::RunRow& other : *runs) {
    if (other.id.text == run.id.text || other.started_unix_ns > run.started_unix_ns ||
        other.output_dir != run.output_dir) {
      continue;
    }
    const auto profiles = history.profiles(other.id);
    if (!profiles) return tl::unexpected(profiles.error());
    if (profile_of(*profiles, other.starting) == nullptr) continue;
    record.profiled_by = other.id.text;
    return {};
  }
  return {};
}

std::string_view to_string(Outcome outcome) {
  return enum_name(kOutcomes, outcome);
}

std::map<int, Outcome> outcomes_of(const RunRecord& record) {
  std::map<int, Outcome> outcomes;
  for (const TrialRecord& trial : record.trials) {
    const auto checks = record.checks.find(trial.number);
    outcomes[trial.number] = outcome_alone(
        trial, checks == record.checks.end() ? std::vector<CheckRecord>{} : checks->second);
  }
  for (const auto& [confirmation, dropped] : drops_of(record))
    outcomes[dropped->number] = Outcome::dropped;
  return outcomes;
}

const TrialRecord* dropped_by(const RunRecord& record, const TrialRecord& confirmation) {
  const auto drops = drops_of(record);
  const auto found = drops.find(confirmation.number);
  return found == drops.end() ? nullptr : found->second;
}

const TrialRecord* dropper_of(const RunRecord& record, const TrialRecord& dropped) {
  for (const auto& [number, change] : drops_of(record)) {
    if (change->number != dropped.number) continue;
    const auto found = std::ranges::find(record.trials, number, &TrialRecord::number);
    if (found != record.trials.end()) return &*found;
  }
  return nullptr;
}

std::vector<Silence> silent_plugins(const RunRecord& record) {
  std::set<std::string> tried;
  for (const TrialRecord& trial : record.trials)
    tried.insert(trial.plugin);
  std::map<std::string, Silence> last;
  for (const storage::PluginAnswerRow& answer : record.answers) {
    if (answer.kind == storage::AnswerKind::machine) continue;
    if (answer.outcome.empty()) {
      // It had a proposal at last, for which no time was left.
      if (answer.is_answered) last.erase(answer.plugin);
      continue;
    }
    if (tried.contains(answer.plugin) && !answer.is_failure) continue;
    last[answer.plugin] = {answer.plugin, answer.outcome, answer.is_failure, answer.kind};
  }
  std::vector<Silence> list;
  for (auto& [plugin, silence] : last)
    list.push_back(std::move(silence));
  return list;
}

PluginCounts plugin_counts(const RunRecord& record) {
  PluginTally tally;
  for (const storage::PluginAnswerRow& answer : record.answers) {
    if (answer.kind != storage::AnswerKind::asked) continue;
    tally.asked(answer.plugin);
    if (!answer.is_answered && answer.outcome.empty()) continue;
    tally.answered(answer.plugin, answer.outcome, answer.is_failure);
  }
  for (const TrialRecord& trial : record.trials)
    if (trial.kind == TrialKind::proposal && is_decided(trial)) tally.tried(trial.plugin);
  return tally.counts();
}

std::vector<std::string> machine_findings(const std::vector<storage::PluginAnswerRow>& answers) {
  std::vector<std::string> findings;
  for (const storage::PluginAnswerRow& answer : answers) {
    if (answer.kind != storage::AnswerKind::machine || answer.outcome.empty()) continue;
    if (std::ranges::find(findings, answer.outcome) == findings.end()) {
      findings.push_back(answer.outcome);
    }
  }
  return findings;
}

double tuning_cost_s(const storage::RunRow& run) {
  const auto all_ns = static_cast<double>(run.tuning_duration_ns);
  return get_number(run.training, "tuning_cost_ns").value_or(all_ns) / 1e9;
}

std::optional<BreakEven> break_even(const storage::RunRow& run) {
  // With r samples/s at the start and q r at best, N samples save N/r - N/(q r) of T seconds of tuning.
  const Estimate& speedup = run.speedup;
  const double start_rate = run.baseline_samples_per_second;
  const double spent_s = tuning_cost_s(run);
  if (speedup.pairs == 0 || speedup.ratio <= 1.0 || start_rate <= 0.0) return std::nullopt;
  if (!left_out_plugins(run).empty()) return std::nullopt;
  const auto samples = [&](double ratio) { return spent_s * start_rate * ratio / (ratio - 1.0); };
  BreakEven pays{.seconds = spent_s / (speedup.ratio - 1.0),
                 .samples = samples(speedup.ratio),
                 .samples_low = samples(std::max(speedup.high, speedup.ratio))};
  if (speedup.low > 1.0) pays.samples_high = samples(speedup.low);
  return pays;
}

std::optional<TrainingSavings> savings_of(const storage::RunRow& run) {
  const auto samples = get_number(run.training, "samples");
  const auto rate = trained_samples_per_second(run);
  if (!break_even(run) || !samples || !rate) return std::nullopt;
  TrainingSavings savings{.samples = *samples, .samples_per_second = *rate};
  savings.saved_s = *samples / run.baseline_samples_per_second - *samples / *rate;
  savings.is_repaid = savings.saved_s >= tuning_cost_s(run);
  return savings;
}

std::vector<Share> shares_of(const Json& profile) {
  std::vector<Share> shares;
  for (const auto& [metric, text] : kShares) {
    if (const auto ratio = get_number(member(profile, "metrics"), metric)) {
      shares.push_back({metric, text, *ratio});
    }
  }
  std::ranges::stable_sort(shares, std::greater(), &Share::ratio);
  return shares;
}

std::vector<Share> operators_of(const Json& profile, std::size_t limit) {
  double step_ns = 0.0;
  for (const Json& span : member(profile, "spans")) {
    if (get_string(span, "name").value_or("") == "step") {
      step_ns = get_number(span, "total_ns").value_or(0.0);
    }
  }
  if (step_ns <= 0.0) return {};
  std::vector<profiler::OperatorTotal> totals;
  for (const Json& json : member(profile, "operators")) {
    const std::string name = get_string(json, "name").value_or("");
    if (!name.starts_with("aten::")) continue;  // autograd's nodes hold operators
    totals.push_back(
        {.name = name, .span = {}, .self_ns = get_integer(json, "self_ns").value_or(0)});
  }
  std::vector<Share> shares;
  for (const profiler::OperatorTotal& total : profiler::by_name(totals, limit))
    shares.push_back({{}, total.name, static_cast<double>(total.self_ns) / step_ns});
  return shares;
}

Json cost_json(const storage::RunRow& run) {
  return {{"run", run.id.text},
          {"tuning_seconds", static_cast<double>(run.tuning_duration_ns) / 1e9},
          {"break_even", break_even_json(run)}};
}

Json story_json(const RunRecord& record) {
  const storage::RunRow& run = record.run;
  Json story = run_summary_json(run);
  story["job"] = {{"model", member(run.recipe, "model")},
                  {"data", member(run.recipe, "data")},
                  {"input", member(run.recipe, "input")},
                  {"optimizer", member(run.recipe, "optimizer")},
                  {"train", member(run.recipe, "train")},
                  {"script", is_script(run.recipe) ? Json(script_text(run.recipe)) : Json()}};
  story["environment"] = record.environment ? record.environment->facts : Json();
  story["libtorch"] = record.environment ? Json(record.environment->libtorch) : Json();
  story["start"] = {{"samples_per_second", run.baseline_samples_per_second},
                    {"configuration", run.starting.to_json()},
                    {"profile", profile_json(record, profile_of(record.profiles, run.starting))}};
  story["trials"] = trials_json(record);
  story["ablation"] = Json::array();
  for (const TrialRecord& trial : record.trials) {
    if (trial.kind == TrialKind::ablation) story["ablation"].push_back(trial.to_json(run.id.text));
  }
  story["silent_plugins"] = Json::array();
  for (const Silence& silence : silent_plugins(record)) {
    story["silent_plugins"].push_back({{"plugin", silence.plugin},
                                       {"because", silence.because},
                                       {"is_failure", silence.is_failure},
                                       {"kind", storage::to_string(silence.kind)}});
  }
  story["plugins"] = plugin_counts(record).to_json();
  story["machine_findings"] = machine_findings(record.answers);
  const bool is_tuned = !run.best.empty();
  story["best"]["profile"] =
      is_tuned ? profile_json(record, profile_of(record.profiles, run.best)) : Json();
  story["best"]["one_time_ns"] = one_time_ns(record.trials);
  story["best"]["change"] = run.starting.change_to(run.best).to_json();
  story["ceiling"] = ceiling_json(run);
  story["break_even"] = break_even_json(run);
  return story;
}

}  // namespace autotuned::daemon
