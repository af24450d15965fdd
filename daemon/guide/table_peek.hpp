// SPDX-License-Identifier: Apache-2.0
// What a table of pictures says of them: a class, numbers or tags, for a first guess. The trainer reads these files with care;
// what does not fit is named here by its line, so that a person can mend it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace autotuned::daemon {

// What there is for each picture.
enum class TargetKind { classes, numbers, tags };

struct TablePeek {
  TargetKind kind = TargetKind::classes;
  std::int64_t pictures = 0;
  bool is_whole = true;  // else the table goes on behind what was looked at
  // Classes, numbers of a picture, or tags.
  std::int64_t outputs = 0;
  std::vector<std::string> columns = {};  // of numbers, or a column for each tag; empty: no heading
  std::set<std::string> labels = {};      // of classes that are names, or of lists of tags
  std::vector<std::filesystem::path> examples = {};  // of the pictures, at most eight
  std::string note = {};  // what was chosen where something else could be meant; for people
};

// Of one table: what it is, or what does not fit; neither: it is about something else than pictures.
struct TableLook {
  std::optional<TablePeek> peek;
  std::string problem;  // for people: "line 7 has \"n/a\" in column 2 (age), where ..."
};

// Looks at so many bytes of a CSV or TSV file, and for the first pictures in its folder.
[[nodiscard]] TableLook look_at_table(const std::filesystem::path& file, std::size_t most_bytes);

// Why a table is no test of a training with another one, for people; empty: it is.
[[nodiscard]] std::string misfit(const TablePeek& training, const TablePeek& test);

}  // namespace autotuned::daemon
