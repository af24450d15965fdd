// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

// What the style tests read: the files of this repository.
namespace autotuned::style {

struct SourceFile {
  std::string path;  // from the repository root, with '/'
  std::string text;
};

// Every text file that is committed or would be: what git lists, or, in a tree without git, every
// file outside the folders that .gitignore names. Sorted by path. Throws if there is none.
[[nodiscard]] std::vector<SourceFile> read_tree(const std::string& root);

[[nodiscard]] std::vector<std::string> lines_of(std::string_view text);
[[nodiscard]] bool is_cpp(std::string_view path);

// Shell pattern in which `*` also matches '/'.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view path);

}  // namespace autotuned::style
