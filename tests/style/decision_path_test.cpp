// SPDX-License-Identifier: Apache-2.0
// Two lists of docs/architecture.md: the files from the command to the verdict, and the units of tuner/ from the bottom up.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/places.hpp"
#include "tests/style/source_tree.hpp"

namespace autotuned::style {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A callee with this in its line is started, not called.
constexpr const char* kProcess = "in a process of its own";

using Files = std::map<std::string, std::string>;  // text by path

Files by_path(const std::vector<SourceFile>& tree) {
  Files files;
  for (const SourceFile& file : tree)
    files[file.path] = file.text;
  return files;
}

// The lines of the fenced block between `<!-- name:begin -->` and `<!-- name:end -->`.
std::vector<std::string> list_in(const std::string& text, const std::string& name) {
  const std::size_t from = text.find("<!-- " + name + ":begin -->");
  const std::size_t to = text.find("<!-- " + name + ":end -->");
  if (from == std::string::npos || to == std::string::npos || to < from) {
    throw std::runtime_error("no list between the markers '" + name + ":begin' and ':end'");
  }
  std::vector<std::string> lines = lines_of(std::string_view(text).substr(from, to - from));
  std::erase_if(lines, [](const std::string& line) {
    return line.empty() || line.starts_with("<!--") || line.starts_with("```");
  });
  return lines;
}

std::set<std::string> quoted_includes(const std::string& text) {
  static const std::regex kInclude(R"re(#\s*include\s*"([^"]+)")re");
  std::set<std::string> names;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), kInclude);
       it != std::sregex_iterator(); ++it) {
    names.insert((*it)[1].str());
  }
  return names;
}

std::string header_of(const std::string& source) {
  return source.substr(0, source.rfind('.')) + ".hpp";
}

// What `path` includes, and what its own header does.
std::set<std::string> reach_of(const Files& files, const std::string& path) {
  std::set<std::string> names = quoted_includes(files.at(path));
  const auto own = files.find(header_of(path));
  if (own != files.end() && names.contains(own->first)) {
    names.merge(quoted_includes(own->second));
  }
  return names;
}

bool has_call(const std::string& text, const std::string& function) {
  return std::regex_search(text, std::regex("\\b" + function + "\\("));
}

struct Step {
  std::string path;
  std::string function;  // without its class
  bool is_process = false;
};

std::optional<Step> step_in(const std::string& line) {
  static const std::regex kStep(
      R"(^([A-Za-z0-9_./]+): (?:[A-Za-z0-9_]+::)*([a-z0-9_]+)\(\): \S.*)");
  std::smatch match;
  if (!std::regex_match(line, match, kStep)) return std::nullopt;
  return Step{match[1].str(), match[2].str(), line.find(kProcess) != std::string::npos};
}

// Whether `from` sees a declaration of `to`: in the header of its name, or in another that both include.
bool sees(const Files& files, const std::string& from, const Step& to) {
  const std::set<std::string> reach = reach_of(files, from);
  if (files.contains(header_of(to.path))) return reach.contains(header_of(to.path));
  const std::set<std::string> own = quoted_includes(files.at(to.path));
  return std::ranges::any_of(own, [&](const std::string& header) {
    return reach.contains(header) && files.contains(header) &&
           has_call(files.at(header), to.function);
  });
}

// What is wrong with the path from the command to the verdict.
std::vector<std::string> path_faults(const std::vector<std::string>& lines, const Files& files) {
  std::vector<std::string> faults;
  std::set<std::string> seen;
  std::optional<Step> before;
  for (const std::string& line : lines) {
    const std::optional<Step> step = step_in(line);
    if (!step) {
      faults.push_back("not 'file: function(): what it does': " + line);
      continue;
    }
    const auto file = files.find(step->path);
    if (file == files.end()) {
      faults.push_back("there is no " + step->path);
      continue;
    }
    if (!seen.insert(step->path).second) faults.push_back(step->path + " is opened twice");
    if (!has_call(file->second, step->function)) {
      faults.push_back(step->path + " has no " + step->function + "()");
    }
    if (before && !step->is_process) {
      if (!sees(files, before->path, *step)) {
        faults.push_back(before->path + " does not include what declares " + step->path);
      }
      if (!has_call(files.at(before->path), step->function)) {
        faults.push_back(before->path + " does not call " + step->function + "()");
      }
    }
    before = step;
  }
  return faults;
}

// What is wrong with the order of the units of tuner/.
std::vector<std::string> order_faults(const std::vector<std::string>& lines, const Files& files) {
  std::vector<std::string> faults;
  std::map<std::string, std::size_t> ranks;  // of each unit, by path without its ending
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string unit = "tuner/" + lines[i].substr(0, lines[i].find(':'));
    if (!ranks.emplace(unit, i).second) faults.push_back(unit + " is listed twice");
    if (!files.contains(unit + ".hpp") && !files.contains(unit + ".cpp")) {
      faults.push_back("there is no " + unit);
    }
  }
  for (const auto& [path, text] : files) {
    if (!path.starts_with("tuner/") || !is_cpp(path)) continue;
    const auto rank = ranks.find(path.substr(0, path.rfind('.')));
    if (rank == ranks.end()) {
      faults.push_back(path + " is not listed");
      continue;
    }
    for (const std::string& included : quoted_includes(text)) {
      const auto other = ranks.find(included.substr(0, included.rfind('.')));
      if (other != ranks.end() && other->second > rank->second) {
        faults.push_back(path + " includes " + included + ", which stands below it");
      }
    }
  }
  return faults;
}

TEST(DecisionPath, IsThatOfTheTree) {
  const Files files = by_path(read_tree(tests::source_folder()));
  const auto lines = list_in(files.at("docs/architecture.md"), "path");
  EXPECT_GT(lines.size(), 5U);
  EXPECT_THAT(path_faults(lines, files), IsEmpty());
}

TEST(DecisionPath, TunerIncludesOneWay) {
  const Files files = by_path(read_tree(tests::source_folder()));
  const auto lines = list_in(files.at("docs/architecture.md"), "heart");
  EXPECT_GT(lines.size(), 5U);
  EXPECT_THAT(order_faults(lines, files), IsEmpty());
}

const Files kSmall = {
    {"a/main.cpp", "#include \"a/run.hpp\"\n#include \"a/all.hpp\"\nint main() { run(); }\n"},
    {"a/run.hpp", "void run();\n"},
    {"a/run.cpp", "#include \"a/run.hpp\"\nvoid run() { Decider().decide(1); }\n"},
    {"a/all.hpp", "void help();\n"},
    {"a/help.cpp", "#include \"a/all.hpp\"\nvoid help() {}\n"},
    {"a/decide.hpp", ""},
    {"a/decide.cpp", "bool Decider::decide(int) { return true; }\n"}};

TEST(DecisionPath, OfASmallTreeIsAccepted) {
  EXPECT_THAT(path_faults({"a/main.cpp: main(): starts", "a/run.cpp: run(): runs",
                           "a/decide.cpp: Decider::decide(): in a process of its own"},
                          kSmall),
              IsEmpty());
}

TEST(DecisionPath, FindsEachFault) {
  EXPECT_THAT(path_faults({"a/main.cpp: main(): x", "a/none.cpp: run(): x"}, kSmall),
              ElementsAre("there is no a/none.cpp"));
  EXPECT_THAT(path_faults({"a/main.cpp: main(): x", "a/run.cpp: run(): x",
                           "a/main.cpp: main(): in "
                           "a process of its own"},
                          kSmall),
              ElementsAre("a/main.cpp is opened twice"));
  EXPECT_THAT(path_faults({"a/run.cpp: run(): x", "a/decide.cpp: Decider::decide(): x"}, kSmall),
              ElementsAre("a/run.cpp does not include what declares a/decide.cpp"));
  EXPECT_THAT(path_faults({"a/main.cpp: main(): x", "a/help.cpp: help(): x"}, kSmall),
              ElementsAre("a/main.cpp does not call help()"));
  EXPECT_THAT(path_faults({"a/main.cpp: walk(): x"}, kSmall),
              ElementsAre("a/main.cpp has no walk()"));
  EXPECT_THAT(path_faults({"a/main.cpp starts"}, kSmall), ElementsAre(HasSubstr("not 'file: ")));
}

TEST(DecisionPath, FindsAnArrowUpAndAUnitThatIsNotListed) {
  const Files files = {
      {"tuner/low.hpp", ""},
      {"tuner/low.cpp", "#include \"tuner/low.hpp\"\n#include \"tuner/high.hpp\"\n"},
      {"tuner/high.hpp", "#include \"tuner/low.hpp\"\n"},
      {"tuner/CMakeLists.txt", ""}};
  EXPECT_THAT(order_faults({"low: x", "high: x"}, files),
              ElementsAre("tuner/low.cpp includes tuner/high.hpp, which stands below it"));
  EXPECT_THAT(order_faults({"high: x", "high: x", "lower: x"}, files),
              ElementsAre("tuner/high is listed twice", "there is no tuner/lower",
                          "tuner/low.cpp is not listed", "tuner/low.hpp is not listed"));
}

TEST(DecisionPath, SaysWhichListIsMissing) {
  EXPECT_THROW((void)list_in("# Architecture\n", "path"), std::runtime_error);
}

}  // namespace
}  // namespace autotuned::style
