// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/style/source_tree.hpp"

// The include rules of docs/architecture.md, and the search for what breaks them.
namespace autotuned::style {

// A third-party header and the files that may include it.
struct Boundary {
  std::vector<std::string> headers;  // prefixes of what stands between < and >
  std::vector<std::string> allowed;  // shell patterns
  std::vector<std::string> refused;  // shell patterns, stronger than `allowed`
};

struct Rules {
  // Folder to the folders that it may include; "anything" stands for all.
  std::map<std::string, std::set<std::string>> folders;
  std::vector<Boundary> boundaries;
};

// Throws std::runtime_error, naming what is missing, when the marked tables are not there.
[[nodiscard]] Rules read_rules(std::string_view architecture);

// One sentence per violation, with file and line. A file named *_test.cpp may include anything, like
// one under tests/, wherever it is.
[[nodiscard]] std::vector<std::string> violations(const Rules& rules,
                                                  const std::vector<SourceFile>& files);

}  // namespace autotuned::style
