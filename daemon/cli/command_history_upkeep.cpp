// SPDX-License-Identifier: Apache-2.0
// history backup, history import, history prune: a copy that was checked, runs from elsewhere, and a smaller history.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/report.hpp"
#include "daemon/screen/wrapped_text.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

namespace {

using std::chrono::steady_clock;

constexpr double kNsPerDay = 86'400e9;

struct Removed {
  std::vector<storage::PrunableRun> runs;
  std::int64_t trials = 0;
};

// One transaction for each run, and between two as much time for other writers as the last one took:
// a session that waits for its turn gets it. `removed` grows run by run, also where an error ends it.
Result<void> remove_runs(storage::History& history, const storage::PrunePlan& plan,
                         Removed& removed) {
  for (const storage::PrunableRun& run : plan.runs) {
    const auto start = steady_clock::now();
    const auto is_removed = history.remove_run(run.id);
    if (!is_removed) return tl::unexpected(is_removed.error());
    if (!*is_removed) continue;
    removed.runs.push_back(run);
    removed.trials += run.trials;
    std::this_thread::sleep_for(
        std::min<steady_clock::duration>(steady_clock::now() - start, std::chrono::seconds(1)));
  }
  return {};
}

void print_removed(const Removed& removed, const storage::PrunePlan& plan, bool is_dry_run) {
  if (is_dry_run && !removed.runs.empty()) {
    std::vector<std::vector<std::string>> rows = {{"run", "started", "job", "trials"}};
    for (const storage::PrunableRun& run : removed.runs) {
      rows.push_back({run.id.text, time_text(run.started_unix_ns), run.recipe_name,
                      std::to_string(run.trials)});
    }
    print_text(table_text(rows) + "\n");
  }
  const bool is_one = plan.kept_unfinished == 1;
  std::string text =
      fmt::format("{} {} with {}\n", is_dry_run ? "would remove" : "removed",
                  format_counted(static_cast<std::int64_t>(removed.runs.size()), "run"),
                  format_counted(removed.trials, "trial"));
  if (plan.kept_for_best > 0) {
    text += fmt::format(
        "kept {} that a best configuration comes from ('autotuned forget RECIPE' drops that of a "
        "recipe)\n",
        format_counted(plan.kept_for_best, "run"));
  }
  if (plan.kept_unfinished > 0) {
    text += fmt::format("kept {} that {} running or can be continued\n",
                        format_counted(plan.kept_unfinished, "run"), is_one ? "is" : "are");
  }
  print_text(text);
}

void print_imported(const std::filesystem::path& file, const storage::ImportedRuns& imported) {
  std::string text =
      fmt::format("{}: {} with {}, {}\n", printable(file.string()),
                  format_counted(static_cast<std::int64_t>(imported.runs.size()), "run"),
                  format_counted(imported.trials, "trial"),
                  format_counted(imported.best, "best configuration"));
  if (const auto renewed = static_cast<std::int64_t>(imported.renewed.size()); renewed > 0) {
    text += fmt::format("  {} gone on there, and {} here as {} there now\n",
                        format_counted(renewed, "run") + (renewed == 1 ? " has" : " have"),
                        renewed == 1 ? "is" : "are", renewed == 1 ? "it is" : "they are");
  }
  if (imported.known > 0) {
    text += fmt::format("  {} {} here before\n", format_counted(imported.known, "run"),
                        imported.known == 1 ? "was" : "were");
  }
  if (imported.kept_at_work > 0) {
    text += fmt::format("  left out {} that a process is at work on: import the file again later\n",
                        format_counted(imported.kept_at_work, "run"));
  }
  print_text(text);
}

Json names_of(const std::vector<RunId>& runs) {
  Json names = Json::array();
  for (const RunId& run : runs)
    names.push_back(run.text);
  return names;
}

Json imported_json(const std::filesystem::path& file, const storage::ImportedRuns& imported) {
  return {{"file", file.string()},
          {"runs", names_of(imported.runs)},
          {"renewed", names_of(imported.renewed)},
          {"trials", imported.trials},
          {"best", imported.best},
          {"known", imported.known},
          {"at_work", imported.kept_at_work}};
}

}  // namespace

int back_up_history(const BackupOptions& options) {
  auto history = open_history(options.history, storage::Access::read_only);
  if (!history) return report_error(history.error());
  std::error_code ignored;
  const bool is_replacing = options.overwrite && std::filesystem::exists(options.target, ignored);
  const auto copy = history->backup(options.target, options.overwrite, options.drops_runs);
  if (!copy) return report_error(copy.error(), exit_code_of(copy.error()));
  if (options.as_json) {
    std::cout << to_line({{"file", options.target.string()},
                          {"size_bytes", copy->size_bytes},
                          {"replaced", is_replacing},
                          {"runs_lost", copy->runs_lost},
                          {"integrity", "ok"}})
              << "\n";
  } else {
    const std::string lost = copy->runs_lost > 0
                                 ? "; " + format_counted(copy->runs_lost, "run") +
                                       " of the earlier copy that the history lacks " +
                                       (copy->runs_lost == 1 ? "is" : "are") + " lost"
                                 : "";
    std::cout << fmt::format("{} {}, {}, integrity ok{}\n", is_replacing ? "replaced" : "wrote",
                             printable(options.target.string()), format_bytes(copy->size_bytes),
                             lost);
  }
  return kDone;
}

int import_history(const ImportOptions& options) {
  // All of them first: a name with a mistake in it must neither make a history nor leave half of the files to be imported.
  std::vector<storage::History> others;
  for (const std::filesystem::path& file : options.files) {
    auto other = storage::History::open_to_import(file);
    if (!other) return report_error(other.error(), exit_code_of(other.error()));
    others.push_back(*std::move(other));
  }
  auto history = storage::History::open_to_write(
      options.history.empty() ? storage::History::default_path() : options.history);
  if (!history) return report_error(history.error());
  Json files = Json::array();
  for (const storage::History& other : others) {
    const auto imported = history->import_from(other);
    if (!imported) return report_error(imported.error(), exit_code_of(imported.error()));
    if (options.as_json) {
      files.push_back(imported_json(other.path(), *imported));
    } else {
      print_imported(other.path(), *imported);
    }
  }
  if (options.as_json) std::cout << to_line({{"files", files}}) << "\n";
  return kDone;
}

int prune_history(const PruneOptions& options) {
  if (!options.older_than_days && !options.keep_last) {
    std::cerr << "error: prune needs --older-than DAYS or --keep-last N\n";
    return kUsageError;
  }
  if (options.older_than_days && std::isnan(*options.older_than_days)) {
    std::cerr << "error: --older-than takes a number of days\n";
    return kUsageError;
  }
  storage::PruneRule rule{.keep_last = options.keep_last};
  if (options.older_than_days) {
    const auto age_ns =
        static_cast<std::int64_t>(std::min(*options.older_than_days, 36'500.0) * kNsPerDay);
    rule.before_unix_ns = SystemClock().unix_time_ns() - age_ns;
  }
  // A writer brings a history of an older version up to date, which the plan needs. It makes none where there is none.
  auto history = open_history(
      options.history, options.dry_run ? storage::Access::read_only : storage::Access::read_write);
  if (!history) return report_error(history.error());
  const auto plan = history->plan_pruning(rule);
  if (!plan) return report_error(plan.error());
  Removed removed;
  Result<void> done;
  if (options.dry_run) {
    removed.runs = plan->runs;
    for (const storage::PrunableRun& run : plan->runs)
      removed.trials += run.trials;
  } else {
    done = remove_runs(*history, *plan, removed);
    if (done && options.vacuum) done = history->compact();
  }
  // Also where not all of it could be done: what is gone is gone.
  if (options.as_json) {
    Json ids = Json::array();
    for (const storage::PrunableRun& run : removed.runs)
      ids.push_back(run.id.text);
    std::cout << to_line({{"runs", ids},
                          {"trials", removed.trials},
                          {"dry_run", options.dry_run},
                          {"kept_for_best", plan->kept_for_best},
                          {"kept_unfinished", plan->kept_unfinished}})
              << "\n";
  } else {
    print_removed(removed, *plan, options.dry_run);
  }
  return done ? kDone : report_error(done.error());
}

}  // namespace autotuned::daemon
