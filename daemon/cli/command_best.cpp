// SPDX-License-Identifier: Apache-2.0
// best, forget: the best configurations that the history has.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "base/printable.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/cli/recipe_reading.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/trainer_plugins.hpp"
#include "daemon/plugin_list/plugin_names.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/script_report.hpp"
#include "daemon/report/story.hpp"
#include "daemon/report/training_fallback.hpp"
#include "daemon/report/tuning_end.hpp"
#include "daemon/screen/wrapped_text.hpp"
#include "daemon/session/known_best.hpp"
#include "recipes/recipe_yaml.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {
namespace {

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

// The best configurations, each job once, in the order of its newest run.
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

}  // namespace

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
  const std::string fallback = found_by ? fallback_text(*found_by) : std::string();
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
