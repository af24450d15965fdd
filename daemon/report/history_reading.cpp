// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/history_reading.hpp"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <utility>

#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "daemon/report/report.hpp"

namespace autotuned::daemon {

int report_error(const Error& error, int exit_code) {
  // A trainer's last words have several lines.
  std::cerr << "error: " << printable_lines(error.message()) << "\n";
  return exit_code;
}

int usage_error(const std::string& text) {
  return report_error({ErrorKind::invalid, text, "", ""}, kUsageError);
}

int report_measuring_error(const Error& error) {
  if (error.kind == ErrorKind::cancelled) {
    std::cerr << "cancelled\n";
    return kCancelled;
  }
  return report_error(error,
                      error.kind == ErrorKind::unsupported ? kEnvironmentUnusable : kWorkFailed);
}

void report_warning(const std::string& text) {
  std::cerr << "warning: " << printable_lines(text) << "\n";
}

Result<storage::History> open_history(const std::filesystem::path& file, storage::Access access) {
  const std::filesystem::path place = file.empty() ? storage::History::default_path() : file;
  auto history = access == storage::Access::read_write
                     ? storage::History::open_to_write(place, storage::Missing::refuse)
                     : storage::History::open(place, access);
  if (!history) return history;
  history->on_unreadable_row(&report_warning);
  if (access == storage::Access::read_write) return history;
  // Once: a command may open the history twice.
  static std::string told;
  if (std::string outdated = history->outdated_text(); !outdated.empty() && outdated != told) {
    report_warning(outdated);
    told = std::move(outdated);
  }
  // SQLite reports a damaged page only to a command that visits it; the others would go on as if nothing were wrong.
  const auto checked = history->check_pages();
  if (!checked && checked.error().kind == ErrorKind::corrupt) {
    report_warning(checked.error().message() + "; what is shown may lack rows");
  }
  return history;
}

Result<NamedRun> find_named_run(const storage::History& history, const std::string& name) {
  std::string run_name = name;
  std::optional<int> number;
  if (const std::size_t dot = name.rfind('.'); dot != std::string::npos) {
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + dot + 1, end, number.emplace());
    if (parsed.ec != std::errc{} || parsed.ptr != end) {
      return fail(ErrorKind::invalid, "expected RUN or RUN.NUMBER", short_for_message(name));
    }
    run_name = name.substr(0, dot);
  }
  auto run = history.run(run_name);
  if (!run) return tl::unexpected(run.error());
  auto trials = history.trials(run->id);
  if (!trials) return tl::unexpected(trials.error());
  // The next session to write will say so too.
  for (TrialRecord& trial : *trials) {
    if (!run->is_interrupted || trial.verdict != Verdict::running) continue;
    trial.verdict = Verdict::interrupted;
    trial.reason = storage::kEndedMeanwhile;
  }
  NamedRun named{std::move(*run), std::move(*trials), std::nullopt};
  if (!number) return named;
  const auto trial = std::ranges::find(named.trials, *number, &TrialRecord::number);
  if (trial == named.trials.end()) {
    return fail(ErrorKind::not_found,
                "run " + named.run.id.text + " has no trial " + std::to_string(*number), "",
                "`autotuned show " + named.run.id.text + "` lists them");
  }
  named.trial = *trial;
  return named;
}

Result<Json> stored_run_json(const storage::History& history, const storage::RunRow& run) {
  const auto trials = history.trials(run.id);
  if (!trials) return tl::unexpected(trials.error());
  return stored_run_json(history, run, *trials);
}

Result<Json> stored_run_json(const storage::History& history, const storage::RunRow& run,
                             const std::vector<TrialRecord>& trials) {
  const auto ends = history.trainer_ends(run.id);
  if (!ends) return tl::unexpected(ends.error());
  const auto profiles = history.profiles(run.id);
  if (!profiles) return tl::unexpected(profiles.error());
  return run_json(run, trials, *ends, *profiles);
}

int exit_code_of(const Error& error) {
  const bool is_name = error.kind == ErrorKind::not_found || error.kind == ErrorKind::invalid;
  return is_name ? kUsageError : kWorkFailed;
}

}  // namespace autotuned::daemon
