// SPDX-License-Identifier: Apache-2.0
// Reads the history for a command: finds runs and trials by the names that a person gives, and reports errors.
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

// Prints the error on standard error, without control characters, and returns `exit_code`.
int report_error(const Error& error, int exit_code = kWorkFailed);
// Reports a mistake in the command line. Returns kUsageError.
int usage_error(const std::string& text);
// Like report_error(), for a command that measures without a run. Returns the exit code for the kind of error:
// cancelled, not possible on this machine, or failed.
int report_measuring_error(const Error& error);
void report_warning(const std::string& text);

// Opens an existing history; `file` empty: the default path. Warns of damaged pages and of rows that cannot be read.
// With read_write it is storage::History::open_to_write(), which refuses damaged pages.
[[nodiscard]] Result<storage::History> open_history(const std::filesystem::path& file,
                                                    storage::Access access);

struct NamedRun {
  storage::RunRow run;
  std::vector<TrialRecord> trials;   // of the run, by number
  std::optional<TrialRecord> trial;  // the one that was named
};

// Finds "RUN" or "RUN.NUMBER", where RUN is an id, the beginning of one, or "last". ErrorKind::not_found: nothing has
// that name; `invalid`: several runs have.
[[nodiscard]] Result<NamedRun> find_named_run(const storage::History& history,
                                              const std::string& name);

// The run_json() of a stored run. The second form takes trials that were read before, as find_named_run() returns them.
[[nodiscard]] Result<Json> stored_run_json(const storage::History& history,
                                           const storage::RunRow& run);
[[nodiscard]] Result<Json> stored_run_json(const storage::History& history,
                                           const storage::RunRow& run,
                                           const std::vector<TrialRecord>& trials);

// The exit code for an error of these functions: a name that was not found is a mistake in the command line, other
// errors are not.
[[nodiscard]] int exit_code_of(const Error& error);

}  // namespace autotuned::daemon
