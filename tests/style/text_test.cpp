// SPDX-License-Identifier: Apache-2.0
// What must not be in any committed file, and what must be in every source.
#include <gmock/gmock.h>

#include <cstddef>
#include <filesystem>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/places.hpp"
#include "tests/style/source_tree.hpp"

namespace autotuned::style {
namespace {

using ::testing::IsEmpty;

constexpr std::size_t kMaxLines = 500;
constexpr std::size_t kMaxReadmeLines = 150;

const std::vector<SourceFile>& tree() {
  static const std::vector<SourceFile> kTree = read_tree(tests::source_folder());
  return kTree;
}

// Lines that `pattern` is found in, as path:line: text. `hints` spare the regex most lines.
std::vector<std::string> found(const std::regex& pattern, const std::vector<std::string>& hints,
                               const std::vector<SourceFile>& files) {
  std::vector<std::string> hits;
  for (const SourceFile& file : files) {
    std::size_t number = 0;
    for (const std::string& line : lines_of(file.text)) {
      ++number;
      const bool is_candidate = std::ranges::any_of(
          hints, [&](const std::string& hint) { return line.find(hint) != std::string::npos; });
      if (is_candidate && std::regex_search(line, pattern)) {
        hits.push_back(file.path + ":" + std::to_string(number) + ": " + line);
      }
    }
  }
  return hits;
}

// Paths that exist on somebody's machine only. The pieces keep this file from finding itself.
std::vector<std::string> machine_paths(const std::vector<SourceFile>& files) {
  const std::string slash = "/";
  const std::regex pattern(
      "(^|[^A-Za-z0-9_.}*~-])/(home|root|work|mnt|Users|scratch)/[A-Za-z0-9_.-]");
  return found(pattern,
               {slash + "home/", slash + "root/", slash + "work/", slash + "mnt/", slash + "Users/",
                slash + "scratch/"},
               files);
}

std::vector<std::string> unfinished_marks(const std::vector<SourceFile>& files) {
  const std::string to_do = std::string("TO") + "DO";
  const std::string fix_me = std::string("FIX") + "ME";
  const std::string three_x = std::string("X") + "XX";
  // Six of the letter are a template for mkstemp().
  const std::regex pattern("\\b(" + to_do + "(?!\\([0-9]+\\))|" + fix_me + "|" + three_x + ")\\b");
  return found(pattern, {to_do, fix_me, three_x}, files);
}

bool has_comment_hash(const std::string& path) {
  return path.ends_with(".cmake") || path.ends_with("CMakeLists.txt") || path.ends_with(".py") ||
         path.ends_with(".sh") || path.starts_with("scripts/") || path.starts_with(".ci/");
}

TEST(Text, NoPathsOfOneMachine) {
  EXPECT_THAT(machine_paths(tree()), IsEmpty());
}

TEST(Text, NoUnfinishedMarks) {
  EXPECT_THAT(unfinished_marks(tree()), IsEmpty());
}

TEST(Text, FindsPathsOfOneMachine) {
  const std::string path = std::string("/ho") + "me/ada/data";
  EXPECT_EQ(machine_paths({{"a.md", "see " + path + "\n"}}).size(), 1U);
  EXPECT_THAT(machine_paths({{"a.md", "see ~" + path + " and out/wo" + "rk/x\n"}}), IsEmpty());
}

TEST(Text, FindsUnfinishedMarks) {
  const std::string mark = std::string("TO") + "DO";
  EXPECT_EQ(unfinished_marks({{"a.cpp", "// " + mark + ": later\n"}}).size(), 1U);
  EXPECT_THAT(unfinished_marks({{"a.cpp", "// " + mark + "(12): later\n"}}), IsEmpty());
}

TEST(Text, EverySourceNamesTheLicence) {
  std::vector<std::string> without;
  for (const SourceFile& file : tree()) {
    if (!is_cpp(file.path) && !has_comment_hash(file.path)) continue;
    if (file.path.ends_with(".txt") && !file.path.ends_with("CMakeLists.txt")) continue;
    const bool has_it =
        file.text.substr(0, 200).find("SPDX-License-Identifier: Apache-2.0") != std::string::npos;
    if (!has_it) without.push_back(file.path);
  }
  EXPECT_THAT(without, IsEmpty());
}

TEST(Text, EveryHeaderIsIncludedOnce) {
  std::vector<std::string> without;
  for (const SourceFile& file : tree()) {
    const bool has_guard = file.text.find("\n#pragma once\n") != std::string::npos ||
                           file.text.find("\n#ifndef AUTOTUNED_") != std::string::npos;
    if ((file.path.ends_with(".hpp") || file.path.ends_with(".h")) && !has_guard) {
      without.push_back(file.path);
    }
  }
  EXPECT_THAT(without, IsEmpty());
}

TEST(Text, SourcesStayShort) {
  std::vector<std::string> longer;
  for (const SourceFile& file : tree()) {
    const std::size_t lines = lines_of(file.text).size();
    if (is_cpp(file.path) && lines > kMaxLines) {
      longer.push_back(file.path + " has " + std::to_string(lines) + " lines");
    }
  }
  EXPECT_THAT(longer, IsEmpty());
}

std::string text_of(const std::string& path) {
  for (const SourceFile& file : tree()) {
    if (file.path == path) return file.text;
  }
  return {};
}

TEST(Text, TheReadmeStaysShort) {
  const std::size_t lines = lines_of(text_of("README.md")).size();
  EXPECT_GT(lines, 0U);
  EXPECT_LE(lines, kMaxReadmeLines);
}

TEST(Text, EveryDocumentIsInTheList) {
  const std::string list = text_of("docs/README.md");
  std::vector<std::string> missing;
  for (const SourceFile& file : tree()) {
    if (!file.path.starts_with("docs/") || !file.path.ends_with(".md")) continue;
    const std::string name = file.path.substr(std::string_view("docs/").size());
    if (name == "README.md" || name.find('/') != std::string::npos) continue;  // pages of plugins
    if (list.find("](" + name + ")") == std::string::npos) missing.push_back(name);
  }
  EXPECT_THAT(missing, IsEmpty());
}

TEST(Text, FileNamesAreLowerSnake) {
  static const std::regex kName("[a-z0-9_]+");
  std::vector<std::string> others;
  for (const SourceFile& file : tree()) {
    const std::string stem = std::filesystem::path(file.path).stem().string();
    if (is_cpp(file.path) && !std::regex_match(stem, kName)) others.push_back(file.path);
  }
  EXPECT_THAT(others, IsEmpty());
}

}  // namespace
}  // namespace autotuned::style
