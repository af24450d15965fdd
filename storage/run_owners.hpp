// SPDX-License-Identifier: Apache-2.0
// Finds the runs that a living process owns: see History::claim().
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/descriptor.hpp"

namespace autotuned::storage {

// Answers whether a process owns a run at the moment of the call.
class RunOwners {
 public:
  explicit RunOwners(const std::filesystem::path& history);
  // Whether a process owns the run; also true if that cannot be determined. `run`: its number in the table.
  [[nodiscard]] bool has(std::int64_t run) const;

 private:
  Descriptor file_;
  bool is_unknown_ = false;
};

// A run in the state tuning or training.
struct UnfinishedRun {
  std::string id;
  std::int64_t sequence = 0;
};

// Uses the index runs_unfinished, so the cost does not grow with the number of runs.
inline constexpr const char* kUnfinishedSql =
    "SELECT id, sequence FROM runs WHERE state IN ('tuning', 'training') ORDER BY sequence";

// Returns the unfinished runs in the order in which they began. Throws the exceptions of SQLite.
[[nodiscard]] std::vector<UnfinishedRun> unfinished_runs(const SQLite::Database& database);

// Returns the ids of unfinished runs that no process owns. Throws the exceptions of SQLite.
[[nodiscard]] std::set<std::string> interrupted_runs(const SQLite::Database& database,
                                                     const std::filesystem::path& history);

}  // namespace autotuned::storage
