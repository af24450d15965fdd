// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/run_list.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/report/figures.hpp"
#include "daemon/report/lineage.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/script_report.hpp"
#include "daemon/report/training_fallback.hpp"

namespace autotuned::daemon {

namespace {

constexpr std::size_t kStarted = 1;
constexpr std::size_t kName = 2;
constexpr std::size_t kState = 3;
constexpr std::size_t kStartRate = 4;
constexpr std::size_t kBestRate = 5;

// What it is, how it ended and what it came to are read last; `show RUN` has everything.
std::vector<TableCut> cuts_of_run_list() {
  constexpr std::size_t kDay = 10;  // "2026-11-21" of "2026-11-21 10:15:03"
  constexpr std::size_t kMinName = 12;
  return {{.column = kStarted, .least = kDay, .is_part = true},
          {.column = kStartRate},
          {.column = kBestRate},
          {.column = kName, .least = kMinName},
          {.column = kStarted},
          {.column = kState, .least = kMinName}};
}

std::string rate_cell(const storage::RunRow& run, double rate) {
  if (rate <= 0) return "-";
  if (unit_of(run) != "samples") return rate_text(rate, unit_of(run));
  return format_count(static_cast<std::int64_t>(rate + 0.5));
}

// That of the start is not told twice, as that of something better.
std::string best_rate_cell(const storage::RunRow& run) {
  const bool is_start = !run.best.empty() && run.starting.change_to(run.best).empty();
  if (is_start && run.speedup.pairs == 0) return "-";
  return rate_cell(run, run.best_samples_per_second);
}

}  // namespace

std::string run_list_text(const std::vector<storage::RunRow>& runs, int columns,
                          const std::set<std::string>& unconfirmed) {
  const auto scripts =
      std::ranges::count_if(runs, [](const storage::RunRow& run) { return is_script(run.recipe); });
  const char* const name = scripts == std::ssize(runs) ? "script"
                           : scripts > 0               ? "recipe or script"
                                                       : "recipe";
  std::vector<std::vector<std::string>> rows = {
      {"run", "started", name, "state", "start samples/s", "best samples/s", "faster"}};
  std::map<std::string, std::string> notes;  // the runs that each is about
  for (const storage::RunRow& run : runs) {
    const std::string extended = extended_run(run);
    const std::string left_out = run.best.empty() ? "" : left_out_text(run);
    const std::string mark = left_out.empty() ? "" : " *";
    rows.push_back({run.id.text, time_text(run.started_unix_ns), run.recipe_name, state_text(run),
                    rate_cell(run, run.baseline_samples_per_second), best_rate_cell(run),
                    run.best.empty()
                        ? "-"
                        : speedup_text(run.speedup, unconfirmed.contains(run.id.text)) + mark});
    for (const std::string& note :
         {stand_in_note(run.recipe),
          extended.empty() ? "" : "goes on with the training of run " + extended,
          left_out.empty() ? "" : "its ratio (*) was " + left_out}) {
      if (note.empty()) continue;
      std::string& runs_with_it = notes[note];
      runs_with_it += (runs_with_it.empty() ? "" : ", ") + run.id.text;
    }
  }
  std::string text = fitted_table_text(std::move(rows), columns, cuts_of_run_list());
  for (const auto& [note, runs_with_it] : notes)
    text += "\n" + printable(runs_with_it + ": " + note) + "\n";
  return text;
}

}  // namespace autotuned::daemon
