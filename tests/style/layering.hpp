// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/style/source_tree.hpp"

// The rules of docs/architecture.md for folders and includes, and the search for what breaks them.
namespace autotuned::style {

// A third-party header and the files that may include it.
struct Boundary {
  std::vector<std::string> headers;  // prefixes of what stands between < and >
  std::vector<std::string> allowed;  // shell patterns
  std::vector<std::string> refused;  // shell patterns, stronger than `allowed`
};

struct FolderRule {
  std::set<std::string>
      allowed;          // folders, or shell patterns of folders; "anything" stands for all
  std::string purpose;  // what the folder is for; empty where the row does not say
};

struct Rules {
  // By folder, or by a shell pattern that stands for every folder of such a name. A folder is not meant by a row of the one
  // that it is in.
  std::map<std::string, FolderRule> folders;
  std::vector<Boundary> boundaries;
};

// Throws std::runtime_error, naming what is missing, when the marked tables are not there.
[[nodiscard]] Rules read_rules(std::string_view architecture);

// One sentence per violation, with file and line: a folder without a row, an include that the row of its folder does not
// allow, a header outside its boundary. A file named *_test.cpp may include anything, like one under tests/, wherever it is.
[[nodiscard]] std::vector<std::string> violations(const Rules& rules,
                                                  const std::vector<SourceFile>& files);

// One sentence for each row that is of no use: it names no folder with sources, allows one that is none, or does not say
// what the folder is for.
[[nodiscard]] std::vector<std::string> useless_rows(const Rules& rules,
                                                    const std::vector<SourceFile>& files);

// One sentence for each chain of rows that may include one another in a circle.
[[nodiscard]] std::vector<std::string> row_cycles(const Rules& rules);

// One sentence for each chain of files that include one another in a circle.
[[nodiscard]] std::vector<std::string> include_cycles(const std::vector<SourceFile>& files);

// One sentence for each folder that holds more than `most` units itself, sub-folders not counted; a header and the source
// of its name are one. tests/ is free.
[[nodiscard]] std::vector<std::string> crowded_folders(const std::vector<SourceFile>& files,
                                                       std::size_t most);

}  // namespace autotuned::style
