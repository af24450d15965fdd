// SPDX-License-Identifier: Apache-2.0
#include "tests/style/source_tree.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace autotuned::style {
namespace {

namespace fs = std::filesystem;

constexpr std::array kIgnoredFolders = {".git", ".deps", ".cache", "build", "out"};

// Empty if git is missing, or does not trust or know the folder.
std::vector<std::string> paths_from_git(const std::string& root) {
  const std::string command =
      "git -C '" + root + "' ls-files --cached --others --exclude-standard 2>/dev/null";
  std::vector<std::string> paths;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return paths;
  std::string output;
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    output.append(buffer.data(), n);
  }
  if (::pclose(pipe) == 0) paths = lines_of(output);
  return paths;
}

std::vector<std::string> paths_from_folders(const std::string& root) {
  std::vector<std::string> paths;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::end(it); ++it) {
    const std::string relative = it->path().lexically_relative(root).generic_string();
    if (it->is_directory()) {
      if (std::ranges::find(kIgnoredFolders, relative) != kIgnoredFolders.end()) {
        it.disable_recursion_pending();
      }
    } else if (it->is_regular_file()) {
      paths.push_back(relative);
    }
  }
  return paths;
}

}  // namespace

std::vector<SourceFile> read_tree(const std::string& root) {
  std::vector<std::string> paths = paths_from_git(root);
  if (paths.empty()) paths = paths_from_folders(root);
  std::ranges::sort(paths);
  std::vector<SourceFile> files;
  for (const std::string& path : paths) {
    const fs::path full = fs::path(root) / path;
    // Git also lists what was deleted but not yet committed.
    if (!fs::is_regular_file(full)) continue;
    std::ifstream in(full, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    SourceFile file{path, std::move(text).str()};
    if (file.text.find('\0') == std::string::npos) files.push_back(std::move(file));
  }
  if (files.empty()) throw std::runtime_error("no source file found under " + root);
  return files;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

bool is_cpp(std::string_view path) {
  return path.ends_with(".hpp") || path.ends_with(".cpp") || path.ends_with(".h");
}

bool matches(std::string_view pattern, std::string_view path) {
  return ::fnmatch(std::string(pattern).c_str(), std::string(path).c_str(), 0) == 0;
}

}  // namespace autotuned::style
