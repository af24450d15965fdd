// SPDX-License-Identifier: Apache-2.0
// Files of this tree that its documents, comments and lists name.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/style/source_tree.hpp"

namespace autotuned::style {

enum class Naming {
  by_path,   // only what begins with a top folder of the tree is one of its files
  shortened  // names may also leave out folders, as docs/architecture.md does
};

class NamedFiles {
 public:
  // Keeps what it needs of the tree.
  explicit NamedFiles(const std::vector<SourceFile>& tree);

  // The C++ and CMake files that `file` names and the tree does not have, as path:line: text. In a name `*` stands for any
  // characters: one file at least must fit.
  [[nodiscard]] std::vector<std::string> missing(const SourceFile& file, Naming naming) const;

 private:
  [[nodiscard]] bool is_there(const std::string& name, Naming naming) const;

  std::set<std::string> paths_;
  std::set<std::string> top_folders_;
};

}  // namespace autotuned::style
