// SPDX-License-Identifier: Apache-2.0
// Guesses what a table says of its pictures: a class, numbers or tags. A line that does not fit is named, so that a
// person can correct it. The trainer checks these files carefully later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace autotuned::daemon {

// The kind of target that each picture has.
enum class TargetKind { classes, numbers, tags };

struct TablePeek {
  TargetKind kind = TargetKind::classes;
  std::int64_t pictures = 0;
  bool is_whole = true;  // false: the table is longer than the part that was read
  // The number of classes, of numbers for each picture, or of tags.
  std::int64_t outputs = 0;
  std::vector<std::string> columns = {};  // of numbers, or a column for each tag; empty: no heading
  std::set<std::string> labels = {};      // of classes that are names, or of lists of tags
  std::vector<std::filesystem::path> examples = {};  // of the pictures, at most eight
  std::string note = {};  // how an ambiguous table was understood; for people
};

// The result for one table: what it holds, or what does not fit. Both are empty if the table is not about pictures.
struct TableLook {
  std::optional<TablePeek> peek;
  std::string problem;    // for people: "line 7 has \"n/a\" in column 2 (age), where ..."
  bool is_other = false;  // its first column names something else than pictures
};

// Looks at no more than `most_bytes` bytes of a CSV or TSV file, and checks that the first pictures are in its folder.
[[nodiscard]] TableLook look_at_table(const std::filesystem::path& file, std::size_t most_bytes);

// Returns why the table `test` cannot be the test data for the table `training`, for people; empty if it can.
[[nodiscard]] std::string misfit(const TablePeek& training, const TablePeek& test);

}  // namespace autotuned::daemon
