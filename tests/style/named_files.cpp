// SPDX-License-Identifier: Apache-2.0
#include "tests/style/named_files.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string_view>

namespace autotuned::style {
namespace {

// No `.h`: documents name headers of others, such as sqlite3.h.
constexpr std::array<std::string_view, 3> kEndings = {".cpp", ".hpp", ".cmake"};

bool is_in_a_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_*./-").find(c) != std::string_view::npos;
}

// Not what begins with a dot or a slash: that is a place on a machine, or counts from another folder.
bool is_name_of_a_file(std::string_view word) {
  if (word.empty() || std::string_view("./-").find(word.front()) != std::string_view::npos) {
    return false;
  }
  return std::ranges::any_of(kEndings, [&](std::string_view ending) {
    return word.size() > ending.size() && word.ends_with(ending);
  });
}

std::vector<std::string> named_files_in(std::string_view line) {
  std::vector<std::string> names;
  // Most lines name none.
  if (std::ranges::none_of(kEndings, [&](std::string_view ending) {
        return line.find(ending) != std::string_view::npos;
      })) {
    return names;
  }
  while (!line.empty()) {
    const auto end = std::ranges::find_if_not(line, is_in_a_name);
    std::string_view word = line.substr(0, static_cast<std::size_t>(end - line.begin()));
    line.remove_prefix(std::min(line.size(), word.size() + 1));
    while (word.ends_with('.'))  // of the sentence
      word.remove_suffix(1);
    if (is_name_of_a_file(word)) names.emplace_back(word);
  }
  return names;
}

std::string first_folder(const std::string& path) {
  const std::size_t slash = path.find('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace

NamedFiles::NamedFiles(const std::vector<SourceFile>& tree) {
  for (const SourceFile& file : tree) {
    paths_.insert(file.path);
    if (const std::string folder = first_folder(file.path); !folder.empty()) {
      top_folders_.insert(folder);
    }
  }
}

bool NamedFiles::is_there(const std::string& name, Naming naming) const {
  const auto fits = [this](const std::string& pattern) {
    if (pattern.find('*') == std::string::npos) return paths_.contains(pattern);
    return std::ranges::any_of(paths_,
                               [&](const std::string& path) { return matches(pattern, path); });
  };
  if (top_folders_.contains(first_folder(name))) return fits(name);
  return naming == Naming::by_path || fits(name) || fits("*/" + name);
}

std::vector<std::string> NamedFiles::missing(const SourceFile& file, Naming naming) const {
  std::vector<std::string> found;
  std::size_t number = 0;
  for (const std::string& line : lines_of(file.text)) {
    ++number;
    for (const std::string& name : named_files_in(line)) {
      if (is_there(name, naming)) continue;
      found.push_back(file.path + ":" + std::to_string(number) + ": there is no " + name);
    }
  }
  return found;
}

}  // namespace autotuned::style
