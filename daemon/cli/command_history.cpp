// SPDX-License-Identifier: Apache-2.0
// history, show, best, forget: what is remembered.
#include <fmt/format.h>

#include <ctime>
#include <iostream>
#include <map>
#include <set>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/cli/plugin_names.hpp"
#include "daemon/cli/recipe_reading.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/trainer_plugins.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/story.hpp"
#include "recipes/recipe_yaml.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

namespace {

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
  return static_cast<std::int64_t>(seconds) * 1'000'000'000;
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

// The best for a machine: of the newest run of this recipe in an environment whose machine it is.
Result<std::optional<storage::BestRow>> find_best(const storage::History& history,
                                                  const std::string& recipe_hash,
                                                  const Machine& machine) {
  storage::RunFilter filter;
  filter.recipe = recipe_hash;
  filter.limit = -1;  // the newest may all be of other machines
  auto runs = history.runs(filter);
  if (!runs) return tl::unexpected(runs.error());
  std::set<std::string> looked_at;
  for (const storage::RunRow& run : *runs) {
    if (!looked_at.insert(run.environment_key).second) continue;
    auto environment = history.environment(run.environment_key);
    if (!environment) return tl::unexpected(environment.error());
    if (!*environment || machine.key((*environment)->libtorch) != run.environment_key) continue;
    auto best = history.best(recipe_hash, run.environment_key);
    if (!best) return tl::unexpected(best.error());
    if (*best) return best;
  }
  return std::nullopt;
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
  std::cout << printable_lines(fmt::format(
      "trial     {}\nplugin    {}\nchange    {} ({})\nproposed  {}\nverdict   {}\nreason    {}\n"
      "ratio     {}\nnoise     {:.1f} % between pairs\ntook      {}\n",
      id.text(), trial.plugin, change_text(trial.reference, trial.change), trial.risk,
      trial.proposal_reason, to_string(trial.verdict), trial.reason, estimate_text(trial.estimate),
      trial.noise_ratio * 100, format_duration(std::chrono::nanoseconds(trial.duration_ns))));
  if (const std::string note = stand_in_note(run.recipe); !note.empty()) {
    std::cout << fmt::format("note      {}\n", note);
  }
  for (const CheckRecord& check : *checks) {
    std::cout << printable(fmt::format("check     {} {}: {}", check.risk,
                                       check.passed ? "passed" : "failed", check.detail))
              << "\n";
  }
  for (const storage::TrialTrainerEnd& found : *ends)
    std::cout << fmt::format("trainer   {}\n", found.end.text());
  std::vector<std::vector<std::string>> rows = {
      {"pair", "side", "first", "duration", "steps", "samples/s", "waiting for data"}};
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
  std::cout << "\n" << table_text(rows);
  return kDone;
}

}  // namespace

int list_history(const HistoryOptions& options) {
  storage::RunFilter filter;
  filter.recipe = options.recipe;
  filter.environment = options.machine;
  filter.plugin = options.plugin;
  filter.limit = options.limit;
  if (options.verdict) {
    filter.verdict = verdict_from(*options.verdict);
    if (!filter.verdict) {
      std::cerr
          << "error: --verdict " << *options.verdict
          << ": expected accepted, rejected, failed, not_applicable, interrupted or running\n";
      return kUsageError;
    }
  }
  if (options.since) {
    filter.since_unix_ns = day_start_ns(*options.since);
    if (!filter.since_unix_ns) {
      std::cerr << "error: --since " << *options.since << ": expected a day as YYYY-MM-DD\n";
      return kUsageError;
    }
  }
  std::vector<storage::RunRow> runs;
  auto history = open_history(options.history, storage::Access::read_only);
  // One more than is shown, to know whether there are more.
  if (filter.limit >= 0) ++filter.limit;
  if (history) {
    auto found = history->runs(filter);
    if (!found) return report_error(found.error());
    runs = std::move(*found);
  } else if (history.error().kind != ErrorKind::not_found || !options.history.empty()) {
    // Only the default place may be empty still.
    return report_error(history.error(), exit_code_of(history.error()));
  }
  const bool has_more = options.limit >= 0 && runs.size() > static_cast<std::size_t>(options.limit);
  if (has_more) runs.resize(static_cast<std::size_t>(options.limit));
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
    std::cout << (is_filtered ? "no runs that these options ask for\n"
                              : "no runs; `autotuned run RECIPE` makes one\n");
    return kDone;
  }
  std::vector<std::vector<std::string>> rows = {
      {"run", "started", "recipe", "state", "start samples/s", "best samples/s", "faster"}};
  std::map<std::string, std::string> notes;  // the runs that each is about
  for (const storage::RunRow& run : runs) {
    const auto rate = [](double value) {
      return value > 0 ? format_count(static_cast<std::int64_t>(value + 0.5)) : std::string("-");
    };
    rows.push_back({run.id.text, time_text(run.started_unix_ns), run.recipe_name, state_text(run),
                    rate(run.baseline_samples_per_second), rate(run.best_samples_per_second),
                    run.best.empty() ? "-" : estimate_text(run.speedup)});
    if (const std::string note = stand_in_note(run.recipe); !note.empty()) {
      std::string& runs_with_it = notes[note];
      runs_with_it += (runs_with_it.empty() ? "" : ", ") + run.id.text;
    }
  }
  std::cout << table_text(rows);
  for (const auto& [note, runs_with_it] : notes)
    std::cout << "\n" << runs_with_it << ": " << note << "\n";
  if (has_more) std::cout << "\nthere are older ones: --limit shows more\n";
  return kDone;
}

int show(const std::filesystem::path& file, const std::string& id, bool as_json) {
  auto history = open_history(file, storage::Access::read_only);
  if (!history) return report_error(history.error());
  auto named = find_named_run(*history, id);
  if (!named) return report_error(named.error(), exit_code_of(named.error()));
  if (named->trial) return print_trial(*history, named->run, *named->trial, as_json);
  if (as_json) {
    const auto run = stored_run_json(*history, named->run, named->trials);
    if (!run) return report_error(run.error());
    std::cout << to_line(*run) << "\n";
    return kDone;
  }
  auto ends = history->trainer_ends(named->run.id);
  if (!ends) return report_error(ends.error());
  auto answers = history->plugin_answers(named->run.id);
  if (!answers) return report_error(answers.error());
  std::cout << printable_lines(run_text(named->run, named->trials));
  std::vector<std::vector<std::string>> rows = {{"plugin", "version", "said"}};
  for (const auto& answer : *answers) {
    if (answer.outcome.empty()) continue;
    rows.push_back({answer.plugin, answer.version, answer.outcome});
  }
  if (rows.size() > 1) std::cout << "\n" << table_text(rows);
  rows = {{"trial", "its trainer"}};
  for (const storage::TrialTrainerEnd& found : *ends)
    rows.push_back({found.trial > 0 ? std::to_string(found.trial) : "none", found.end.text()});
  if (rows.size() > 1) std::cout << "\n" << table_text(rows);
  return kDone;
}

int best(const std::filesystem::path& file, const std::filesystem::path& recipe_file,
         const std::vector<std::filesystem::path>& plugin_folders, bool as_json) {
  const auto job = read_job_or_report(recipe_file, plugin_folders, as_json);
  if (!job) return kUsageError;
  auto history = open_history(file, storage::Access::read_only);
  if (!history) return report_error(history.error());
  auto kept = find_best(*history, job->recipe.hash(), job->machine);
  if (!kept) return report_error(kept.error());
  if (!*kept) {
    return report_error(Error{ErrorKind::not_found,
                              "no best configuration of this recipe on this machine is known",
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
  const std::string comment = "From run " + row.run.text + ": " + estimate_text(row.speedup) +
                              " the speed of the starting configuration." +
                              (note.empty() ? "" : "\nNote: " + note + ".");
  std::cout << recipes::to_yaml(recipes::with_configuration(job->recipe, row.best, job->knobs),
                                comment);
  return kDone;
}

int forget(const std::filesystem::path& file, const std::filesystem::path& recipe_file,
           const std::vector<std::filesystem::path>& plugin_folders, bool as_json) {
  const auto job = read_job_or_report(recipe_file, plugin_folders, as_json);
  if (!job) return kUsageError;
  auto history = open_history(file, storage::Access::read_write);
  if (!history) return report_error(history.error());
  auto kept = find_best(*history, job->recipe.hash(), job->machine);
  if (!kept) return report_error(kept.error());
  bool is_forgotten = false;
  if (*kept) {
    auto forgotten = history->forget_best((*kept)->recipe_hash, (*kept)->environment_key);
    if (!forgotten) return report_error(forgotten.error());
    is_forgotten = *forgotten;
  }
  if (as_json) {
    std::cout << to_line({{"forgotten", is_forgotten}}) << "\n";
  } else {
    std::cout << (is_forgotten ? "forgotten; the next run searches anew\n"
                               : "nothing to forget: no best configuration is known here\n");
  }
  return kDone;
}

}  // namespace autotuned::daemon
