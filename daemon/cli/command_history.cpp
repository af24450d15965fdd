// SPDX-License-Identifier: Apache-2.0
// history, show: what is remembered.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <iostream>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/job_trend.hpp"
#include "daemon/report/lineage.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/run_files.hpp"
#include "daemon/report/run_list.hpp"
#include "daemon/report/script_report.hpp"
#include "daemon/report/story.hpp"
#include "daemon/report/training_fallback.hpp"
#include "daemon/report/tuning_end.hpp"
#include "daemon/screen/wrapped_text.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

namespace {

constexpr std::size_t kMaxQuietShown = 3;  // plugins

// Local midnight of YYYY-MM-DD.
std::optional<std::int64_t> day_start_ns(const std::string& text) {
  std::tm day{};
  const char* end = strptime(text.c_str(), "%Y-%m-%d", &day);
  if (end == nullptr || *end != '\0') return std::nullopt;
  day.tm_isdst = -1;
  const int day_of_month = day.tm_mday;
  const std::time_t seconds = std::mktime(&day);
  // mktime makes the 3rd of March of the 31st of February.
  if (seconds == -1 || day.tm_mday != day_of_month) return std::nullopt;
  // The years 1678 to 2261, in nanoseconds: no run is older or younger.
  constexpr std::int64_t kMaxSeconds = 9'200'000'000;
  return std::clamp<std::int64_t>(seconds, -kMaxSeconds, kMaxSeconds) * 1'000'000'000;
}

int print_trend(const storage::History& history, const std::vector<storage::RunRow>& runs,
                bool as_json) {
  const auto trends = job_trends(history, runs);
  if (!trends) return report_error(trends.error());
  if (as_json) {
    std::cout << to_line(trends_json(*trends)) << "\n";
  } else {
    print_text(trends_text(*trends, text_columns()));
  }
  return kDone;
}

int print_trial(const storage::History& history, const storage::RunRow& run,
                const TrialRecord& trial, bool as_json) {
  const TrialId id{run.id, trial.number};
  auto blocks = history.blocks(id);
  if (!blocks) return report_error(blocks.error());
  auto checks = history.checks(id);
  if (!checks) return report_error(checks.error());
  auto ends = history.trainer_ends(run.id);
  if (!ends) return report_error(ends.error());
  std::erase_if(*ends, [&](const auto& end) { return end.trial != trial.number; });
  if (as_json) {
    Json answer = trial.to_json(run.id.text);
    answer["trainer_ends"] = Json::array();
    for (const storage::TrialTrainerEnd& found : *ends)
      answer["trainer_ends"].push_back(trainer_end_json(found.end));
    answer["blocks"] = Json::array();
    for (const TrialBlock& block : *blocks) {
      answer["blocks"].push_back({{"pair", block.pair},
                                  {"is_candidate", block.is_candidate},
                                  {"is_first", block.is_first},
                                  {"block", block.block.to_json()}});
    }
    answer["note"] = stand_in_note(run.recipe);
    answer["checks"] = Json::array();
    for (const CheckRecord& check : *checks)
      answer["checks"].push_back(check_json(check));
    std::cout << to_line(answer) << "\n";
    return kDone;
  }
  std::string text = printable_lines(fmt::format(
      "trial     {}\nplugin    {}\nchange    {} ({})\nproposed  {}\nverdict   {}\nreason    {}\n"
      "ratio     {}\nnoise     {:.1f} % between pairs\ntook      {}\n",
      id.text(), trial.plugin, change_text(trial.reference, trial.change), trial.risk,
      trial.proposal_reason, to_string(trial.verdict), trial.reason,
      estimate_text(trial.estimate) + (trial.verdict == Verdict::failed && trial.estimate.pairs > 0
                                           ? ", the median of its pairs as the trainer timed them: "
                                             "the trial failed, so it decides nothing"
                                           : ""),
      trial.noise_ratio * 100, time_of_trial_text(trial, *blocks, is_script(run.recipe))));
  if (const std::string note = stand_in_note(run.recipe); !note.empty()) {
    text += fmt::format("note      {}\n", note);
  }
  for (const CheckRecord& check : *checks) {
    text += printable(fmt::format("check     {} {}: {}", check.risk,
                                  check.passed ? "passed" : "failed", check.detail)) +
            "\n";
  }
  for (const storage::TrialTrainerEnd& found : *ends)
    text += printable(fmt::format("trainer   {}", found.end.text())) + "\n";
  std::vector<std::vector<std::string>> rows = {{"pair", "side", "first", "duration", "steps",
                                                 std::string(unit_of(run)) + "/s",
                                                 "waiting for data"}};
  for (const TrialBlock& block : *blocks) {
    const double wait = block.block.duration_ns > 0
                            ? static_cast<double>(block.block.data_wait_ns) /
                                  static_cast<double>(block.block.duration_ns)
                            : 0.0;
    rows.push_back({std::to_string(block.pair), block.is_candidate ? "candidate" : "reference",
                    block.is_first ? "yes" : "no",
                    format_duration(std::chrono::nanoseconds(block.block.duration_ns)),
                    std::to_string(block.block.steps),
                    format_count(static_cast<std::int64_t>(block.block.samples_per_second())),
                    fmt::format("{:.1f} %", wait * 100)});
  }
  print_text(text + "\n" + table_text(rows));
  return kDone;
}

// ErrorKind::invalid names the option that cannot be read.
Result<storage::RunFilter> filter_of(const HistoryOptions& options) {
  storage::RunFilter filter;
  filter.recipe = options.recipe;
  filter.environment = options.machine;
  filter.plugin = options.plugin;
  filter.limit = options.limit;
  if (options.verdict) {
    filter.verdict = verdict_from(*options.verdict);
    if (!filter.verdict) {
      return fail(ErrorKind::invalid, "expected accepted, rejected, failed, interrupted or running",
                  "--verdict " + printable(*options.verdict));
    }
  }
  if (options.since) {
    filter.since_unix_ns = day_start_ns(*options.since);
    if (!filter.since_unix_ns) {
      return fail(ErrorKind::invalid, "expected a day as YYYY-MM-DD",
                  "--since " + printable(*options.since));
    }
  }
  return filter;
}

int print_runs(const std::vector<storage::RunRow>& runs, const std::set<std::string>& unconfirmed,
               bool has_more, const HistoryOptions& options) {
  if (options.as_json) {
    Json list = Json::array();
    for (const storage::RunRow& run : runs)
      list.push_back(run_summary_json(run));
    std::cout << to_line(list) << "\n";
    return kDone;
  }
  if (runs.empty()) {
    const bool is_filtered = options.recipe || options.machine || options.plugin ||
                             options.verdict || options.since || has_more;
    std::cout << (is_filtered ? "no runs match these options\n"
                              : "no runs yet; `autotuned run FILE` starts one\n");
    return kDone;
  }
  std::string text = run_list_text(runs, text_columns(), unconfirmed);
  if (has_more) text += "\nthere are older ones: --limit shows more\n";
  print_text(text);
  return kDone;
}

// What the plugins of a run said, and what was found on the machine: plugin, version and words.
struct AnswerRows {
  std::vector<std::vector<std::string>> told;
  std::vector<std::vector<std::string>> quiet;  // of plugins that had nothing to try
};

// Plugins are asked again after each change that is kept. What one said last stands.
AnswerRows answer_rows(const storage::RunRow& run, const std::vector<TrialRecord>& trials,
                       const std::vector<storage::PluginAnswerRow>& answers) {
  // As `explain` counts them: what a plugin said that was tried after all is contradicted by its trials.
  const std::vector<Silence> silences = silent_plugins({.run = run,
                                                        .environment = {},
                                                        .trials = trials,
                                                        .checks = {},
                                                        .answers = answers,
                                                        .profiles = {}});
  const auto is_silence = [&silences](const storage::PluginAnswerRow& answer) {
    return std::ranges::any_of(silences, [&answer](const Silence& silence) {
      return silence.plugin == answer.plugin && silence.because == answer.outcome;
    });
  };
  AnswerRows rows;
  for (auto answer = answers.begin(); answer != answers.end(); ++answer) {
    const bool is_machine = answer->kind == storage::AnswerKind::machine;
    const bool is_said_again =
        std::any_of(std::next(answer), answers.end(), [&](const storage::PluginAnswerRow& later) {
          return later.plugin == answer->plugin && !later.outcome.empty() &&
                 (!is_machine || later.outcome == answer->outcome);
        });
    if (answer->outcome.empty() || is_said_again) continue;
    if (!is_machine && !is_silence(*answer)) continue;
    const bool is_quiet = answer->kind == storage::AnswerKind::asked && !answer->is_failure;
    (is_quiet ? rows.quiet : rows.told)
        .push_back({answer->plugin, answer->version, answer->outcome});
  }
  return rows;
}

}  // namespace

int list_history(const HistoryOptions& options) {
  auto filter = filter_of(options);
  if (!filter) return report_error(filter.error(), kUsageError);
  std::vector<storage::RunRow> runs;
  auto history = open_history(options.history, storage::Access::read_only);
  // One more than is shown, to know whether there are more.
  if (filter->limit >= 0 && filter->limit < std::numeric_limits<std::int64_t>::max()) {
    ++filter->limit;
  }
  if (options.is_trend) filter->limit = -1;
  if (history) {
    auto found = history->runs(*filter);
    if (!found) return report_error(found.error());
    if (options.is_trend) return print_trend(*history, *found, options.as_json);
    runs = std::move(*found);
  } else if (history.error().kind != ErrorKind::not_found || !options.history.empty()) {
    // Only the default place may be empty still.
    return report_error(history.error());
  }
  const bool has_more = options.limit >= 0 && runs.size() > static_cast<std::size_t>(options.limit);
  if (has_more) runs.resize(static_cast<std::size_t>(options.limit));
  std::set<std::string> unconfirmed;
  if (history && !options.as_json) {
    auto found = unconfirmed_of(*history, runs);
    if (!found) return report_error(found.error());
    unconfirmed = std::move(*found);
  }
  return print_runs(runs, unconfirmed, has_more, options);
}

int show(const std::filesystem::path& file, const std::string& id, bool is_whole, bool as_json) {
  auto history = open_history(file, storage::Access::read_only);
  if (!history) return report_error(history.error());
  auto named = find_named_run(*history, id);
  if (!named) return report_error(named.error(), exit_code_of(named.error()));
  if (named->trial) return print_trial(*history, named->run, *named->trial, as_json);
  const auto lineage = lineage_of(*history, named->run);
  if (!lineage) return report_error(lineage.error());
  if (as_json) {
    auto run = stored_run_json(*history, named->run, named->trials);
    if (!run) return report_error(run.error());
    for (const storage::RunRow& part : *lineage)
      if (lineage->size() > 1) (*run)["lineage"].push_back(part.id.text);
    std::cout << to_line(*run) << "\n";
    return kDone;
  }
  auto ends = history->trainer_ends(named->run.id);
  if (!ends) return report_error(ends.error());
  auto answers = history->plugin_answers(named->run.id);
  if (!answers) return report_error(answers.error());
  std::string text = printable_lines(run_text(named->run, named->trials));
  auto [told, quiet] = answer_rows(named->run, named->trials, *answers);
  std::vector<std::vector<std::string>> rows = {{"plugin", "version", "said"}};
  std::ranges::move(told, std::back_inserter(rows));
  const bool is_folded = !is_whole && quiet.size() > kMaxQuietShown;
  if (!is_folded) std::ranges::move(quiet, std::back_inserter(rows));
  if (rows.size() > 1) text += "\n" + table_text(rows);
  if (is_folded) {
    text += fmt::format("\n{} had nothing to try; --verbose says why\n",
                        format_counted(std::ssize(quiet), "plugin"));
  }
  rows = {{"trial", "its trainer"}};
  for (const storage::TrialTrainerEnd& found : *ends)
    rows.push_back({found.trial > 0 ? std::to_string(found.trial) : "none", found.end.text()});
  if (rows.size() > 1) text += "\n" + table_text(rows);
  if (const std::string parts = lineage_text(*lineage); !parts.empty()) text += "\n" + parts;
  if (const std::string files = files_text(named->run); !files.empty()) text += "\n" + files;
  print_text(text);
  return kDone;
}

}  // namespace autotuned::daemon
