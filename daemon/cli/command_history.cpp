// SPDX-License-Identifier: Apache-2.0
// history, show, best, forget: what is remembered.
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
#include "daemon/cli/recipe_reading.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/trainer_plugins.hpp"
#include "daemon/plugin_list/plugin_names.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/job_trend.hpp"
#include "daemon/report/lineage.hpp"
#include "daemon/report/memory_fallback.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/run_files.hpp"
#include "daemon/report/run_list.hpp"
#include "daemon/report/script_report.hpp"
#include "daemon/report/story.hpp"
#include "daemon/report/tuning_end.hpp"
#include "daemon/screen/wrapped_text.hpp"
#include "daemon/session/known_best.hpp"
#include "recipes/recipe_yaml.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

namespace {

constexpr std::size_t kMostQuietShown = 3;  // plugins

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
  constexpr std::int64_t kMostSeconds = 9'200'000'000;
  return std::clamp<std::int64_t>(seconds, -kMostSeconds, kMostSeconds) * 1'000'000'000;
}

// A recipe, on this machine and with the plugins that are here.
struct LocalJob {
  Machine machine;
  std::vector<recipes::Knob> knobs;
  recipes::Recipe recipe;
};

// Nothing where a mistake was reported.
std::optional<LocalJob> read_job_or_report(const std::filesystem::path& recipe_file,
                                           const std::vector<std::filesystem::path>& plugin_folders,
                                           bool as_json) {
  if (auto checked = check_plugin_folders(plugin_folders); !checked) {
    report_error(checked.error(), kUsageError);
    return std::nullopt;
  }
  LocalJob job{.machine = detect_machine()};
  job.knobs = knobs_with(recipes::knobs_of(job.machine), trainer_plugins_here(plugin_folders));
  auto recipe = read_recipe_or_report(recipe_file, job.knobs, as_json);
  if (!recipe) return std::nullopt;
  job.recipe = *std::move(recipe);
  return job;
}

// Whether there was one; it need not be one that can be read.
Result<bool> forget_best(storage::History& history, const std::string& recipe_hash,
                         const Machine& machine) {
  const auto environments = best_environments(history, recipe_hash, machine);
  if (!environments) return tl::unexpected(environments.error());
  for (const std::string& environment : *environments) {
    auto forgotten = history.forget_best(recipe_hash, environment);
    if (!forgotten || *forgotten) return forgotten;
  }
  return false;
}

// The ids of those of these runs whose whole was compared with the start and not confirmed.
Result<std::set<std::string>> unconfirmed_of(const storage::History& history,
                                             const std::vector<storage::RunRow>& runs) {
  std::set<std::string> found;
  for (const storage::RunRow& run : runs) {
    if (run.best.empty() || run.speedup.pairs > 0) continue;
    const auto trials = history.trials(run.id);
    if (!trials) return forward_error(trials);
    if (lacks_confirmation(*trials)) found.insert(run.id.text);
  }
  return found;
}

// A job whose best configuration is known here, with the run that found it.
struct KnownBest {
  storage::BestRow best;
  storage::RunRow run;
  bool lacks_confirmation = false;
};

struct AllBest {
  std::vector<KnownBest> known;
  std::vector<storage::RunRow> unconfirmed;  // of scripts: the newest run, which has no result
};

// Of the newest runs first, each job once.
Result<AllBest> all_best(const storage::History& history, const Machine& machine) {
  const auto runs = history.runs({.limit = -1});
  if (!runs) return forward_error(runs);
  AllBest all;
  std::set<std::string> seen;
  for (const storage::RunRow& run : *runs) {
    if (!seen.insert(run.recipe_hash).second) continue;
    // A recipe that was stopped is gone on with.
    if (is_script(run.recipe) && !run.starting.empty() && is_unconfirmed(run)) {
      all.unconfirmed.push_back(run);
    }
    auto best = find_best(history, run.recipe_hash, machine);
    if (!best) return forward_error(best);
    if (!*best) continue;
    auto found = history.run((*best)->run.text);
    // A row that was edited or damaged costs itself.
    const bool is_lost = !found && (found.error().kind == ErrorKind::not_found ||
                                    found.error().kind == ErrorKind::corrupt);
    if (is_lost) {
      report_warning("the best configuration of " + run.recipe_name +
                     " is left out: " + found.error().message());
      continue;
    }
    if (!found) return forward_error(found);
    const auto unconfirmed = unconfirmed_of(history, {*found});
    if (!unconfirmed) return forward_error(unconfirmed);
    all.known.push_back({**best, std::move(*found), !unconfirmed->empty()});
  }
  return all;
}

int list_best(const std::filesystem::path& file, bool as_json) {
  const auto history = open_history(file, storage::Access::read_only);
  AllBest all;
  if (history) {
    auto found = all_best(*history, detect_machine());
    if (!found) return report_error(found.error());
    all = std::move(*found);
  } else if (history.error().kind != ErrorKind::not_found || !file.empty()) {
    return report_error(history.error());
  }
  const std::vector<KnownBest>& known = all.known;
  if (as_json) {
    Json list = Json::array();
    for (const KnownBest& one : known) {
      list.push_back({{"recipe", one.run.recipe_name},
                      {"recipe_hash", one.best.recipe_hash},
                      {"run", one.best.run.text},
                      {"configuration", one.best.best.to_json()},
                      {"speedup", one.best.speedup.ratio},
                      {"speedup_low", one.best.speedup.low},
                      {"speedup_high", one.best.speedup.high},
                      {"updated_unix_ns", one.best.updated_unix_ns}});
    }
    std::cout << to_line(list) << "\n";
    return kDone;
  }
  const auto tell_unconfirmed = [&all] {
    for (const storage::RunRow& run : all.unconfirmed) {
      print_text(printable(fmt::format(
                     "{}: its newest run {} has confirmed nothing; `autotuned explain {}` "
                     "tells why",
                     run.recipe_name, run.id.text, run.id.text)) +
                 "\n");
    }
  };
  if (known.empty()) {
    tell_unconfirmed();
    print_text(
        "no best configuration is stored for this machine yet; `autotuned run FILE` searches for "
        "one\n");
    return kDone;
  }
  std::vector<std::vector<std::string>> rows = {{"job", "faster", "run", "found", "kept"}};
  for (const KnownBest& one : known) {
    const Configuration change = one.run.starting.change_to(one.best.best);
    rows.push_back({one.run.recipe_name, speedup_text(one.best.speedup, one.lacks_confirmation),
                    one.best.run.text, time_text(one.best.updated_unix_ns).substr(0, 10),
                    change.empty() ? "the start: nothing faster was found"
                                   : change_text(one.run.starting, change)});
  }
  print_text(table_text(std::move(rows)));
  const auto scripts =
      std::ranges::count_if(known, [](const KnownBest& one) { return is_script(one.run.recipe); });
  if (scripts < std::ssize(known)) {
    print_text("`autotuned best RECIPE` prints one as a recipe.\n");
  }
  if (scripts > 0) {
    print_text("`autotuned patch SCRIPT` prints what was kept for a script as a diff.\n");
  }
  tell_unconfirmed();
  return kDone;
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
  const bool is_folded = !is_whole && quiet.size() > kMostQuietShown;
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

int best(const std::filesystem::path& file, const std::filesystem::path& recipe_file,
         const std::vector<std::filesystem::path>& plugin_folders, bool as_json) {
  if (recipe_file.empty()) return list_best(file, as_json);
  const auto job = read_job_or_report(recipe_file, plugin_folders, as_json);
  if (!job) return kUsageError;
  auto history = open_history(file, storage::Access::read_only);
  if (!history) return report_error(history.error());
  auto kept = find_best(*history, job->recipe.hash(), job->machine);
  if (!kept) return report_error(kept.error());
  if (!*kept) {
    return report_error(
        Error{ErrorKind::not_found,
              "the history has no best configuration of this recipe for this machine",
              recipe_file.string(), "`autotuned run` finds one"});
  }
  const storage::BestRow& row = **kept;
  const std::string note = stand_in_note(job->recipe.to_json());
  if (as_json) {
    std::cout << to_line({{"run", row.run.text},
                          {"configuration", row.best.to_json()},
                          {"speedup", row.speedup.ratio},
                          {"speedup_low", row.speedup.low},
                          {"speedup_high", row.speedup.high},
                          {"updated_unix_ns", row.updated_unix_ns},
                          {"note", note}})
              << "\n";
    return kDone;
  }
  const auto found_by = history->run(row.run.text);
  const std::string fallback = found_by ? memory_fallback_text(*found_by) : std::string();
  const std::string speed =
      row.speedup.pairs > 0
          ? estimate_text(row.speedup) + " the speed of the starting configuration."
      : fallback.empty() ? "the starting configuration; no change was confirmed to be faster."
                         : fallback + ".";
  const std::string comment =
      "From run " + row.run.text + ": " + speed + (note.empty() ? "" : "\nNote: " + note + ".");
  // A comment of YAML, which begins with "# ", in the width of the narrowest usual terminal.
  constexpr int kCommentColumns = 78;
  std::cout << recipes::to_yaml(recipes::with_configuration(job->recipe, row.best, job->knobs),
                                wrapped(comment, kCommentColumns));
  return kDone;
}

int forget(const std::filesystem::path& file, const std::filesystem::path& recipe_file,
           const std::vector<std::filesystem::path>& plugin_folders, bool as_json) {
  const auto job = read_job_or_report(recipe_file, plugin_folders, as_json);
  if (!job) return kUsageError;
  auto history = open_history(file, storage::Access::read_write);
  Result<bool> forgotten = false;
  if (history) {
    forgotten = forget_best(*history, job->recipe.hash(), job->machine);
  } else if (history.error().kind != ErrorKind::not_found || !file.empty()) {
    // Only the default place may be empty still.
    return report_error(history.error());
  }
  if (!forgotten) return report_error(forgotten.error());
  const bool is_forgotten = *forgotten;
  if (as_json) {
    std::cout << to_line({{"forgotten", is_forgotten}}) << "\n";
  } else {
    std::cout << (is_forgotten ? "forgotten; the next run searches again\n"
                               : "nothing to forget: the history has no best configuration of this "
                                 "recipe for this machine\n");
  }
  return kDone;
}

}  // namespace autotuned::daemon
