// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/job_trend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/printable.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "base/trial.hpp"
#include "daemon/report/lineage.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/script_report.hpp"
#include "daemon/report/story.hpp"
#include "tuner/advisors.hpp"

namespace autotuned::daemon {

namespace {

using Rows = std::vector<std::vector<std::string>>;

// What happened meanwhile is written down when the search has ended.
bool has_ended_search(const storage::RunRow& run) {
  return !run.best.empty() || run.state == storage::RunState::training ||
         run.state == storage::RunState::finished;
}

Result<Disturbances> disturbances_of(const storage::History& history, const storage::RunRow& run) {
  auto answers = history.plugin_answers(run.id);
  if (!answers) return forward_error(answers);
  const bool is_known =
      is_script(run.recipe) ? !machine_findings(*answers).empty() : has_ended_search(run);
  std::erase_if(*answers, [](const storage::PluginAnswerRow& answer) {
    return answer.kind == storage::AnswerKind::machine && answer.subject == "clock";
  });
  std::vector<std::string> found = machine_findings(*answers);
  if (found.empty() && !is_known) return Disturbances();
  return Disturbances(std::move(found));
}

// What its best configuration reached, or the start where nothing else is known; 0: it has measured nothing. One that goes on
// with a training tells the rates of the run before it.
double rate_of(const storage::RunRow& run) {
  if (!extended_run(run).empty()) return 0.0;
  return run.best_samples_per_second > 0.0 ? run.best_samples_per_second
                                           : run.baseline_samples_per_second;
}

// The newest come first; the fastest of those known to be undisturbed, else the fastest.
Result<MeasuredRun> fastest_of(const storage::History& history,
                               std::vector<const storage::RunRow*> runs) {
  std::ranges::stable_sort(runs, std::ranges::greater{},
                           [](const storage::RunRow* run) { return rate_of(*run); });
  std::optional<MeasuredRun> fastest;
  for (const storage::RunRow* run : runs) {
    auto found = disturbances_of(history, *run);
    if (!found) return forward_error(found);
    MeasuredRun measured{*run, *std::move(found)};
    if (measured.is_quiet()) return measured;
    if (!fastest) fastest = std::move(measured);
  }
  return *std::move(fastest);
}

Rows trend_rows(const std::vector<JobTrend>& trends, bool has_units) {
  Rows rows = {
      {"job", "machine", has_units ? "fastest before" : "before", "on", "newest", "on", "change"}};
  const auto rate = [has_units](const MeasuredRun& measured) {
    const char* const mark = measured.is_quiet()     ? ""
                             : measured.disturbances ? " (busy)"
                                                     : " (unknown)";
    const double value = rate_of(measured.run);
    return (has_units ? rate_text(value) : format_count(static_cast<std::int64_t>(value + 0.5))) +
           mark;
  };
  const auto day = [](const MeasuredRun& measured) {
    return time_text(measured.run.started_unix_ns).substr(0, 10);
  };
  for (const JobTrend& trend : trends) {
    rows.push_back({trend.job, trend.machine, rate(trend.fastest_before), day(trend.fastest_before),
                    rate(trend.newest), day(trend.newest),
                    trend.is_comparable()
                        ? format_gain(rate_of(trend.newest.run) / rate_of(trend.fastest_before.run))
                        : "not comparable"});
  }
  return rows;
}

// A machine that is that of all jobs gives way first, else the days: they tell no jobs apart.
std::vector<TableCut> cuts_of(const std::vector<JobTrend>& trends) {
  constexpr std::size_t kMinName = 12;
  constexpr TableCut kShortMachine = {.column = 1, .least = kMinName};
  constexpr TableCut kDayBefore = {.column = 3};
  constexpr TableCut kDayOfNewest = {.column = 5};
  constexpr TableCut kShortJob = {.column = 0, .least = kMinName};
  const bool is_one_machine = std::ranges::all_of(
      trends, [&trends](const JobTrend& trend) { return trend.machine == trends.front().machine; });
  if (is_one_machine) return {kShortMachine, {.column = 1}, kDayBefore, kDayOfNewest, kShortJob};
  return {kDayBefore, kDayOfNewest, kShortMachine, kShortJob};
}

constexpr const char* kTogether = "(together)";

std::string plugin_text(const PluginGain& gain) {
  return gain.plugin.empty() ? kTogether : gain.plugin;
}

// Names of machines by the keys of their environments, each read once.
class MachineNames {
 public:
  explicit MachineNames(const storage::History& history) : history_(history) {}

  Result<std::string> of(const std::string& key) {
    if (const auto known = names_.find(key); known != names_.end()) return known->second;
    const auto environment = history_.environment(key);
    if (!environment) return forward_error(environment);
    return names_[key] = *environment ? machine_name((*environment)->facts) : "?";
  }

 private:
  const storage::History& history_;
  std::map<std::string, std::string> names_;
};

}  // namespace

std::string machine_name(const Json& facts) {
  const auto cpus = get_integer(facts, "cpus_allowed").value_or(0);
  std::string name = fmt::format("{}, {} CPU{}", get_string(facts, "cpu_model").value_or("?"), cpus,
                                 cpus == 1 ? "" : "s");
  for (const Json& gpu : member(facts, "gpus"))
    name += ", " + get_string(gpu, "name").value_or("?");
  return name;
}

Result<std::vector<PluginGain>> plugin_gains(const storage::History& history) {
  const auto runs = history.runs({.limit = -1});
  if (!runs) return forward_error(runs);
  MachineNames machines(history);
  std::map<std::tuple<std::string, std::string, std::string>, PluginGain> found;
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<double>> ratios;
  for (const storage::RunRow& run : *runs) {
    const auto machine = machines.of(run.environment_key);
    if (!machine) return forward_error(machine);
    auto trials = history.trials(run.id);
    if (!trials) return forward_error(trials);
    // A run whose search did not end has kept nothing.
    const RunRecord record{.run = run, .environment = {}, .trials = *std::move(trials)};
    const auto outcomes = run.best.empty() ? std::map<int, Outcome>{} : outcomes_of(record);
    const auto is_kept = [&outcomes](const TrialRecord& trial) {
      const auto outcome = outcomes.find(trial.number);
      return outcome != outcomes.end() && outcome->second == Outcome::kept;
    };
    for (const TrialRecord& trial : record.trials) {
      const bool is_decided = trial.verdict == Verdict::accepted ||
                              trial.verdict == Verdict::rejected ||
                              trial.verdict == Verdict::failed;
      if (trial.kind != TrialKind::proposal || !is_decided) continue;
      // The tuner's own proposals are pairs of changes that plugins had proposed one by one.
      const std::string plugin = trial.plugin == tuner::kOwnName ? "" : trial.plugin;
      const auto key = std::tuple(plugin, run.recipe_name, *machine);
      PluginGain& gain = found[key];
      gain.plugin = plugin;
      gain.job = run.recipe_name;
      gain.machine = *machine;
      ++gain.tried;
      if (!is_kept(trial)) continue;
      ++gain.won;
      ratios[key].push_back(trial.estimate.ratio);
    }
  }
  std::vector<PluginGain> gains;
  for (auto& [key, gain] : found) {
    if (gain.won > 0) gain.median_ratio = median(ratios[key]);
    gains.push_back(std::move(gain));
  }
  std::ranges::stable_sort(gains, std::ranges::greater{}, &PluginGain::median_ratio);
  return gains;
}

Json gains_json(const std::vector<PluginGain>& gains) {
  Json list = Json::array();
  for (const PluginGain& gain : gains) {
    list.push_back({{"plugin", gain.plugin.empty() ? Json() : Json(gain.plugin)},
                    {"recipe", gain.job},
                    {"machine", gain.machine},
                    {"tried", gain.tried},
                    {"won", gain.won},
                    {"median_ratio", gain.won > 0 ? Json(gain.median_ratio) : Json()}});
  }
  return list;
}

std::string gains_text(const std::vector<PluginGain>& gains) {
  if (gains.empty()) return "no trials yet; `autotuned run FILE` makes some\n";
  Rows rows = {{"plugin", "job", "machine", "tried", "won", "gain"}};
  std::set<std::string> winners;
  std::set<std::string> others;
  for (const PluginGain& gain : gains) {
    if (gain.won == 0) {
      others.insert(plugin_text(gain));
      continue;
    }
    winners.insert(plugin_text(gain));
    rows.push_back({plugin_text(gain), gain.job, gain.machine, format_count(gain.tried),
                    format_count(gain.won), format_ratio(gain.median_ratio) + " x"});
  }
  for (const std::string& winner : winners)
    others.erase(winner);
  std::string text = rows.size() == 1
                         ? std::string("no run has kept the change of a plugin yet\n")
                         : table_text(std::move(rows)) +
                               "won: kept at the end of the run; gain: median ratio of "
                               "these trials, each against its reference\n";
  if (!others.empty()) {
    text += printable(fmt::format("tried and never won: {}", fmt::join(others, ", "))) + "\n";
  }
  if (winners.contains(kTogether) || others.contains(kTogether)) {
    text += fmt::format(
        "{}: changes of several plugins in one trial, which count for none of them\n", kTogether);
  }
  return text;
}

Result<std::vector<JobTrend>> job_trends(const storage::History& history,
                                         const std::vector<storage::RunRow>& runs) {
  MachineNames machines(history);
  std::vector<JobTrend> trends;
  std::set<std::pair<std::string, std::string>> seen;
  for (auto newest = runs.begin(); newest != runs.end(); ++newest) {
    if (rate_of(*newest) <= 0.0) continue;
    if (!seen.emplace(newest->recipe_hash, newest->environment_key).second) continue;
    std::vector<const storage::RunRow*> before;
    for (auto run = newest + 1; run != runs.end(); ++run) {
      const bool is_same = run->recipe_hash == newest->recipe_hash &&
                           run->environment_key == newest->environment_key;
      if (is_same && rate_of(*run) > 0.0) before.push_back(&*run);
    }
    if (before.empty()) continue;
    auto fastest = fastest_of(history, std::move(before));
    if (!fastest) return forward_error(fastest);
    auto disturbances = disturbances_of(history, *newest);
    if (!disturbances) return forward_error(disturbances);
    auto machine = machines.of(newest->environment_key);
    if (!machine) return forward_error(machine);
    trends.push_back({newest->recipe_name, std::move(*machine),
                      MeasuredRun{*newest, std::move(*disturbances)}, std::move(*fastest)});
  }
  return trends;
}

bool MeasuredRun::is_quiet() const {
  return disturbances && disturbances->empty();
}

bool JobTrend::is_comparable() const {
  return newest.is_quiet() && fastest_before.is_quiet();
}

Json trends_json(const std::vector<JobTrend>& trends) {
  const auto side = [](const MeasuredRun& measured) {
    return Json{
        {"run", measured.run.id.text},
        {"started_unix_ns", measured.run.started_unix_ns},
        {"start_samples_per_second", measured.run.baseline_samples_per_second},
        {"best_samples_per_second", rate_of(measured.run)},
        {"disturbances", measured.disturbances ? Json(*measured.disturbances) : Json("unknown")}};
  };
  Json list = Json::array();
  for (const JobTrend& trend : trends) {
    list.push_back({{"recipe", trend.job},
                    {"recipe_hash", trend.newest.run.recipe_hash},
                    {"machine", trend.machine},
                    {"newest", side(trend.newest)},
                    {"fastest_before", side(trend.fastest_before)},
                    {"ratio", rate_of(trend.newest.run) / rate_of(trend.fastest_before.run)},
                    {"is_comparable", trend.is_comparable()},
                    {"is_side_by_side", false}});
  }
  return list;
}

std::string trends_text(const std::vector<JobTrend>& trends, int columns) {
  if (trends.empty()) return "no job was measured twice on one machine\n";
  Rows rows = trend_rows(trends, /*has_units=*/true);
  std::string text;
  if (columns > 0 && table_columns(rows) > static_cast<std::size_t>(columns)) {
    rows = trend_rows(trends, /*has_units=*/false);
    text = "Rates are in samples/s.\n";
  }
  text = fitted_table_text(std::move(rows), columns, cuts_of(trends)) + text +
         "The two runs of a job were not measured side by side: other work on the machine may "
         "explain a small change. `autotuned compare A B` says what else differs.\n";
  const auto has = [&trends](const auto& is_such) {
    return std::ranges::any_of(trends, [&](const JobTrend& trend) {
      return is_such(trend.newest) || is_such(trend.fastest_before);
    });
  };
  if (has([](const MeasuredRun& run) { return run.disturbances && !run.is_quiet(); })) {
    text +=
        "busy: something disturbed the machine meanwhile, so a difference says nothing about the "
        "job. `autotuned explain RUN` says what it was; run it again on a quiet machine.\n";
  }
  if (has([](const MeasuredRun& run) { return !run.disturbances; })) {
    text +=
        "unknown: whether something disturbed the machine was not recorded: the search did not "
        "end, or it was a script.\n";
  }
  return text;
}

}  // namespace autotuned::daemon
