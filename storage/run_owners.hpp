// SPDX-License-Identifier: Apache-2.0
// Which runs somebody is at work on: see History::claim().
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/descriptor.hpp"

namespace autotuned::storage {

// Whether runs of this history have owners, at the moment of each question.
class RunOwners {
 public:
  explicit RunOwners(const std::filesystem::path& history);
  // `run` is its number in the table. True also where it cannot be found out.
  [[nodiscard]] bool has(std::int64_t run) const;

 private:
  Descriptor file_;
  bool is_unknown_ = false;
};

struct UnfinishedRun {
  std::string id;
  std::int64_t sequence = 0;
};

// Through the index runs_unfinished, however many runs there are.
inline constexpr const char* kUnfinishedSql =
    "SELECT id, sequence FROM runs WHERE state IN ('tuning', 'training') ORDER BY sequence";

// In the order in which they were made. Throws what SQLite throws.
[[nodiscard]] std::vector<UnfinishedRun> unfinished_runs(const SQLite::Database& database);

// The ids of those on which nobody is at work any more.
[[nodiscard]] std::set<std::string> interrupted_runs(const SQLite::Database& database,
                                                     const std::filesystem::path& history);

}  // namespace autotuned::storage
