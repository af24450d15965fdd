// SPDX-License-Identifier: Apache-2.0
// Reading the history for a command: runs and trials as a person names them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/trial.hpp"
#include "daemon/common/exit_codes.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// Prints it on standard error, with nothing that steers a terminal, and returns `exit_code`.
int report_error(const Error& error, int exit_code = kWorkFailed);
// The same of a command line that makes no sense. Returns kUsageError.
int usage_error(const std::string& text);
// The same for a command that measures without a run: with the exit code of a cancel, of what this machine cannot do, or of
// work that failed.
int report_measuring_error(const Error& error);
void report_warning(const std::string& text);

// A history that exists; `file` empty: the one at the default place. Damaged pages and rows that cannot be
// read are warned of; read_write is storage::History::open_to_write(), which refuses damaged pages.
[[nodiscard]] Result<storage::History> open_history(const std::filesystem::path& file,
                                                    storage::Access access);

struct NamedRun {
  storage::RunRow run;
  std::vector<TrialRecord> trials;   // of the run, by number
  std::optional<TrialRecord> trial;  // the one that was named
};

// "RUN" or "RUN.NUMBER", where RUN is an id, the beginning of one or "last". ErrorKind::not_found or
// `invalid` when nothing or too much answers to that name.
[[nodiscard]] Result<NamedRun> find_named_run(const storage::History& history,
                                              const std::string& name);

// What is stored of this run as run_json() tells it; with trials that were read before, as find_named_run() shows them.
[[nodiscard]] Result<Json> stored_run_json(const storage::History& history,
                                           const storage::RunRow& run);
[[nodiscard]] Result<Json> stored_run_json(const storage::History& history,
                                           const storage::RunRow& run,
                                           const std::vector<TrialRecord>& trials);

// A name that nothing answers to is a mistake in the command line; the rest is not.
[[nodiscard]] int exit_code_of(const Error& error);

}  // namespace autotuned::daemon
